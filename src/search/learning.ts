import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import { type Logger, OutageLog } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Tool } from '#kernel/tool/tool'
import type { PastSearches, SearchedQuery } from './tool-search.ts'
import { stemsOf } from './words.ts'

/**
 * Learns from use: if a caller searches and then successfully calls one of the found tools, the query is stored with that tool.
 * Later searches in the same tenant compare their words with the stored queries.
 * Invariant: a caller's past searches count in full only for that caller. For others each caller has one vote, and one vote moves
 * no tool by more than one place, however often the caller searches.
 */

interface PastSearch {
  readonly tenant: string
  readonly tool: string
  readonly principal: string
  readonly text: string
}

interface LearningParts {
  readonly store: {
    remember(search: PastSearch, atMs: number): MaybePromise<void>
    list(tenant: string): MaybePromise<readonly PastSearch[]>
  }
  readonly clock: Clock
  readonly log: Logger
}

/** A call within this time after a search counts as its result. */
const WINDOW_MS = 10 * 60_000
/** Other processes store searches too, so a tenant's past searches are read again after this time. */
const FRESH_MS = 30_000
const MAX_CALLERS = 10_000
const MAX_TENANTS = 100
const MAX_TEXT_LENGTH = 300
/** How much a word counts that is related to a word of the query. */
const RELATED_SHARE = 0.8
/** How soon repetitions of a word stop counting. */
const SATURATION = 1
/** How much more a rare word counts than a common one. */
const RARITY_POWER = 0.7

interface RecentSearch {
  readonly text: string
  readonly bases: ReadonlySet<string>
  readonly atMs: number
}

/** How often a caller used a stem before it called a tool. */
interface Use {
  readonly tool: string
  readonly principal: string
  count: number
}

interface TenantSearches {
  readonly readAtMs: number
  readonly byStem: ReadonlyMap<string, readonly Use[]>
}

export interface SearchLearning extends PastSearches {
  /** False if no search is remembered that a call may follow. */
  readonly hasSearches: boolean
  /** Called after every successful call; does nothing unless the caller's last search found the tool. */
  noteCall(principal: Principal, base: string): Promise<void>
}

export function openLearning({ store, clock, log }: LearningParts): SearchLearning {
  const recent = new BoundedMap<string, RecentSearch>({ entries: MAX_CALLERS })
  const tenants = new BoundedMap<string, Promise<TenantSearches>>({ entries: MAX_TENANTS })
  const outage = new OutageLog(log, clock)
  const read = async (tenant: string): Promise<TenantSearches> => {
    const rows = await store.list(tenant)
    return { readAtMs: clock.nowMs(), byStem: usesByStem(rows) }
  }
  const searchesOf = async (tenant: string): Promise<TenantSearches> => {
    const known = await tenants.get(tenant)
    if (known !== undefined && clock.nowMs() - known.readAtMs < FRESH_MS) return known
    const reading = read(tenant)
    tenants.set(tenant, reading)
    try {
      return await reading
    } catch (err) {
      tenants.delete(tenant)
      outage.report({ err }, 'past searches cannot be read; the index alone is used')
      return { readAtMs: 0, byStem: new Map() }
    }
  }
  return {
    get hasSearches() {
      return recent.size > 0
    },
    async evidence(principal, query) {
      const { byStem } = await searchesOf(principal.tenant)
      const shares = sharesByCaller(byStem, query)
      const own = shares.get(principal.id) ?? new Map()
      shares.delete(principal.id)
      return { own, others: [...shares.values()] }
    },
    noteSearch(principal, text, found) {
      if (found.length === 0) return
      const bases = new Set(found.map((tool: Tool) => tool.parts.base))
      recent.set(keyOf(principal), { text: text.slice(0, MAX_TEXT_LENGTH), bases, atMs: clock.nowMs() })
    },
    async noteCall(principal, base) {
      const search = recent.get(keyOf(principal))
      if (search === undefined || !search.bases.has(base)) return
      recent.delete(keyOf(principal))
      if (clock.nowMs() - search.atMs > WINDOW_MS) return
      const { tenant, id } = principal
      try {
        await store.remember({ tenant, principal: id, tool: base, text: search.text }, clock.nowMs())
        tenants.delete(tenant)
      } catch (err) {
        outage.report({ err }, 'a search cannot be stored')
      }
    },
  }
}

function keyOf({ tenant, id }: Principal): string {
  return JSON.stringify([tenant, id])
}

function usesByStem(rows: readonly PastSearch[]): ReadonlyMap<string, readonly Use[]> {
  const byStem = new Map<string, Map<string, Use>>()
  for (const { tool, principal, text } of rows)
    for (const stem of new Set(stemsOf(text))) {
      const uses = byStem.get(stem) ?? new Map<string, Use>()
      byStem.set(stem, uses)
      const key = `${tool} ${principal}`
      const use = uses.get(key) ?? { tool, principal, count: 0 }
      use.count += 1
      uses.set(key, use)
    }
  return new Map([...byStem].map(([stem, uses]) => [stem, [...uses.values()]]))
}

/** For each caller, the tools that it called after such words, with the share of the query that these words make up. */
function sharesByCaller(byStem: TenantSearches['byStem'], { words, rarity, isVisible }: SearchedQuery) {
  const shares = new Map<string, Map<string, number>>()
  const weights = words.map(({ stem, weight }) => weight * rarity(stem) ** RARITY_POWER)
  const whole = weights.reduce((sum, weight) => sum + weight, 0)
  for (const [at, { stem, related }] of words.entries()) {
    const best = new Map<string, { readonly use: Use; readonly part: number }>()
    for (const [index, other] of [stem, ...related].entries())
      for (const use of byStem.get(other) ?? []) {
        if (!isVisible(use.tool)) continue
        const part = ((index === 0 ? 1 : RELATED_SHARE) * use.count) / (use.count + SATURATION)
        const key = `${use.tool} ${use.principal}`
        if (part > (best.get(key)?.part ?? 0)) best.set(key, { use, part })
      }
    for (const { use, part } of best.values()) {
      const tools = shares.get(use.principal) ?? new Map<string, number>()
      shares.set(use.principal, tools)
      tools.set(use.tool, (tools.get(use.tool) ?? 0) + (part * (weights[at] ?? 0)) / (whole || 1))
    }
  }
  for (const tools of shares.values()) for (const [tool, share] of tools) tools.set(tool, Math.sqrt(share))
  return shares
}
