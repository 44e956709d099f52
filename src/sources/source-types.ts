import { z } from 'zod'
import type { ToolId } from '#kernel/base/ids'
import { SOURCE_KINDS, type SourceKind } from '#kernel/tool/tool'
import type { OfferedTool, Source, SourceServices } from '#sources/kit/source'
import { COMMAND_OPTIONS } from './command/options.ts'
import { MCP_OPTIONS } from './mcp/options.ts'
import { OPENAPI_OPTIONS } from './openapi/options.ts'
import { OPENTOOL_OPTIONS } from './opentool/options.ts'
import { keptId, OTC_OPTIONS } from './otc/options.ts'
import { PACK_OPTIONS } from './pack/options.ts'

/*
 * The table of source types. A new type is a folder next to this file and a row here.
 * The config schema, the server and the command line read it.
 * Invariant: the code of a type is loaded when its first source is opened.
 */

/** A source written as code, for upstreams that no other type supports. */
const CUSTOM_OPTIONS = z.strictObject({
  type: z.literal('custom'),
  description: z.string().min(1).optional(),
  kind: z.enum(SOURCE_KINDS).default('connector'),
  open: z.custom<(key: string, services: SourceServices) => Source>((value) => typeof value === 'function', {
    error: 'expected a function that returns a source: (key, services) => ({ discover, invoke, … }).',
  }),
})

type OpenArgs<Schema extends z.ZodType> = [key: string, options: z.output<Schema>, services: SourceServices]

/** Every source type: its options, the kind of its tools in the catalog, and how it is opened. */
const SOURCE_TYPES = [
  {
    options: COMMAND_OPTIONS,
    kind: 'host-extension',
    open: async (...source: OpenArgs<typeof COMMAND_OPTIONS>) =>
      (await import('./command/index.ts')).createCommandSource(...source),
  },
  {
    options: MCP_OPTIONS,
    kind: 'mcp',
    open: async (...source: OpenArgs<typeof MCP_OPTIONS>) =>
      (await import('./mcp/index.ts')).createMcpSource(...source),
  },
  {
    options: OPENAPI_OPTIONS,
    kind: 'connector',
    open: async (...source: OpenArgs<typeof OPENAPI_OPTIONS>) =>
      (await import('./openapi/index.ts')).createOpenapiSource(...source),
  },
  {
    options: OTC_OPTIONS,
    kind: 'connector',
    open: async (...source: OpenArgs<typeof OTC_OPTIONS>) =>
      (await import('./otc/index.ts')).createOtcSource(...source),
  },
  {
    options: OPENTOOL_OPTIONS,
    kind: 'connector',
    open: async (...source: OpenArgs<typeof OPENTOOL_OPTIONS>) =>
      (await import('./opentool/index.ts')).createOpenToolSource(...source),
  },
  {
    options: PACK_OPTIONS,
    kind: 'node-pack',
    open: async (...source: OpenArgs<typeof PACK_OPTIONS>) =>
      (await import('./pack/index.ts')).createPackSource(...source),
  },
  {
    options: CUSTOM_OPTIONS,
    kind: 'connector',
    open: async (...[key, { open }, services]: OpenArgs<typeof CUSTOM_OPTIONS>) => open(key, services),
  },
] as const

const [firstType, ...otherTypes] = SOURCE_TYPES

export const SOURCE_OPTIONS = z.discriminatedUnion('type', [
  firstType.options,
  ...otherTypes.map(({ options }) => options),
])

export type SourceOptions = z.output<typeof SOURCE_OPTIONS>

/** A row of the table, for any type of options. */
interface SourceType {
  readonly options: { readonly shape: { readonly type: { readonly value: string } } }
  readonly kind: SourceKind
  open(...source: OpenArgs<typeof SOURCE_OPTIONS>): Promise<Source>
}

const BY_TYPE: ReadonlyMap<string, SourceType> = new Map(
  SOURCE_TYPES.map((row) => [row.options.shape.type.value, row]),
)

/** Opens a source of any type; throws if its options cannot be used here. */
export async function openSource(...source: OpenArgs<typeof SOURCE_OPTIONS>): Promise<Source> {
  return typeOf(source[1]).open(...source)
}

export function sourceKind(options: SourceOptions): SourceKind {
  return options.type === 'custom' ? options.kind : typeOf(options).kind
}

/** The id that an accepted tool keeps from its upstream; `undefined` if its source names it. */
export function keptIdOf(options: SourceOptions, tool: Pick<OfferedTool, 'nativeName'>): ToolId | undefined {
  return options.type === 'otc' ? keptId(options, tool) : undefined
}

function typeOf({ type }: SourceOptions): SourceType {
  const found = BY_TYPE.get(type)
  if (found === undefined) throw new TypeError(`there is no source type "${type}"`)
  return found
}
