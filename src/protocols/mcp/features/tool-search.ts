import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { selects } from '#kernel/tool/toolsets'
import { type Answer, resultAnswer } from '#protocols/mcp/codec-message'
import { toWireTool } from '#protocols/mcp/codec-tool'
import type { McpExchange, McpMethod, McpServices } from '#protocols/mcp/exchange'
import type { ListedItem } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import { wireMeta } from '#protocols/mcp/results/list-cost'
import { listedTool } from '#protocols/mcp/results/listed-tool'
import type { ToolTables } from '#protocols/mcp/tool-tables'
import type { Revision } from '#protocols/mcp/wire'
import { familiesOf } from '#search/families'
import {
  CALL_TOOL,
  DESCRIBE_TOOLS,
  describeSearch,
  MAX_DESCRIBED,
  metaTools,
  SEARCH_TOOLS,
  unknownToolText,
} from '#search/for-models'
import { MAX_FOUND } from '#search/tool-search'

/*
 * How clients find tools: with the whole list, or with a search. In search mode the list has `search_tools`, `describe_tools`,
 * `call_tool` and the favourites; every other tool can still be called by its own name. `methods.ts` opens it.
 * Invariant: `call_tool` is replaced by the call that it names before anything else reads the request, so that limits, approvals,
 * questions, tasks and the journal see the tool itself.
 */

export interface Discovery {
  /** The items of `tools/list`. */
  listed(catalog: Catalog, revision: Revision, showsApps: boolean): readonly ListedItem[]
  /** `tools/call`. */
  readonly call: McpMethod
}

export function openDiscovery(
  services: McpServices,
  envelopes: ResultEnvelopes,
  calls: { readonly tables: ToolTables; readonly call: McpMethod },
): Discovery {
  const { options, search, gateway } = services
  const isSearched = ({ shown }: Catalog): boolean =>
    search !== undefined && (shown.discovery ?? options.discovery) === 'search'

  const listed = (catalog: Catalog, revision: Revision, showsApps: boolean): readonly ListedItem[] => {
    const favourites = catalog.shown.favourites ?? options.favourites ?? []
    const shown = [...calls.tables.of(catalog).values()].filter(({ tool }) => {
      if (tool.entry !== undefined) return showsApps
      return !isSearched(catalog) || favourites.some((selector) => selects(selector, tool))
    })
    const items = shown.map((served) => listedTool(served, { catalog, revision, options }))
    if (!isSearched(catalog)) return items
    const count = catalog.latest().length
    const own = metaTools({ count, families: familiesOf(catalog) }).map((tool) => ({
      name: tool.name,
      json: JSON.stringify(wireMeta(tool, revision)),
    }))
    const names = new Set(own.map(({ name }) => name))
    return [...own, ...items.filter(({ name }) => !names.has(name))].sort((left, right) =>
      left.name < right.name ? -1 : 1,
    )
  }

  const findTools = async (input: JsonObject, exchange: McpExchange): Promise<TextResult> => {
    const { query, limit } = input
    if (typeof query !== 'string' || query.trim() === '')
      return wrong('query must be a string that describes the task.')
    const isLimit = typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= MAX_FOUND
    if (limit !== undefined && !isLimit) return wrong(`limit must be a whole number from 1 to ${MAX_FOUND}.`)
    const catalog = gateway.catalogFor(exchange.principal)
    const result = await search?.find(exchange.principal, query, isLimit ? limit : undefined)
    const nameOf = namesIn(catalog)
    return { text: describeSearch<Tool>(query, result ?? { found: [], families: [] }, nameOf) }
  }

  const namesIn = (catalog: Catalog) => {
    const names = new Map([...calls.tables.of(catalog)].map(([name, { tool }]) => [tool, name]))
    return (tool: Tool): string => names.get(tool) ?? tool.name
  }

  const describeTools = async (
    { names }: JsonObject,
    { principal, revision }: McpExchange,
  ): Promise<TextResult> => {
    const list: readonly JsonValue[] = Array.isArray(names) ? names : []
    const wanted = list.filter((name) => typeof name === 'string')
    if (wanted.length === 0 || wanted.length > MAX_DESCRIBED || wanted.length < list.length)
      return wrong(`names must be a list of 1 to ${MAX_DESCRIBED} names of tools.`)
    const catalog = gateway.catalogFor(principal)
    const described = wanted.map((name) => {
      const served = calls.tables.find(catalog, name)
      if (served === undefined || served.tool.entry !== undefined)
        return { name, error: unknownToolText(name) }
      const { _meta, execution, icons, ...wire } = toWireTool(
        served.tool,
        name,
        revision,
        catalog.hasNativeNames,
      )
      return wire
    })
    return { text: described.map((tool) => JSON.stringify(tool)).join('\n') }
  }

  return {
    listed,
    async call(params, exchange) {
      const catalog = gateway.catalogFor(exchange.principal)
      if (!isJsonObject(params) || !isSearched(catalog)) return await calls.call(params, exchange)
      const input = params.arguments ?? {}
      const asked = isJsonObject(input) ? input : {}
      const answerWith = async (made: Promise<TextResult>): Promise<Answer> => {
        await gateway.admit(exchange.principal)
        return textAnswer(await made, exchange)
      }
      if (params.name === SEARCH_TOOLS) return await answerWith(findTools(asked, exchange))
      if (params.name === DESCRIBE_TOOLS) return await answerWith(describeTools(asked, exchange))
      if (params.name !== CALL_TOOL) return await calls.call(params, exchange)
      const named = namedCall(params, asked)
      if (typeof named === 'string') return textAnswer(wrong(named), exchange)
      const { name } = named
      // Models cannot call the tools of app pages (MCP-147), so such a name is replaced by one that no tool has.
      const { apps } = exchange.capabilities
      const isForApps = calls.tables.find(catalog, name, apps)?.tool.entry !== undefined
      const rewritten = isForApps ? { ...named, name: `/${name}` } : named
      return await calls.call(rewritten, { ...exchange, namedInArguments: name })
    },
  }

  function textAnswer({ text, isError }: TextResult, { id, revision }: McpExchange): Answer {
    const failed = isError === true ? ',"isError":true' : ''
    const members = `"content":${JSON.stringify([{ type: 'text', text }])}${failed}`
    return resultAnswer(id, envelopes.of(revision).complete(members))
  }
}

interface TextResult {
  readonly text: string
  readonly isError?: true
}

function wrong(text: string): TextResult {
  return { text, isError: true }
}

/** The request that the arguments of `call_tool` describe, or an error text. Some models send the inner arguments as JSON text. */
function namedCall(params: JsonObject, { name, arguments: given = {} }: JsonObject) {
  if (typeof name !== 'string' || name === '') return 'name must be the name of a tool.'
  const input = typeof given === 'string' ? parsed(given) : given
  if (!isJsonObject(input)) return 'arguments must be an object with the parameters of the tool.'
  return { ...params, name, arguments: input }
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
