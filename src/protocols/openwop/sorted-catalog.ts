import type { Catalog } from '#core/catalog'
import type { Tool } from '#core/tool'

/** A principal's catalog as this protocol has it: the newest version of each tool, by openwop id. */
export interface SortedCatalog {
  /** By code unit of the id, so that an unchanged catalog reads the same (OWP-17). */
  readonly tools: readonly Tool[]
  /** Hidden and unknown are both absent here (rule 2). */
  readonly byId: ReadonlyMap<string, Tool>
}

const known = new WeakMap<Catalog, SortedCatalog>()

/** Sorted once per catalog. */
export function sortCatalog(catalog: Catalog): SortedCatalog {
  const earlier = known.get(catalog)
  if (earlier !== undefined) return earlier
  const tools = catalog.latest().toSorted(byCatalogId)
  const sorted = { tools, byId: new Map(tools.map((tool) => [tool.catalogId, tool])) }
  known.set(catalog, sorted)
  return sorted
}

function byCatalogId(left: Tool, right: Tool): number {
  return left.catalogId < right.catalogId ? -1 : 1
}
