import { queryOptions } from '@tanstack/react-query'
import { conditionOf, type ToolListing } from '../../../../src/core/tools/listing.ts'
import { queries } from '../../api/queries.ts'
import { toolsQuery } from '../../api/tools.ts'
import { isRecord, type ToolDetails, toolQuery } from '../tool/tool-data.ts'

/** One value that a person can type in a small field. */
interface SimpleField {
  readonly name: string
  readonly kind: 'number' | 'text'
  readonly example: string
}

export interface FirstTool {
  readonly tool: ToolDetails
  readonly fields: readonly SimpleField[]
}

interface Found {
  readonly first: FirstTool | null
  /** How many tools there are. */
  readonly count: number
  /** Whether some of them are from elsewhere. */
  readonly hasSources: boolean
}

/** How many are looked at before somebody is asked to choose for themselves. */
const MOST_LOOKED_AT = 5
const MOST_FIELDS = 3

/** A tool that changes nothing, needs nothing and takes a few plain values; `null` when there is none. */
export const firstToolQuery = queryOptions({
  queryKey: ['start', 'tool'],
  async queryFn(): Promise<Found> {
    const { listing } = await queries.ensureQueryData(toolsQuery)
    const facts = { count: listing.tools.length, hasSources: Object.keys(listing.sources).length > 0 }
    for (const id of candidates(listing)) {
      const tool = await queries.ensureQueryData(toolQuery(id, ''))
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
      rank: (tool.tier === 'pure' ? 0 : 10) + awkward(tool.fields?.length ?? 0),
    }))
    .sort((left, right) => left.rank - right.rank)
    .slice(0, MOST_LOOKED_AT)
    .map(({ id }) => id)
}

/** Something to change is better than nothing; many things are worst. */
function awkward(fields: number): number {
  if (fields === 0) return 3
  return fields > MOST_FIELDS ? fields : 0
}

/** What has to be given; `undefined` when that is more than a small field takes. */
function fieldsOf({ input_schema: schema, examples }: ToolDetails): readonly SimpleField[] | undefined {
  const properties = isRecord(schema.properties) ? schema.properties : {}
  const required = Array.isArray(schema.required) ? schema.required : []
  const [example] = examples
  const fields = Object.entries(properties).flatMap(([name, property]): (SimpleField | undefined)[] => {
    if (!required.includes(name)) return []
    const kind = isRecord(property) ? KINDS[String(property.type)] : undefined
    if (!isRecord(property) || kind === undefined) return [undefined]
    const given = isRecord(example) ? example[name] : undefined
    return [{ name, kind, example: exampleOf(property, given, kind) }]
  })
  const simple = fields.filter((field) => field !== undefined)
  return simple.length === fields.length && simple.length <= MOST_FIELDS ? simple : undefined
}

const KINDS: Readonly<Record<string, SimpleField['kind']>> = {
  number: 'number',
  integer: 'number',
  string: 'text',
}

function exampleOf(
  property: Readonly<Record<string, unknown>>,
  given: unknown,
  kind: SimpleField['kind'],
): string {
  const [first] = Array.isArray(property.examples) ? property.examples : []
  const [choice] = Array.isArray(property.enum) ? property.enum : []
  const found = given ?? property.default ?? first ?? choice
  return found === undefined ? (kind === 'number' ? '2' : 'Hello') : String(found)
}

/** As the tool takes it. What is no number is sent as written: the server says what is wrong with it. */
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
