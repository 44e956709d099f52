import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import type { CallMethod } from '#protocols/mcp/call-params'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, type Revision } from '#protocols/mcp/wire'
import { type EntryTables, listedEntry, type ServedEntry } from './entry-tables.ts'

/*
 * Prompts (`prompts/list`, `prompts/get`: MCP-110 to MCP-112) and `completion/complete`, which gives values for an argument of a
 * prompt or of a resource template (MCP-117). `methods.ts` lists both features.
 * Invariant: getting a prompt is a durable call of its entry, with the same limits, credentials and journal as a tool; an entry
 * that the caller may not see is unknown to both.
 */

export function promptFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  { calls, tables }: { readonly calls: ToolCalls; readonly tables: EntryTables },
): McpFeature {
  const get: CallMethod = {
    noun: 'prompt',
    resolve: (params, catalog) => resolvePrompt(params, catalog, tables),
  }
  const prompts = {
    member: 'prompts',
    itemsOf: (catalog: Catalog, revision: Revision) =>
      [...tables.of(catalog, 'prompt').values()].map((served) =>
        listedEntry(served, { name: served.name }, revision),
      ),
  } as const
  return {
    capabilities: { prompts: { listChanged: true } },
    methods: [
      ['prompts/list', ALL_REVISIONS, listMethod(services, envelopes, prompts)],
      ['prompts/get', ALL_REVISIONS, (params, exchange) => calls.call(get, params, exchange)],
    ],
  }
}

function resolvePrompt({ name, arguments: input = {} }: JsonObject, catalog: Catalog, tables: EntryTables) {
  if (typeof name !== 'string') return 'params.name must be the name of a prompt.'
  if (!isJsonObject(input)) return 'params.arguments must be an object of texts.'
  return { name, input, served: tables.of(catalog, 'prompt').get(name) }
}

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
