import { queryOptions } from '@tanstack/react-query'
import { conditionOf, type ToolListing } from '../../../../src/kernel/tool/listing.ts'
import { requestJson } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { toolsQuery } from '../../api/tools.ts'

/*
 * Finds a tool for the first call: one that changes nothing, requires nothing and takes a few plain values. Used by `page.tsx` and
 * `try-step.tsx`.
 */

/** A parameter that fits a small field. */
interface SimpleField {
  readonly name: string
  readonly kind: 'number' | 'text'
  readonly example: string
}

/** The part of a tool that the first step needs. */
interface ToolDetails {
  readonly base: string
  readonly policy: { readonly tier: string }
  readonly input_schema: {
    readonly properties?: Readonly<Record<string, Property>>
    readonly required?: readonly string[]
  }
  readonly examples: readonly (Readonly<Record<string, unknown>> | undefined)[]
}

interface Property {
  readonly type?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly enum?: readonly unknown[]
}

export interface FirstTool {
  readonly tool: ToolDetails
  readonly fields: readonly SimpleField[]
}

interface Found {
  readonly first: FirstTool | null
  readonly count: number
  /** Whether any source was added. */
  readonly hasSources: boolean
}

/** How many tools are considered before the person has to choose. */
const MAX_SCANNED = 5
const MAX_FIELDS = 3

/** A tool that changes nothing, requires nothing and takes a few plain values; `null` if there is none. */
export const firstToolQuery = queryOptions({
  queryKey: ['start', 'tool'],
  async queryFn({ signal }): Promise<Found> {
    const { listing } = await queries.ensureQueryData(toolsQuery)
    const facts = { count: listing.tools.length, hasSources: Object.keys(listing.sources).length > 0 }
    for (const id of candidates(listing)) {
      const { tool } = await requestJson<{ readonly tool: ToolDetails }>(
        `/admin/tools/${encodeURIComponent(id)}`,
        {
          signal,
        },
      )
      const fields = fieldsOf(tool)
      if (fields !== undefined) return { first: { tool, fields }, ...facts }
    }
    return { first: null, ...facts }
  },
  staleTime: 60_000,
})

function candidates(listing: ToolListing): readonly string[] {
  return listing.tools
    .filter(
      (tool) =>
        (tool.tier === 'pure' || tool.tier === 'read') &&
        tool.approval === undefined &&
        (tool.needs ?? []).length === 0 &&
        conditionOf(tool, listing) === undefined,
    )
    .map((tool) => ({
      id: tool.id,
      rank: (tool.tier === 'pure' ? 0 : 10) + fieldPenalty(tool.fields?.length ?? 0),
    }))
    .sort((left, right) => left.rank - right.rank)
    .slice(0, MAX_SCANNED)
    .map(({ id }) => id)
}

/** Tools with a few parameters come first, then tools without any, then tools with many. */
function fieldPenalty(fields: number): number {
  if (fields === 0) return 3
  return fields > MAX_FIELDS ? fields : 0
}

/** The required parameters; `undefined` if they do not fit small fields. */
function fieldsOf({ input_schema, examples: [example] }: ToolDetails): readonly SimpleField[] | undefined {
  const { properties = {}, required = [] } = input_schema
  const fields = required.flatMap((name): readonly SimpleField[] => {
    const property = properties[name]
    const kind = KINDS[String(property?.type)]
    if (property === undefined || kind === undefined) return []
    return [{ name, kind, example: exampleOf(property, example?.[name], kind) }]
  })
  return fields.length === required.length && fields.length <= MAX_FIELDS ? fields : undefined
}

const KINDS: Readonly<Record<string, SimpleField['kind']>> = {
  number: 'number',
  integer: 'number',
  string: 'text',
}

function exampleOf(property: Property, given: unknown, kind: SimpleField['kind']): string {
  const found = given ?? property.default ?? property.examples?.[0] ?? property.enum?.[0]
  return found === undefined ? (kind === 'number' ? '2' : 'Hello') : String(found)
}

/** The input from the typed values. An invalid number is sent as typed, and the server reports it. */
export function inputOf(
  fields: readonly SimpleField[],
  values: Readonly<Record<string, string>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    fields.map(({ name, kind, example }) => {
      const text = values[name] ?? example
      const number = Number(text)
      return [name, kind === 'number' && text.trim() !== '' && !Number.isNaN(number) ? number : text]
    }),
  )
}
