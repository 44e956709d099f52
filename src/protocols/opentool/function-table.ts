import { LATEST, parseToolName, type ToolRef } from '#core/ids'
import type { Tool } from '#core/tool'
import type { Catalog } from '#core/tools/catalog'
import { openAnswer } from './codec-answer.ts'
import { assignNames } from './codec-convert-names.ts'
import { returnNameOf } from './codec-convert-tools.ts'

/** A tool as a function: its newest version, under its name for models. */
export interface ServedFunction {
  readonly tool: Tool
  readonly ref: ToolRef
  /** How its answers begin. */
  readonly opening: string
}

/** The functions each principal can call, by name. Made once per catalog. */
export class FunctionTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedFunction>>()

  /** By its name in the document, or by any other of its names. */
  find(catalog: Catalog, name: string): ServedFunction | undefined {
    return this.#tableOf(catalog).get(name) ?? this.#byOtherName(catalog, name)
  }

  #byOtherName(catalog: Catalog, name: string): ServedFunction | undefined {
    const ref = parseToolName(name)
    const tool = ref === undefined ? undefined : catalog.resolve(ref)
    if (ref === undefined || tool === undefined) return undefined
    return { ...toFunction(tool), ref: { base: tool.parts.base, version: ref.version } }
  }

  #tableOf(catalog: Catalog): ReadonlyMap<string, ServedFunction> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const tools = catalog.latest()
    // The same names as in the document of these tools (OTS-84).
    const { nameOf } = assignNames(tools.map(({ parts, name }) => ({ key: parts.base, name })))
    const table = new Map(tools.map((tool) => [nameOf.get(tool.parts.base) ?? tool.name, toFunction(tool)]))
    this.#byCatalog.set(catalog, table)
    return table
  }
}

function toFunction(tool: Tool): ServedFunction {
  return {
    tool,
    ref: { base: tool.parts.base, version: LATEST },
    opening: openAnswer(returnNameOf(tool)),
  }
}
