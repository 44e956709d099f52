/**
 * What each library's converter must be told so that all behave alike: checks that only code can do are left
 * to the library's own parse, and types that JSON lacks are refused instead of becoming "anything".
 */
export function libraryOptions(vendor: string): { readonly libraryOptions?: Record<string, unknown> } {
  const options = OPTIONS.get(vendor)
  return options === undefined ? {} : { libraryOptions: options }
}

const OPTIONS: ReadonlyMap<string, Record<string, unknown>> = new Map([
  [
    'arktype',
    {
      fallback: {
        date: () => refuse('Date'),
        proto: (found: { readonly proto: { readonly name: string } }) => refuse(found.proto.name),
        domain: (found: { readonly domain: string }) => refuse(found.domain),
        unit: (found: { readonly unit: unknown }) => refuse(String(found.unit)),
        symbolKey: () => refuse('A symbol as key'),
      },
    },
  ],
  ['valibot', { ignoreActions: ['check', 'check_items', 'partial_check', 'raw_check'] }],
])

function refuse(what: string): never {
  throw new Error(`${what} cannot be represented in JSON Schema`)
}
