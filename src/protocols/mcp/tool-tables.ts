import { shortHash } from '#kernel/base/hash'
import { LATEST, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { type HeaderParameter, headersAskedBy } from './codec-tool.ts'

/*
 * The tools of a catalog by the names that MCP clients use (MCP-42, MCP-50), or by the names at their sources if the toolset says
 * so (MCP-170). `tools/list` and `tools/call` share one instance.
 * Invariant: every read of a catalog returns the same names in the same order.
 */

/** The newest version of a tool or entry, under its name in the list. */
export interface ServedTool {
  readonly name: string
  readonly tool: Tool
  readonly ref: ToolRef
  readonly headers: readonly HeaderParameter[]
}

/** Names that every client accepts (MCP-50, MCP/T-13). */
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/
const MAX_LENGTH = 64

export class ToolTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedTool>>()
  readonly #forPages = new WeakMap<Catalog, ReadonlyMap<string, ServedTool>>()

  /**
   * Finds a tool by its name in the list or by another of its names. Includes the tools that only app pages may call, and for a
   * client that shows such pages the names that they know (MCP-148).
   */
  find(catalog: Catalog, name: string, showsApps = false): ServedTool | undefined {
    const found = this.of(catalog).get(name) ?? byOtherName(catalog, name)
    return found === undefined && showsApps ? this.#ofPages(catalog).get(name) : found
  }

  /** Sorted by name (MCP-42). Includes the tools that only app pages may call (MCP-147). */
  of(catalog: Catalog): ReadonlyMap<string, ServedTool> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const table = makeTable([...catalog.latest(), ...catalog.listed('appTool')], catalog.hasNativeNames)
    this.#byCatalog.set(catalog, table)
    return table
  }

  /** By the names at their sources, because a page of an app knows no others. A name of several sources is left out. */
  #ofPages(catalog: Catalog): ReadonlyMap<string, ServedTool> {
    const known = this.#forPages.get(catalog)
    if (known !== undefined) return known
    const all = [...this.of(catalog).values()]
    const withPages = new Set(
      all.flatMap(({ tool }) => (uiOf(tool)?.resourceUri === undefined ? [] : [tool.parts.toolkit])),
    )
    const callable = all.filter(({ tool }) => withPages.has(tool.parts.toolkit) && pagesMayCall(tool))
    const named = nativeNames(callable, ({ tool }) => nativeNameOf(tool))
    const table = new Map([...named].map(([name, served]) => [name, { ...served, name }]))
    this.#forPages.set(catalog, table)
    return table
  }
}

function uiOf({ passedOn }: Tool): JsonObject | undefined {
  const meta = isJsonObject(passedOn?._meta) ? passedOn._meta : undefined
  return isJsonObject(meta?.ui) ? meta.ui : undefined
}

function pagesMayCall(tool: Tool): boolean {
  const visibility = uiOf(tool)?.visibility
  return !Array.isArray(visibility) || visibility.includes('app')
}

function byOtherName(catalog: Catalog, name: string): ServedTool | undefined {
  const ref = parseToolName(name)
  const tool = ref === undefined ? undefined : catalog.resolve(ref)
  if (ref === undefined || tool === undefined) return undefined
  const { base } = tool.parts
  return { name, tool, ref: { base, version: ref.version }, headers: headersAskedBy(tool) }
}

function makeTable(tools: readonly Tool[], isNative: boolean): ReadonlyMap<string, ServedTool> {
  const sorted = [...tools].sort((left, right) => compare(left.parts.base, right.parts.base))
  const named = isNative ? nativeNames(sorted, nativeNameOf) : new Map<string, Tool>()
  const done = new Set(named.values())
  const prefixed = sorted.filter((tool) => !done.has(tool))
  for (const tool of prefixed) if (LEGAL.test(tool.name) && !named.has(tool.name)) named.set(tool.name, tool)
  for (const tool of prefixed) if (named.get(tool.name) !== tool) named.set(freeName(tool), tool)
  const entries = [...named].sort(([left], [right]) => compare(left, right))
  return new Map(
    entries.map(([name, tool]) => {
      const ref = { base: tool.parts.base, version: LATEST, ...(tool.entry && { entry: tool.entry.kind }) }
      return [name, { name, tool, ref, headers: headersAskedBy(tool) }]
    }),
  )
}

function nativeNameOf({ nativeName, name }: Tool): string {
  return nativeName ?? name
}

/** Items by their names at the source. A name that several items share is left out; those items keep their prefixes (MCP-171). */
export function nativeNames<Item>(items: readonly Item[], nameOf: (item: Item) => string): Map<string, Item> {
  const groups = Map.groupBy(items, nameOf)
  return new Map(
    [...groups].flatMap(([name, [item, ...others]]) =>
      item === undefined || others.length > 0 ? [] : [[name, item] as const],
    ),
  )
}

/** A name with a digest, for a tool whose own name is taken or not accepted by clients. */
function freeName({ name, parts }: Tool): string {
  const digest = shortHash(parts.base)
  return `${name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_LENGTH - digest.length - 1)}_${digest}`
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
