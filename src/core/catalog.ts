import type { Tool } from './tool.ts'
import { LATEST, parseToolName, type ToolRef } from './tool-id.ts'
import type { ToolIndex } from './tool-index.ts'

/** Which tools of an index are seen: one byte a tool, or all of them. */
export type Visibility = Uint8Array | 'all'

/**
 * The tools one principal may see, frozen. Everything it asks is answered from here (rule 2). A view of the index, so
 * that a catalog nobody lists costs a byte a tool.
 */
export class Catalog {
  readonly #index: ToolIndex
  readonly #visible: Visibility
  #onListed: (() => void) | undefined
  #tools: readonly Tool[] | undefined
  #bases: readonly string[] | undefined
  #latest: readonly Tool[] | undefined

  /** `onListed` hears once that the catalog now holds lists of its own. */
  constructor(index: ToolIndex, visible: Visibility = 'all', onListed?: () => void) {
    this.#index = index
    this.#visible = visible
    this.#onListed = onListed
  }

  /** In registration order, every version (T-22). */
  get tools(): readonly Tool[] {
    this.#noteListed()
    this.#tools ??= Object.freeze(this.#index.tools.filter((_, place) => this.#sees(place)))
    return this.#tools
  }

  /** `base` may be any of a tool's names. */
  resolve(ref: ToolRef): Tool | undefined {
    return ref.version === LATEST
      ? this.#newestOf(ref.base)
      : this.#at(this.#index.placeOfRef(ref.base, ref.version))
  }

  get(id: string): Tool | undefined {
    return this.#at(this.#index.placeOfId(id))
  }

  /** Newest version of each tool, in registration order of the base names. */
  latest(): readonly Tool[] {
    this.#latest ??= Object.freeze(
      this.bases().flatMap((base) => {
        const newest = this.#newestOf(base)
        return newest === undefined ? [] : [newest]
      }),
    )
    return this.#latest
  }

  /** By any of its names, newest version unless one is named. Hidden and unknown are both absent (rule 2). */
  find(name: string): Tool | undefined {
    const ref = parseToolName(name)
    return ref === undefined ? undefined : this.resolve(ref)
  }

  /** Of the tool with this name, oldest first. */
  versionsOf(base: string): readonly Tool[] {
    return this.#index.versionsOf(base).flatMap((place) => this.#at(place) ?? [])
  }

  bases(): readonly string[] {
    this.#bases ??= Object.freeze([...new Set(this.tools.map(({ parts }) => parts.base))])
    return this.#bases
  }

  #newestOf(base: string): Tool | undefined {
    const place = this.#index.versionsOf(base).findLast((version) => this.#sees(version))
    return this.#at(place)
  }

  #at(place: number | undefined): Tool | undefined {
    return place !== undefined && this.#sees(place) ? this.#index.tools[place] : undefined
  }

  #sees(place: number): boolean {
    return this.#visible === 'all' || this.#visible[place] === 1
  }

  #noteListed(): void {
    const tell = this.#onListed
    this.#onListed = undefined
    tell?.()
  }
}
