import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import type { McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { CallMethod, ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, type Revision } from '#protocols/mcp/wire'
import { type EntryTables, listedEntry } from './entry-tables.ts'

/*
 * Prompts: `prompts/list` and `prompts/get` (MCP-110 to MCP-112).
 * `methods.ts` lists the feature.
 * Invariant: getting a prompt is a durable call of its entry, with the same limits, credentials and journal as a tool.
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
