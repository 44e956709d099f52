import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS } from '#protocols/mcp/wire'
import type { EntryTables, ServedEntry } from './entry-tables.ts'

/*
 * `completion/complete`: values for an argument of a prompt or of a resource template (MCP-117).
 * `methods.ts` lists the feature.
 * Invariant: only arguments of entries that the caller may see are completed; those of any other entry are unknown.
 */

const NOTHING = '"completion":{"values":[],"total":0,"hasMore":false}'

export function completionFeature(
  { gateway }: McpServices,
  envelopes: ResultEnvelopes,
  { calls, tables }: { readonly calls: ToolCalls; readonly tables: EntryTables },
): McpFeature {
  const complete = async (params: JsonObject, exchange: McpExchange): Promise<Answer> => {
    const { id, principal, revision } = exchange
    const catalog = gateway.catalogFor(principal)
    const about = findEntry(params.ref, catalog, tables)
    if (typeof about === 'string') return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: about })
    const completions = tables.ofSameSource(catalog, 'completions', about.tool)
    if (completions === undefined) return resultAnswer(id, envelopes.of(revision).complete(NOTHING))
    const { argument, context } = params
    const input = {
      ref: nativeRef(about),
      ...(argument === undefined ? {} : { argument }),
      ...(context === undefined ? {} : { context }),
    }
    const name = completions.name
    const method = { noun: 'completion', resolve: () => ({ name, input, served: completions }) } as const
    return await calls.call(method, params, exchange)
  }
  return {
    capabilities: { completions: {} },
    methods: [
      [
        'completion/complete',
        ALL_REVISIONS,
        (params, exchange) => complete(isJsonObject(params) ? params : {}, exchange),
      ],
    ],
  }
}

/** The entry that a reference names; a text if there is none. */
function findEntry(
  ref: JsonObject[string] | undefined,
  catalog: Catalog,
  tables: EntryTables,
): ServedEntry | string {
  if (!isJsonObject(ref)) return 'params.ref must name a prompt or a resource template.'
  const { type, name, uri } = ref
  if (type === 'ref/prompt' && typeof name === 'string')
    return tables.of(catalog, 'prompt').get(name) ?? `Unknown prompt: ${name}`
  if (type === 'ref/resource' && typeof uri === 'string') {
    const templates = [...tables.of(catalog, 'template').values()]
    const found = templates.find(({ entry }) => entry.definition.uriTemplate === uri)
    return found ?? `Unknown resource template: ${uri}`
  }
  return 'params.ref must be { "type": "ref/prompt", "name" } or { "type": "ref/resource", "uri" }.'
}

/** The reference as the upstream knows it. */
function nativeRef({ entry: { kind, definition } }: ServedEntry): JsonObject {
  return kind === 'prompt'
    ? { type: 'ref/prompt', name: definition.name ?? '' }
    : { type: 'ref/resource', uri: definition.uriTemplate ?? '' }
}
