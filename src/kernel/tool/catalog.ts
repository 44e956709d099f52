import { hash } from 'node:crypto'
import {
  compareVersions,
  type EntryKind,
  LATEST,
  parseToolName,
  plainVersion,
  type ToolRef,
} from '#kernel/base/ids'
import { atOnce, inPieces } from '#kernel/base/long-work'
import { coversScope, type Principal } from '#kernel/base/principal'
import { CatalogChanges } from './catalog-changes.ts'
import { isForTenant, type Tool } from './tool.ts'
import {
  allowLists,
  isShownAlike,
  NO_TOOLSETS,
  readSelector,
  type ShownTools,
  selectsIn,
  shownTools,
  type Toolsets,
} from './toolsets.ts'
import { type ResolvedWorkflows, resolveWorkflows } from './workflows.ts'

/**
 * The tools that a server serves, and the part of them that each principal may see. The gateway resolves calls here, protocols
 * list tools from here, and sources replace tools here. Every answer to a caller comes from its own catalog, so that hidden and
 * unknown tools look the same (rule 2). A change is one new frozen snapshot.
 */

/** The part of a registry that calls use. */
export type ToolSet = Pick<Registry, 'tools' | 'toolkits' | 'hasWaiting' | 'get' | 'find' | 'catalogFor'>

/** The server's tools while sources are added, changed and removed; each change is one new frozen snapshot. */
export class LiveRegistry implements ToolSet {
  #current: Registry
  /** The tools as they were passed in; workflows get their steps only in the registry. */
  #served: readonly Tool[]
  readonly #changes: CatalogChanges

  constructor(
    tools: readonly Tool[],
    toolkits: ReadonlyMap<string, string>,
    changes = new CatalogChanges(),
    toolsets = NO_TOOLSETS,
  ) {
    this.#changes = changes
    this.#served = tools
    this.#current = new Registry(tools, toolkits, toolsets)
  }

  get tools(): readonly Tool[] {
    return this.#current.tools
  }

  get definitions(): readonly Tool[] {
    return this.#current.definitions
  }

  get toolkits(): ReadonlyMap<string, string> {
    return this.#current.toolkits
  }

  get toolsets(): Toolsets {
    return this.#current.toolsets
  }

  get waiting(): ReadonlyMap<string, readonly string[]> {
    return this.#current.waiting
  }

  get hasWaiting(): boolean {
    return this.#current.hasWaiting
  }

  get(id: string): Tool | undefined {
    return this.#current.get(id)
  }

  find(name: string): Tool | undefined {
    return this.#current.find(name)
  }

  catalogFor(principal: Principal): Catalog {
    return this.#current.catalogFor(principal)
  }

  /**
   * Does nothing if every definition is unchanged, so that catalogs and everything derived from them stay cached. Calls of this
   * method must not overlap, because a large snapshot is built in pieces.
   */
  async replace(tools: readonly Tool[], toolkits: ReadonlyMap<string, string>): Promise<void> {
    if (isSame(tools, this.#served) && isSameText(toolkits, this.toolkits)) return
    const next = await Registry.inPieces(tools, toolkits)
    this.#served = tools
    this.#put(next.with(this.toolsets))
  }

  /** Puts the current tools into other toolsets. */
  regroup(toolsets: Toolsets): void {
    this.#put(this.#current.with(toolsets))
  }

  #put(next: Registry): void {
    const before = this.#current
    this.#current = next
    this.#changes.notify((principal, kind) => {
      const [old, now] = [before.catalogFor(principal), this.catalogFor(principal)]
      return !isShownAlike(old.shown, now.shown) || !isSame(old.listed(kind), now.listed(kind))
    })
  }
}

function isSame(left: readonly Tool[], right: readonly Tool[]): boolean {
  const known = new Set(right)
  return left.length === right.length && left.every((tool) => known.has(tool))
}

function isSameText(left: ReadonlyMap<string, string>, right: ReadonlyMap<string, string>): boolean {
  return left.size === right.size && [...left].every(([name, text]) => right.get(name) === text)
}

const MAX_CATALOGS = 1_000
/** Maximum number of tools in the lists of all catalogs together; data derived from these lists has the same lifetime. */
const MAX_LISTED = 200_000

interface KnownCatalog {
  readonly catalog: Catalog
  readonly size: number
  isListed: boolean
}

interface RegistryParts extends Pick<ResolvedWorkflows, 'tools' | 'waiting'> {
  readonly index?: ToolIndex
}

/** All tools of the server as one frozen snapshot, and the part of it that each principal may see. */
export class Registry {
  /** The tools, without entries such as prompts. */
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name, for protocols that publish them (OTC/C-11). */
  readonly toolkits: ReadonlyMap<string, string>
  readonly toolsets: Toolsets
  /** Whether a call of any tool may have to wait for approval, or for one of its steps. */
  readonly hasWaiting: boolean
  readonly #index: ToolIndex
  readonly #all: Catalog
  readonly #catalogs = new Map<string, KnownCatalog>()
  readonly #keys = new WeakMap<Principal, string>()
  /** Distinct scopes that tools require: two principals that cover the same scopes share a catalog. */
  readonly #requiredScopes: readonly string[]
  /** Tenants that have their own tools; all other tenants share catalogs. */
  readonly #tenants: ReadonlySet<string>
  /** Positions of workflows, innermost first. */
  readonly #workflows: readonly number[]
  #listed = 0

  /** Workflows that are not served because a tool they use is missing, with the missing names. */
  readonly waiting: ReadonlyMap<string, readonly string[]>

  constructor(
    served: readonly Tool[],
    toolkits: ReadonlyMap<string, string> = new Map(),
    toolsets: Toolsets = NO_TOOLSETS,
    { tools, waiting, index = new ToolIndex(tools) }: RegistryParts = resolveWorkflows(served),
  ) {
    this.waiting = waiting
    this.#index = index
    this.#all = new Catalog(this.#index)
    this.tools = this.#all.tools
    this.toolkits = toolkits
    this.toolsets = toolsets
    this.hasWaiting = tools.some(
      ({ policy, workflow }) => policy.approval !== 'never' || workflow !== undefined,
    )
    this.#workflows = [...tools.entries()]
      .filter(([, { workflow }]) => workflow !== undefined)
      .sort(([, left], [, right]) => (left.workflow?.depth ?? 0) - (right.workflow?.depth ?? 0))
      .map(([position]) => position)
    this.#tenants = new Set(tools.flatMap(({ policy }) => policy.tenants ?? []))
    this.#requiredScopes = [...new Set(tools.flatMap((tool) => tool.policy.scopes))].sort()
  }

  /** Builds a registry without blocking the serving thread. */
  static async inPieces(served: readonly Tool[], toolkits: ReadonlyMap<string, string>): Promise<Registry> {
    const { tools, waiting } = resolveWorkflows(served)
    const index = await ToolIndex.inPieces(tools)
    return new Registry(served, toolkits, NO_TOOLSETS, { tools, waiting, index })
  }

  with(toolsets: Toolsets): Registry {
    const { waiting, toolkits } = this
    const { tools } = this.#index
    return new Registry(tools, toolkits, toolsets, { tools, waiting, index: this.#index })
  }

  /** Tools and entries. */
  get definitions(): readonly Tool[] {
    return this.#index.tools
  }

  /** Any served tool or entry by its id. */
  get(id: string): Tool | undefined {
    return this.#all.get(id)
  }

  /** Any served tool or entry by any of its names: for operators, never for callers (rule 2). */
  find(name: string): Tool | undefined {
    return this.#all.find(name) ?? this.#all.versionsOf(name).at(-1)
  }

  /** Computed once per distinct set of scopes, allow-lists and tenant; the key is cached for each principal. */
  catalogFor(principal: Principal): Catalog {
    const key = this.#keys.get(principal)
    const known = key === undefined ? undefined : this.#catalogs.get(key)
    return known?.catalog ?? this.#catalogOf(principal)
  }

  #catalogOf(principal: Principal): Catalog {
    const held = this.#requiredScopes.filter((scope) => coversScope(principal.scopes, scope))
    const allowed = allowLists(principal).map((list) => [...new Set(list)].sort())
    const key = hash(
      'sha256',
      JSON.stringify([held, allowed, this.#groupOf(principal), this.#shownTo(principal)]),
    )
    this.#keys.set(principal, key)
    const known = this.#catalogs.get(key)
    if (known !== undefined) return known.catalog
    const made = this.#build(key, principal, new Set(held))
    this.#catalogs.set(key, made)
    this.#evict(key)
    return made.catalog
  }

  #shownTo({ toolset }: Principal): ShownTools {
    return shownTools(this.toolsets.get(toolset ?? ''))
  }

  /** The tenant, if it has its own tools; other tenants share one group. */
  #groupOf({ tenant, seesEveryTenant }: Principal): string | boolean {
    return seesEveryTenant ?? (this.#tenants.has(tenant) ? tenant : false)
  }

  /** The tools that an allow-list names, by any of their names: all versions of a tool, or the given version (OWP-57). */
  #positionsOf(allowed: readonly string[]): ReadonlySet<number> {
    return new Set(
      allowed.flatMap((text) => {
        const selector = readSelector(text)
        if (selector?.kind !== 'name')
          return this.#index.tools.flatMap((tool, at) => (selectsIn(this.toolsets, text, tool) ? [at] : []))
        if (selector.version === LATEST) return this.#index.versionsOf(selector.base)
        return this.#index.positionOfRef(selector.base, selector.version) ?? []
      }),
    )
  }

  #build(key: string, principal: Principal, held: ReadonlySet<string>): KnownCatalog {
    const { tenant, seesEveryTenant } = principal
    const allowed = allowLists(principal).map((list) => this.#positionsOf(list))
    const { tools } = this.#index
    const visible = new Uint8Array(tools.length)
    let size = 0
    for (const [position, { policy }] of tools.entries()) {
      if (!allowed.every((list) => list.has(position)) || !policy.scopes.every((scope) => held.has(scope)))
        continue
      if (seesEveryTenant !== true && !isForTenant(policy, tenant)) continue
      visible[position] = 1
      size += 1
    }
    size -= this.#hideWorkflows(visible)
    const made: KnownCatalog = {
      catalog: new Catalog(this.#index, {
        visible,
        onListed: () => this.#noteListed(key, made),
        shown: this.#shownTo(principal),
      }),
      size,
      isListed: false,
    }
    return made
  }

  /** Hides workflows from callers that may not call every step (rule 31), inner workflows first; returns how many were hidden. */
  #hideWorkflows(visible: Uint8Array): number {
    let hidden = 0
    for (const position of this.#workflows) {
      if (visible[position] !== 1) continue
      const steps = [...(this.#index.tools[position]?.workflow?.steps?.keys() ?? [])]
      if (steps.every((id) => visible[this.#index.positionOfId(id) ?? -1] === 1)) continue
      visible[position] = 0
      hidden += 1
    }
    return hidden
  }

  #noteListed(key: string, made: KnownCatalog): void {
    if (this.#catalogs.get(key) !== made) return
    made.isListed = true
    this.#listed += made.size
    this.#evict(key)
  }

  /** Drops the oldest catalogs, first those with lists, but never the catalog in use. */
  #evict(inUse: string): void {
    for (const [key, known] of this.#catalogs) {
      if (this.#listed <= MAX_LISTED) break
      if (known.isListed && key !== inUse) this.#drop(key, known)
    }
    for (const [key, known] of this.#catalogs) {
      if (this.#catalogs.size <= MAX_CATALOGS) break
      if (key !== inUse) this.#drop(key, known)
    }
  }

  #drop(key: string, known: KnownCatalog): void {
    this.#catalogs.delete(key)
    if (known.isListed) this.#listed -= known.size
  }
}

interface CatalogView {
  readonly visible?: Uint8Array
  /** Called once, when the catalog first builds its lists. */
  readonly onListed?: () => void
  readonly shown?: ShownTools
}

/** The tools that one principal may see, frozen. It is a view of the index: a catalog without lists costs one byte per tool. */
export class Catalog {
  readonly #index: ToolIndex
  /** One byte per tool of the index; absent if all are visible. */
  readonly #visible: Uint8Array | undefined
  readonly #onListed: (() => void) | undefined
  readonly #lists = new Map<EntryKind | undefined, readonly Tool[]>()
  #bases: readonly string[] | undefined
  #latest: readonly Tool[] | undefined

  readonly shown: ShownTools

  constructor(index: ToolIndex, { visible, onListed, shown = {} }: CatalogView = {}) {
    this.#index = index
    this.#visible = visible
    this.#onListed = onListed
    this.shown = shown
  }

  /** Whether MCP clients use the names of the sources, without prefixes (MCP-170). */
  get hasNativeNames(): boolean {
    return this.shown.names === 'native'
  }

  /** Every version, in registration order (OTC/T-22). */
  get tools(): readonly Tool[] {
    return this.listed(undefined)
  }

  /** True if the principal sees neither a tool nor an entry. */
  get isEmpty(): boolean {
    return this.#visible === undefined ? this.#index.tools.length === 0 : !this.#visible.includes(1)
  }

  /** The tools, or the entries of one kind. */
  listed(kind: EntryKind | undefined): readonly Tool[] {
    const known = this.#lists.get(kind)
    if (known !== undefined) return known
    if (this.#lists.size === 0) this.#onListed?.()
    const found = Object.freeze(
      this.#index.tools.filter((tool, position) => tool.entry?.kind === kind && this.#sees(position)),
    )
    this.#lists.set(kind, found)
    return found
  }

  /** `base` may be any of a tool's names. */
  resolve(ref: ToolRef): Tool | undefined {
    const found =
      ref.version === LATEST
        ? this.#newestOf(ref.base)
        : this.#at(this.#index.positionOfRef(ref.base, ref.version))
    return found?.entry?.kind === ref.entry ? found : undefined
  }

  get(id: string): Tool | undefined {
    return this.#at(this.#index.positionOfId(id))
  }

  /** Newest version of each tool, in registration order of the base names. */
  latest(): readonly Tool[] {
    this.#latest ??= Object.freeze(this.bases().flatMap((base) => this.#newestOf(base) ?? []))
    return this.#latest
  }

  /** Finds a tool by any of its names; without a version, the newest. Hidden and unknown tools are both `undefined` (rule 2). */
  find(name: string): Tool | undefined {
    const ref = parseToolName(name)
    return ref === undefined ? undefined : this.resolve(ref)
  }

  /** All visible versions of a tool, oldest first. */
  versionsOf(base: string): readonly Tool[] {
    return this.#index.versionsOf(base).flatMap((position) => this.#at(position) ?? [])
  }

  bases(): readonly string[] {
    this.#bases ??= Object.freeze([...new Set(this.tools.map(({ parts }) => parts.base))])
    return this.#bases
  }

  #newestOf(base: string): Tool | undefined {
    return this.#at(this.#index.versionsOf(base).findLast((position) => this.#sees(position)))
  }

  #at(position: number | undefined): Tool | undefined {
    return position !== undefined && this.#sees(position) ? this.#index.tools[position] : undefined
  }

  #sees(position: number): boolean {
    return this.#visible === undefined || this.#visible[position] === 1
  }
}

/**
 * All tools of the server by all their names, built once; catalogs are views of it. Ids take precedence over function names, and
 * function names over catalog ids. `checkShared` and `joinTools` ensure that tools that are served together have different names.
 */
export class ToolIndex {
  readonly tools: readonly Tool[]
  readonly #positions: ToolPositions

  constructor(tools: readonly Tool[], positions: ToolPositions = atOnce(findPositions(tools))) {
    this.tools = Object.freeze([...tools])
    this.#positions = positions
  }

  /** Builds an index without blocking the serving thread: there may be thousands of tools. */
  static async inPieces(tools: readonly Tool[]): Promise<ToolIndex> {
    return new ToolIndex(tools, await inPieces(findPositions(tools)))
  }

  positionOfId(id: string): number | undefined {
    return this.#positions.byId.get(id)
  }

  positionOfRef(base: string, version: string): number | undefined {
    const position = this.#positions.byRef.get(refText(base, version))
    if (position !== undefined) return position
    // `base` may also be a function name or a catalog id.
    return this.versionsOf(base).find((at) => plainVersion(this.tools[at]?.parts.version ?? '') === version)
  }

  /** Positions of a tool's versions, by its base name, function name or catalog id. */
  versionsOf(base: string): readonly number[] {
    return this.#positions.versions.get(base) ?? []
  }
}

function refText(base: string, version: string): string {
  return `${base}@${version}`
}

interface ToolPositions {
  readonly byId: ReadonlyMap<string, number>
  /** By base name and plain version, as requests are parsed. */
  readonly byRef: ReadonlyMap<string, number>
  /** Positions of the versions of each tool by all its names, oldest first. */
  readonly versions: ReadonlyMap<string, readonly number[]>
}

function* findPositions(tools: readonly Tool[]): Generator<undefined, ToolPositions> {
  const byId = new Map<string, number>()
  const byRef = new Map<string, number>()
  const versions = new Map<string, number[]>()
  for (const [position, { id, parts }] of tools.entries()) {
    yield
    byId.set(id, position)
    byRef.set(refText(parts.base, plainVersion(parts.version)), position)
    const known = versions.get(parts.base)
    if (known === undefined) versions.set(parts.base, [position])
    else known.push(position)
  }
  const versionAt = (position: number): string => tools[position]?.parts.version ?? ''
  for (const positions of versions.values())
    positions.sort((left, right) => compareVersions(versionAt(left), versionAt(right)))
  for (const key of ['name', 'catalogId'] as const) {
    for (const tool of tools) {
      yield
      const positions = versions.get(tool.parts.base)
      if (positions !== undefined && !versions.has(tool[key])) versions.set(tool[key], positions)
    }
  }
  return { byId, byRef, versions }
}
