import type { JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { selects } from '#kernel/tool/toolsets'
import type { McpOptions } from '#protocols/mcp/exchange'
import { ToolTables } from '#protocols/mcp/tool-tables'
import { type Revision, TRAITS } from '#protocols/mcp/wire'
import { familiesOf } from '#search/families'
import { metaTools } from '#search/for-models'
import { tokensOfTool } from '#search/token-count'
import { listedTool } from './listed-tool.ts'
import { listedReadTool } from './read-result.ts'

/*
 * What `tools/list` of a catalog costs a model, as a list and in search mode. The start-up output of a server, the admin API and
 * the console show it.
 * Invariant: the tools are counted as they are listed, with the names, notes and shortened texts of this server.
 */

const REVISION: Revision = '2025-11-25'

interface Cost {
  readonly tools: number
  readonly bytes: number
  readonly tokens: number
}

export interface ListCost {
  /** How this server lists tools. */
  readonly discovery: 'list' | 'search'
  readonly list: Cost
  readonly search: Cost
  /** The most expensive first. */
  readonly each: readonly ToolCost[]
}

interface ToolCost {
  /** The id without a version. */
  readonly id: string
  readonly name: string
  readonly bytes: number
  readonly tokens: number
}

type CostOptions = Pick<McpOptions, 'discovery' | 'favourites' | 'compact' | 'modelBytes'>

const TABLES = new ToolTables()
const KNOWN = new WeakMap<Catalog, { readonly key: string; readonly cost: ListCost }>()

/** The names under which models get the tools of a catalog. */
export function namesForModels(catalog: Catalog): ReadonlyMap<unknown, string> {
  return new Map([...TABLES.of(catalog)].map(([name, { tool }]) => [tool, name]))
}

/** Computed once for a catalog and its settings. */
export function listCost(catalog: Catalog, options: CostOptions): ListCost {
  const { discovery, favourites = [], compact, modelBytes } = options
  const key = JSON.stringify([discovery, favourites, compact, modelBytes])
  const known = KNOWN.get(catalog)
  if (known?.key === key) return known.cost
  const pinned = catalog.shown.favourites ?? favourites
  const rows = [...TABLES.of(catalog).values()].flatMap((served) => {
    const { name, tool } = served
    if (tool.entry !== undefined) return []
    const { json } = listedTool(served, { catalog, revision: REVISION, options: { compact, modelBytes } })
    const isPinned = pinned.some((selector) => selects(selector, tool))
    return [{ id: tool.parts.base, name, isPinned, ...costOf(json) }]
  })
  const read = listedReadTool(TABLES.of(catalog), modelBytes, REVISION).map(({ json }) => costOf(json))
  const own = metaTools({ count: catalog.latest().length, families: familiesOf(catalog) }).map((tool) =>
    costOf(JSON.stringify(wireMeta(tool, REVISION))),
  )
  const cost: ListCost = {
    discovery: catalog.shown.discovery ?? discovery ?? 'list',
    list: sumOf([...rows, ...read]),
    search: sumOf([...own, ...read, ...rows.filter(({ isPinned }) => isPinned)]),
    each: rows
      .map(({ isPinned, ...row }) => row)
      .sort((left, right) => right.tokens - left.tokens || (left.id < right.id ? -1 : 1)),
  }
  KNOWN.set(catalog, { key, cost })
  return cost
}

function costOf(json: string): Omit<Cost, 'tools'> {
  return { bytes: Buffer.byteLength(json), tokens: tokensOfTool(JSON.parse(json)) }
}

function sumOf(rows: readonly Omit<Cost, 'tools'>[]): Cost {
  return {
    tools: rows.length,
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
    tokens: rows.reduce((sum, { tokens }) => sum + tokens, 0),
  }
}

/** A tool of search mode, as `tools/list` shows it. */
export function wireMeta(
  { isCall, ...tool }: ReturnType<typeof metaTools>[number],
  revision: Revision,
): JsonObject {
  const hasTasks = isCall && TRAITS[revision].tasks === 'requested'
  return { ...tool, ...(hasTasks ? { execution: { taskSupport: 'optional' } } : {}) }
}
