import type { Catalog } from './catalog.ts'
import { CatalogChanges } from './catalog-changes.ts'
import type { Principal } from './principal.ts'
import { Registry } from './registry.ts'
import type { Tool } from './tool.ts'

/** What calls ask about tools. */
export type ToolSet = Pick<Registry, 'tools' | 'toolkits' | 'hasWaiting' | 'has' | 'find' | 'catalogFor'>

/** The tools of the server while sources come, change and go: each change is one new frozen snapshot. */
export class LiveRegistry implements ToolSet {
  #current: Registry
  /** What it was made of: workflows among them know their steps only in the registry. */
  #served: readonly Tool[]
  readonly #changes: CatalogChanges

  constructor(tools: readonly Tool[], toolkits: ReadonlyMap<string, string>, changes = new CatalogChanges()) {
    this.#changes = changes
    this.#served = tools
    this.#current = new Registry(tools, toolkits)
  }

  get tools(): readonly Tool[] {
    return this.#current.tools
  }

  get toolkits(): ReadonlyMap<string, string> {
    return this.#current.toolkits
  }

  /** Workflows that are not served because tools they use are not, with what is missing. */
  get waiting(): ReadonlyMap<string, readonly string[]> {
    return this.#current.waiting
  }

  get hasWaiting(): boolean {
    return this.#current.hasWaiting
  }

  has(id: string): boolean {
    return this.#current.has(id)
  }

  find(name: string): Tool | undefined {
    return this.#current.find(name)
  }

  catalogFor(principal: Principal): Catalog {
    return this.#current.catalogFor(principal)
  }

  /**
   * Nothing happens when every definition is what it was: catalogs, and all that is made of them, stay. One at a time,
   * because a large snapshot is made in pieces.
   */
  async replace(tools: readonly Tool[], toolkits: ReadonlyMap<string, string>): Promise<void> {
    if (isSame(tools, this.#served) && isSameText(toolkits, this.toolkits)) return
    const next = await Registry.inPieces(tools, toolkits)
    const before = this.#current
    this.#served = tools
    this.#current = next
    this.#changes.notify((principal) => {
      const [then, now] = [before.catalogFor(principal).tools, this.catalogFor(principal).tools]
      return then.length !== now.length || !isSame(then, now)
    })
  }
}

function isSame(left: readonly Tool[], right: readonly Tool[]): boolean {
  if (left.length !== right.length) return false
  const known = new Set(right)
  return left.every((tool) => known.has(tool))
}

function isSameText(left: ReadonlyMap<string, string>, right: ReadonlyMap<string, string>): boolean {
  return left.size === right.size && [...left].every(([name, text]) => right.get(name) === text)
}
