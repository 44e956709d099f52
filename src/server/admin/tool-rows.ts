/**
 * Builds the compact list of tools, `ToolListing`. Callers that share a catalog and see the same toolsets share its rows, which are built
 * once; facts that change independently (sources, credentials, changes that wait for a decision) are in small tables beside the rows.
 */
import { type ApprovalRules, rulesFor } from '#kernel/approval/approvals'
import { BoundedMap } from '#kernel/base/bounded-map'
import { compareVersions } from '#kernel/base/ids'
import { isJsonObject } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { Principal } from '#kernel/base/principal'
import type { Catalog, LiveRegistry } from '#kernel/tool/catalog'
import { factsOf } from '#kernel/tool/facts'
import type { ListedChange, ListedSource, ListedTool, ListingFacts } from '#kernel/tool/listing'
import type { Tool } from '#kernel/tool/tool'
import {
  isInToolset,
  sourceToolkit,
  TOOLSET_PREFIX,
  type Toolset,
  type Toolsets,
} from '#kernel/tool/toolsets'
import { type PreparedBytes, PreparedViews } from '#protocols/prepared'
import { DEPRECATED, firstSentence } from '#search/tool-document'
import type { CanHold } from '#server/scope-holders'
import type { PinView } from '#sources/kit/pin-view'
import type { Pins } from '#sources/kit/pins'
import { toolkitOf } from '#sources/kit/project'
import type { SourceView } from '#sources/kit/sources'
import type { Store } from '#store/collet-store'
import { isOperator } from './access.ts'
import { timeOf } from './admin-route.ts'
import { callerSeenBy, readNeedStates, type ToolNeed, toolNeeds } from './tool-needs.ts'

export interface ListingParts {
  readonly registry: Pick<LiveRegistry, 'toolsets'>
  approvals(): ApprovalRules
  /** Absent if no source is open. */
  sources?(): readonly SourceView[]
  readonly pins?: Pick<Pins, 'waiting'> | undefined
  readonly store?: Pick<Store, 'vault' | 'digest'> | undefined
  /** The principal of callers without a credential; `undefined` if every caller needs one. */
  openCaller(): Principal | undefined
  scopeHolders(): Promise<CanHold>
}

export interface Viewer {
  readonly principal: Principal
  readonly catalog: Catalog
  /** Whether the caller, as an operator, sees why a source is down. */
  readonly seesReasons: boolean
  /** Whether the caller sees upstream changes and who accepted them. */
  readonly seesPins: boolean
  readonly seesCalls: boolean
}

/** Maximum number of prepared answers cached for a catalog; they differ by the credentials that its callers have. */
const MAX_VIEWS = 4

export class ToolListings {
  readonly #parts: ListingParts
  readonly #rows = new WeakMap<Catalog, BoundedMap<string, CachedRows>>()
  readonly #views = new PreparedViews(MAX_VIEWS)
  #rowVersions = 0

  constructor(parts: ListingParts) {
    this.#parts = parts
  }

  async of(viewer: Viewer): Promise<PreparedBytes> {
    const rows = await this.#rowsOf(viewer)
    const facts = JSON.stringify(await this.#factsOf(viewer, rows))
    const view = `${rows.version} ${facts}`
    return this.#views.get(viewer.catalog, view, () => `{"tools":[${rows.json}],${facts.slice(1)}`)
  }

  #rowsOf({ catalog, principal }: Viewer): Promise<Rows> {
    const rules = this.#parts.approvals()
    const toolsets = [...shownToolsets(principal, this.#parts.registry.toolsets)]
    const showsTenants = isOperator(principal)
    // Two callers that share a catalog need not see the same toolsets (rule 2).
    const shown = JSON.stringify([showsTenants, ...toolsets.map(([name]) => name)])
    const cached = this.#rows.get(catalog) ?? new BoundedMap<string, CachedRows>({ entries: MAX_VIEWS })
    this.#rows.set(catalog, cached)
    const known = cached.get(shown)
    if (known?.rules === rules) {
      // The entry is set again on every use, so that the least recently used entry is dropped.
      cached.set(shown, known)
      return known.made
    }
    this.#rowVersions += 1
    const made = makeRows(this.#rowVersions, catalog, { rules, toolsets, showsTenants })
    cached.set(shown, { rules, made })
    return made
  }

  async #factsOf({ principal, seesReasons }: Viewer, { pins, toolkits, needs }: Rows): Promise<ListingFacts> {
    const { sources, pins: known, store } = this.#parts
    const caller = callerSeenBy(principal, this.#parts.openCaller())
    const canHold = await this.#parts.scopeHolders()
    const stateOf = await readNeedStates(needs.length === 0 ? undefined : store, caller, canHold)
    const changes = (await known?.waiting()) ?? []
    return {
      sources: Object.fromEntries(
        (sources?.() ?? []).flatMap((source) => {
          const toolkit = toolkitOf(source.key)
          return toolkits.has(toolkit) ? [[toolkit, listedSource(source, seesReasons)]] : []
        }),
      ),
      requirements: needs.map((need) => ({
        ...{ kind: need.kind, id: need.id, scopes: need.scopes },
        state: stateOf(need),
      })),
      changes: Object.fromEntries(
        changes.flatMap((view) => {
          const [id, change] = [pins.get(view.tool), listedChange(view)]
          return id === undefined || change === undefined ? [] : [[id, change]]
        }),
      ),
    }
  }
}

export function listedSource(
  { type, state, sinceMs, reason }: SourceView,
  seesReasons: boolean,
): ListedSource & { readonly since: string } {
  return { type, state, since: timeOf(sinceMs), reason: (seesReasons ? reason : undefined) ?? null }
}

/** A change that was not accepted, as callers of the tool see it; only operators see what has changed. */
export function listedChange({ state, waiting }: PinView): ListedChange | undefined {
  if (waiting === undefined) return undefined
  return {
    kind: waiting.kind,
    class: waiting.class,
    since: timeOf(waiting.seenAtMs),
    suspended: state === 'suspended',
    rejected: waiting.rejectedBy !== undefined,
  }
}

/** Toolsets that a caller may see; a caller that is limited to certain toolsets sees no others (rule 2). */
export function shownToolsets({ tools, toolsets }: Principal, all: Toolsets): Toolsets {
  const named = (tools ?? []).filter((text) => text.startsWith(TOOLSET_PREFIX))
  if (named.length === 0 && toolsets === undefined) return all
  return new Map(
    [...all].filter(([name]) => named.includes(TOOLSET_PREFIX + name) || toolsets?.includes(name) === true),
  )
}

/** Whether a rule decides for each call of the tool if the call needs approval. */
export function hasApprovalRule(tool: Tool, { when, whenPerTool }: ApprovalRules): boolean {
  if (tool.policy.approval !== 'conditional') return false
  return when !== undefined || (whenPerTool.size > 0 && rulesFor(whenPerTool, tool).length > 0)
}

interface CachedRows {
  readonly rules: ApprovalRules
  readonly made: Promise<Rows>
}

interface Rows {
  /** A new number for each build of rows. */
  readonly version: number
  /** JSON of the rows, joined with commas. */
  readonly json: string
  /** Ids of rows by the names of their pins. */
  readonly pins: ReadonlyMap<string, string>
  readonly toolkits: ReadonlySet<string>
  /** Rows refer to needs by index. */
  readonly needs: readonly ToolNeed[]
}

interface RowParts {
  readonly rules: ApprovalRules
  readonly toolsets: readonly (readonly [string, Toolset])[]
  readonly showsTenants: boolean
}

async function makeRows(version: number, catalog: Catalog, parts: RowParts): Promise<Rows> {
  const yielder = new EventLoopYielder()
  const needs = new Map<string, { readonly at: number; readonly need: ToolNeed }>()
  const indexOfNeed = (need: ToolNeed): number => {
    const key = JSON.stringify(need)
    const known = needs.get(key) ?? { at: needs.size, need }
    needs.set(key, known)
    return known.at
  }
  const texts: string[] = []
  const pins = new Map<string, string>()
  const toolkits = new Set<string>()
  for (const [base, versions] of Map.groupBy(catalog.tools, (tool) => tool.parts.base)) {
    if (yielder.isDue) await yielder.yieldNow()
    if (versions.length > 1)
      versions.sort((left, right) => compareVersions(right.parts.version, left.parts.version))
    const [tool] = versions
    if (tool === undefined) continue
    const row: ListedTool = {
      ...rowOf(tool, parts),
      versions: versions.length > 1 ? versions.map((each) => each.parts.version) : undefined,
      needs: omitIfEmpty(toolNeeds(tool, { withScopes: parts.showsTenants }).map(indexOfNeed)),
    }
    texts.push(JSON.stringify(row))
    for (const { keptFrom } of versions) pins.set(keptFrom?.pin ?? base, base)
    toolkits.add(sourceToolkit(tool))
  }
  const found = [...needs.values()].map(({ need }) => need)
  return { version, json: texts.join(','), pins, toolkits, needs: found }
}

function rowOf(tool: Tool, { rules, toolsets, showsTenants }: RowParts): ListedTool {
  const { parts, name, title, tags = [], policy } = tool
  const { catalogId, source, safetyTier, approval, egress } = factsOf(tool)
  const within = toolsets.flatMap(([set, toolset]) => (isInToolset(toolset, tool) ? [set] : []))
  const isDeprecated = DEPRECATED.test(tool.description) || tool.inputSchema.deprecated === true
  return {
    ...{ id: parts.base, version: parts.version, name, catalog_id: catalogId, title },
    description: firstSentence(tool.description),
    fields: omitIfEmpty(fieldsOf(tool)),
    ...{ source: sourceToolkit(tool), kind: source },
    tags: omitIfEmpty(tags),
    ...{ tier: safetyTier, egress },
    approval: approval === 'never' ? undefined : approval,
    approval_rule: hasApprovalRule(tool, rules) ? true : undefined,
    toolsets: omitIfEmpty(within),
    tenants: showsTenants ? policy.tenants : undefined,
    deprecated: isDeprecated ? true : undefined,
  }
}

/** Leaves empty lists out of the answer, which may have thousands of rows. */
function omitIfEmpty<Item>(items: readonly Item[]): readonly Item[] | undefined {
  return items.length === 0 ? undefined : items
}

/** Maximum number of parameter names in a row, for search. */
const MAX_FIELDS = 24

function fieldsOf({ inputSchema: { properties } }: Tool): readonly string[] {
  return isJsonObject(properties) ? Object.keys(properties).slice(0, MAX_FIELDS) : []
}
