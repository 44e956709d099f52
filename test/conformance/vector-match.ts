import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'

/** `undefined` means absent; a present null is `{ value: null }`. */
export type Found = { readonly value: unknown } | undefined

/** Value at a JSON Pointer. */
export function atPointer(document: unknown, pointer: string): Found {
  let current: unknown = document
  for (const token of pointer.split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, name)) return undefined
    current = Reflect.get(current, name)
  }
  return { value: current }
}

const matcherShape = z.union([
  z.strictObject({ $type: z.string() }),
  z.strictObject({ $re: z.string() }),
  z.strictObject({ $len: z.number() }),
  z.strictObject({ $oneOf: z.array(z.unknown()) }),
  z.strictObject({ $same: z.number() }),
])

/** The reason why a value does not match the expectation of a vector; `undefined` when it matches. */
export function mismatch(
  found: Found,
  expected: unknown,
  sameAs: (step: number) => Found,
): string | undefined {
  if (found === undefined) return `is absent, expected ${JSON.stringify(expected)}`
  const { value } = found
  const matcher = matcherShape.safeParse(expected)
  const fits = matcher.success ? matches(value, matcher.data, sameAs) : isDeepStrictEqual(value, expected)
  return fits ? undefined : `is ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`
}

function matches(
  value: unknown,
  matcher: z.infer<typeof matcherShape>,
  sameAs: (step: number) => Found,
): boolean {
  if ('$type' in matcher) return jsonType(value) === matcher.$type
  if ('$re' in matcher) return typeof value === 'string' && new RegExp(matcher.$re).test(value)
  if ('$len' in matcher)
    return (Array.isArray(value) || typeof value === 'string') && value.length === matcher.$len
  if ('$oneOf' in matcher) return matcher.$oneOf.some((choice) => isDeepStrictEqual(choice, value))
  return isDeepStrictEqual(value, sameAs(matcher.$same)?.value)
}

function jsonType(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
