import { hash } from 'node:crypto'
import { Catalog } from './catalog.ts'
import type { Principal } from './principal.ts'
import { coversScope } from './scopes.ts'
import { isForTenant, type Tool } from './tool.ts'
import { LATEST, parseToolName } from './tool-id.ts'
import { ToolIndex } from './tool-index.ts'
import { type ResolvedWorkflows, resolveWorkflows } from './workflow/resolve-workflows.ts'

const MOST_CATALOGS = 1_000
/** Tools in the lists of all catalogs together: what is made of those lists lives and dies with them. */
const MOST_LISTED = 200_000

interface KnownCatalog {
  readonly catalog: Catalog
  readonly size: number
  isListed: boolean
}

interface RegistryParts extends Pick<ResolvedWorkflows, 'tools' | 'waiting'> {
  readonly index?: ToolIndex
}

/** All tools of the server as one frozen snapshot, and the part of it each principal may see. */
export class Registry {
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name, for dialects that publish them (C-11). */
  readonly toolkits: ReadonlyMap<string, string>
  /** Whether a call of any tool may have to wait for a yes, or for a step of its own. */
  readonly hasWaiting: boolean
  readonly #index: ToolIndex
  readonly #all: Catalog
  readonly #catalogs = new Map<string, KnownCatalog>()
  readonly #keys = new WeakMap<Principal, string>()
  /** Distinct scopes any tool asks for: two principals that cover the same ones share a catalog. */
  readonly #asked: readonly string[]
  /** Tenants that have tools of their own: those of all others share their catalogs. */
  readonly #tenants: ReadonlySet<string>
  /** Their places, those without inner ones first. */
  readonly #workflows: readonly number[]
  #listed = 0

  /** Workflows that are not served because tools they use are not, with what is missing. */
  readonly waiting: ReadonlyMap<string, readonly string[]>

  constructor(
    served: readonly Tool[],
    toolkits: ReadonlyMap<string, string> = new Map(),
    { tools, waiting, index = new ToolIndex(tools) }: RegistryParts = resolveWorkflows(served),
  ) {
    this.waiting = waiting
    this.#index = index
    this.#all = new Catalog(this.#index)
    this.tools = this.#index.tools
    this.toolkits = toolkits
    this.hasWaiting = tools.some(
      ({ policy, workflow }) => policy.approval !== 'never' || workflow !== undefined,
    )
    this.#workflows = [...tools.entries()]
      .filter(([, { workflow }]) => workflow !== undefined)
      .sort(([, left], [, right]) => (left.workflow?.depth ?? 0) - (right.workflow?.depth ?? 0))
      .map(([place]) => place)
    this.#tenants = new Set(tools.flatMap(({ policy }) => policy.tenants ?? []))
    this.#asked = [...new Set(tools.flatMap((tool) => tool.policy.scopes))].sort()
  }

  /** The same without holding the serving thread for the whole of it. */
  static async inPieces(served: readonly Tool[], toolkits: ReadonlyMap<string, string>): Promise<Registry> {
    const { tools, waiting } = resolveWorkflows(served)
    return new Registry(served, toolkits, { tools, waiting, index: await ToolIndex.inPieces(tools) })
  }

  has(id: string): boolean {
    return this.#index.placeOfId(id) !== undefined
  }

  /** Any tool that is served, by any of its names: for operators, never for callers (rule 2). */
  find(name: string): Tool | undefined {
    return this.#all.find(name)
  }

  /** Computed once per distinct set of covered scopes, allow-list and tenant with tools of its own, and once per principal which one that is. */
  catalogFor(principal: Principal): Catalog {
    const key = this.#keys.get(principal)
    const known = key === undefined ? undefined : this.#catalogs.get(key)
    return known?.catalog ?? this.#catalogOf(principal)
  }

  #catalogOf(principal: Principal): Catalog {
    const held = this.#asked.filter((scope) => coversScope(principal.scopes, scope))
    const allowed = principal.tools === undefined ? undefined : [...new Set(principal.tools)].sort()
    const key = hash('sha256', JSON.stringify([held, allowed ?? null, this.#groupOf(principal)]))
    this.#keys.set(principal, key)
    const known = this.#catalogs.get(key)
    if (known !== undefined) return known.catalog
    const made = this.#build(key, principal, new Set(held))
    this.#catalogs.set(key, made)
    this.#makeRoom(key)
    return made.catalog
  }

  /** What decides, besides scopes and allow-list, which tools a principal sees: its tenant, where that has tools of its own. */
  #groupOf({ tenant, seesEveryTenant }: Principal): string | boolean {
    return seesEveryTenant ?? (this.#tenants.has(tenant) ? tenant : false)
  }

  /** What an allow-list names, by whichever of their names: all versions of a tool, or the one that is written (OWP-57). */
  #placesOf(allowed: readonly string[]): ReadonlySet<number> {
    return new Set(
      allowed.flatMap((name) => {
        const ref = parseToolName(name)
        if (ref === undefined) return []
        if (ref.version === LATEST) return this.#index.versionsOf(ref.base)
        return this.#index.placeOfRef(ref.base, ref.version) ?? []
      }),
    )
  }

  #build(key: string, principal: Principal, held: ReadonlySet<string>): KnownCatalog {
    const { tenant, tools, seesEveryTenant } = principal
    const allowed = tools === undefined ? undefined : this.#placesOf(tools)
    const visible = new Uint8Array(this.tools.length)
    let size = 0
    for (const [place, { policy }] of this.tools.entries()) {
      if (allowed?.has(place) === false || !policy.scopes.every((scope) => held.has(scope))) continue
      if (seesEveryTenant !== true && !isForTenant(policy, tenant)) continue
      visible[place] = 1
      size += 1
    }
    size -= this.#hideWorkflows(visible)
    const made: KnownCatalog = {
      catalog: new Catalog(this.#index, visible, () => this.#noteListed(key, made)),
      size,
      isListed: false,
    }
    return made
  }

  /** Whoever may not call every step of a workflow does not see it (rule 31): gives how many went, inner ones first. */
  #hideWorkflows(visible: Uint8Array): number {
    let hidden = 0
    for (const place of this.#workflows) {
      if (visible[place] !== 1) continue
      const steps = [...(this.tools[place]?.workflow?.steps?.keys() ?? [])]
      if (steps.every((id) => visible[this.#index.placeOfId(id) ?? -1] === 1)) continue
      visible[place] = 0
      hidden += 1
    }
    return hidden
  }

  #noteListed(key: string, made: KnownCatalog): void {
    if (this.#catalogs.get(key) !== made) return
    made.isListed = true
    this.#listed += made.size
    this.#makeRoom(key)
  }

  /** Drops the oldest catalogs, first of all listed ones, but never the one in use. */
  #makeRoom(inUse: string): void {
    for (const [key, known] of this.#catalogs) {
      if (this.#listed <= MOST_LISTED) break
      if (known.isListed && key !== inUse) this.#drop(key, known)
    }
    for (const [key, known] of this.#catalogs) {
      if (this.#catalogs.size <= MOST_CATALOGS) break
      if (key !== inUse) this.#drop(key, known)
    }
  }

  #drop(key: string, known: KnownCatalog): void {
    this.#catalogs.delete(key)
    if (known.isListed) this.#listed -= known.size
  }
}
