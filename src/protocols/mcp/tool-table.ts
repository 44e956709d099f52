import { shortHash } from '#core/hash'
import { LATEST, parseToolName, type ToolRef } from '#core/ids'
import type { Tool } from '#core/tool'
import type { Catalog } from '#core/tools/catalog'
import type { HeaderParameter } from './codec-param-headers.ts'
import { headersAskedBy } from './codec-tool.ts'

/** A tool under its name here: its newest version. */
export interface ServedTool {
  readonly name: string
  readonly tool: Tool
  readonly ref: ToolRef
  readonly headers: readonly HeaderParameter[]
}

/** MCP-50, T-13: what every client takes. */
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/
const LONGEST = 64

/** The tools each principal can call, by name and in the order of names. Made once per catalog. */
export class ToolTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedTool>>()

  /** By its name in the list, or by any other of its names. */
  find(catalog: Catalog, name: string): ServedTool | undefined {
    return this.of(catalog).get(name) ?? byOtherName(catalog, name)
  }

  /** MCP-42: sorted, so that two reads are equal. */
  of(catalog: Catalog): ReadonlyMap<string, ServedTool> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const table = makeTable(catalog.latest())
    this.#byCatalog.set(catalog, table)
    return table
  }
}

function byOtherName(catalog: Catalog, name: string): ServedTool | undefined {
  const ref = parseToolName(name)
  const tool = ref === undefined ? undefined : catalog.resolve(ref)
  if (ref === undefined || tool === undefined) return undefined
  const { base } = tool.parts
  return { name, tool, ref: { base, version: ref.version }, headers: headersAskedBy(tool) }
}

function makeTable(tools: readonly Tool[]): ReadonlyMap<string, ServedTool> {
  const named = new Map<string, Tool>()
  const sorted = [...tools].sort((left, right) => compare(left.parts.base, right.parts.base))
  for (const tool of sorted) if (LEGAL.test(tool.name) && !named.has(tool.name)) named.set(tool.name, tool)
  for (const tool of sorted) if (named.get(tool.name) !== tool) named.set(freeName(tool), tool)
  const entries = [...named].sort(([left], [right]) => compare(left, right))
  return new Map(
    entries.map(([name, tool]) => {
      const ref = { base: tool.parts.base, version: LATEST }
      return [name, { name, tool, ref, headers: headersAskedBy(tool) }]
    }),
  )
}

/** Two tools that want one name, or one that is none: a digest tells them apart. */
function freeName({ name, parts }: Tool): string {
  const digest = shortHash(parts.base)
  return `${name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, LONGEST - digest.length - 1)}_${digest}`
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
