import type { Tool } from './tool.ts'
import { LATEST, plainVersion, type ToolRef } from './tool-id.ts'

/** The tools one principal may see, frozen. Everything it asks is answered from here (rule 2). */
export class Catalog {
  /** In registration order, every version (T-22). */
  readonly tools: readonly Tool[]
  readonly #byId: ReadonlyMap<string, Tool>
  /** By base name and plain version, as requests are read. */
  readonly #byRef: ReadonlyMap<string, Tool>
  readonly #latest: ReadonlyMap<string, Tool>
  readonly #versions: ReadonlyMap<string, readonly Tool[]>

  /** `byAge` holds the versions of each base name, oldest first. */
  constructor(tools: readonly Tool[], byAge: ReadonlyMap<string, readonly Tool[]>) {
    this.tools = tools
    this.#byId = new Map(tools.map((tool) => [tool.id, tool]))
    this.#byRef = new Map(
      tools.map((tool) => [`${tool.parts.base}@${plainVersion(tool.parts.version)}`, tool]),
    )
    this.#versions = byAge
    this.#latest = new Map(
      [...byAge].flatMap(([base, versions]) => {
        const newest = versions.at(-1)
        return newest === undefined ? [] : [[base, newest] as const]
      }),
    )
  }

  resolve(ref: ToolRef): Tool | undefined {
    return ref.version === LATEST ? this.#latest.get(ref.base) : this.#byRef.get(`${ref.base}@${ref.version}`)
  }

  get(id: string): Tool | undefined {
    return this.#byId.get(id)
  }

  /** Newest version of each tool, in registration order of the base names. */
  latest(): readonly Tool[] {
    return [...this.#latest.values()]
  }

  versionsOf(base: string): readonly Tool[] {
    return this.#versions.get(base) ?? []
  }

  bases(): IterableIterator<string> {
    return this.#versions.keys()
  }
}
