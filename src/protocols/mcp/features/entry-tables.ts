import { type EntryKind, LATEST } from '#kernel/base/ids'
import type { JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import type { ListedEntry, Tool } from '#kernel/tool/tool'
import type { ListedItem } from '#protocols/mcp/lists'
import { nativeNames, type ServedTool } from '#protocols/mcp/tool-tables'
import { type Revision, TRAITS } from '#protocols/mcp/wire'

/*
 * Finds the entries of a catalog by the names that clients use, and writes them for lists. The features for prompts, resources,
 * completion and skills share one instance.
 * Invariant: an entry that the principal may not see is absent, like an unknown one (rule 2).
 */

/** An entry that a client can call. */
export interface ServedEntry extends ServedTool {
  readonly entry: ListedEntry
}

export class EntryTables {
  readonly #byCatalog = new WeakMap<Catalog, Map<EntryKind, ReadonlyMap<string, ServedEntry>>>()

  /** The newest version of each entry of a kind, sorted by name. */
  of(catalog: Catalog, kind: EntryKind): ReadonlyMap<string, ServedEntry> {
    const tables = this.#byCatalog.get(catalog) ?? new Map<EntryKind, ReadonlyMap<string, ServedEntry>>()
    this.#byCatalog.set(catalog, tables)
    const table = tables.get(kind) ?? makeTable(catalog.listed(kind), catalog.hasNativeNames)
    tables.set(kind, table)
    return table
  }

  /** The entry of a kind that belongs to the same source as another one. */
  ofSameSource(catalog: Catalog, kind: EntryKind, { parts }: Tool): ServedEntry | undefined {
    return [...this.of(catalog, kind).values()].find(({ tool }) => tool.parts.toolkit === parts.toolkit)
  }
}

function makeTable(tools: readonly Tool[], isNative: boolean): ReadonlyMap<string, ServedEntry> {
  // The oldest versions come first, so the newest one remains in the map.
  const newest = new Map(tools.flatMap((tool) => (tool.entry === undefined ? [] : [[tool.entry.name, tool]])))
  const native = isNative ? nativeNames([...newest.values()], nativeNameOf) : new Map<string, Tool>()
  const names = new Map([...native].map(([name, tool]) => [tool, name]))
  const found = [...newest.values()].flatMap((tool): [string, ServedEntry][] => {
    const { entry, parts } = tool
    if (entry === undefined) return []
    const ref = { base: parts.base, version: LATEST, entry: entry.kind }
    const name = names.get(tool) ?? entry.name
    return [[name, { name, tool, ref, headers: [], entry }]]
  })
  return new Map(found.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0)))
}

/** Clients use names only for prompts; the other entries are found by address. */
function nativeNameOf({ entry }: Tool): string {
  const name = entry?.kind === 'prompt' ? entry.definition.name : undefined
  return typeof name === 'string' ? name : (entry?.name ?? '')
}

/** An entry as a list of one revision shows it: its definition with the members `named`. */
export function listedEntry({ name, entry }: ServedEntry, named: JsonObject, revision: Revision): ListedItem {
  const { icons, ...definition } = entry.definition
  const shown = icons !== undefined && TRAITS[revision].hasIcons ? { ...definition, icons } : definition
  return { name, json: JSON.stringify({ ...shown, ...named }) }
}
