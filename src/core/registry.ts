import { Catalog } from './catalog.ts'
import type { Principal } from './principal.ts'
import { coversScope } from './scopes.ts'
import type { Tool } from './tool.ts'
import { compareVersions } from './tool-id.ts'

const MOST_CATALOGS = 1_000

/** All tools of the server as one frozen snapshot, and the part of it each principal may see. */
export class Registry {
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name, for dialects that publish them (C-11). */
  readonly toolkits: ReadonlyMap<string, string>
  readonly #ids: ReadonlySet<string>
  readonly #byScopes = new Map<string, Catalog>()
  /** Distinct scopes any tool asks for: two principals that cover the same ones share a catalog. */
  readonly #asked: readonly string[]

  constructor(tools: readonly Tool[], toolkits: ReadonlyMap<string, string> = new Map()) {
    this.tools = Object.freeze([...tools])
    this.toolkits = toolkits
    this.#ids = new Set(tools.map((tool) => tool.id))
    this.#asked = [...new Set(tools.flatMap((tool) => tool.policy.scopes))].sort()
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  /** Computed once per distinct set of covered scopes. */
  catalogFor(principal: Principal): Catalog {
    const held = this.#asked.filter((scope) => coversScope(principal.scopes, scope))
    // Unambiguous, because no scope holds a space (`check-policy.ts`).
    const key = held.join(' ')
    const known = this.#byScopes.get(key)
    if (known !== undefined) return known
    const catalog = this.#build(new Set(held))
    if (this.#byScopes.size >= MOST_CATALOGS) this.#byScopes.clear()
    this.#byScopes.set(key, catalog)
    return catalog
  }

  #build(held: ReadonlySet<string>): Catalog {
    const visible = this.tools.filter((tool) => tool.policy.scopes.every((scope) => held.has(scope)))
    const byAge = new Map<string, Tool[]>()
    for (const tool of visible) {
      const versions = byAge.get(tool.parts.base)
      if (versions === undefined) byAge.set(tool.parts.base, [tool])
      else versions.push(tool)
    }
    for (const versions of byAge.values()) {
      versions.sort((left, right) => compareVersions(left.parts.version, right.parts.version))
    }
    return new Catalog(Object.freeze(visible), byAge)
  }
}
