import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import { type Logger, OutageLog } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Tool } from '#kernel/tool/tool'
import type { PastSearches } from './tool-search.ts'
import { type QueryWord, stemsOf } from './words.ts'

/**
 * Learns from use: if a caller searches and then successfully calls one of the found tools, the query is stored with that tool.
 * Later searches in the same tenant compare their words with the stored queries.
 * Invariant: a caller's past searches count in full only for that caller. For others, the most similar caller of each tool is left
 * out, so that no single caller can change their results, however often it searches.
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
/** Queries that are less similar than this are not evidence. */
const MIN_SIMILARITY = 0.3

interface RecentSearch {
  readonly text: string
  readonly bases: ReadonlySet<string>
  readonly atMs: number
}

interface StemmedSearch extends Pick<PastSearch, 'tool' | 'principal'> {
  readonly stems: readonly string[]
}

interface TenantSearches {
  readonly readAtMs: number
  readonly past: readonly StemmedSearch[]
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
    const past = rows.map(({ tool, principal, text }) => ({ tool, principal, stems: distinct(text) }))
    return { readAtMs: clock.nowMs(), past }
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
      return { readAtMs: 0, past: [] }
    }
  }
  return {
    get hasSearches() {
      return recent.size > 0
    },
    async evidence(principal, words, rarity) {
      const { past } = await searchesOf(principal.tenant)
      return past.length === 0 ? new Map() : weigh(past, principal.id, words, rarity)
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

function distinct(text: string): readonly string[] {
  return [...new Set(stemsOf(text))]
}

/** For each tool, the similarity of each caller's most similar query, summed without the most similar other caller. */
function weigh(
  past: readonly StemmedSearch[],
  caller: string,
  words: readonly QueryWord[],
  rarity: (stem: string) => number,
): ReadonlyMap<string, number> {
  const weights = new Map(words.map(({ stem }) => [stem, rarity(stem) ** 2]))
  const length = Math.sqrt(sum(weights.values()))
  const nearest = new Map<string, Map<string, number>>()
  for (const { tool, principal, stems } of past) {
    const shared = sum(stems.map((stem) => weights.get(stem) ?? 0))
    if (shared === 0) continue
    const similarity = shared / (length * Math.sqrt(sum(stems.map((stem) => rarity(stem) ** 2))))
    if (similarity < MIN_SIMILARITY) continue
    const callers = nearest.get(tool) ?? new Map<string, number>()
    callers.set(principal, Math.max(callers.get(principal) ?? 0, similarity))
    nearest.set(tool, callers)
  }
  return new Map(
    [...nearest].flatMap(([tool, callers]) => {
      const own = callers.get(caller) ?? 0
      const [, ...others] = [...callers]
        .filter(([principal]) => principal !== caller)
        .map(([, similarity]) => similarity)
        .sort((left, right) => right - left)
      const share = Math.min(1, Math.max(own, sum(others)))
      return share === 0 ? [] : [[tool, share]]
    }),
  )
}

function sum(values: Iterable<number>): number {
  let total = 0
  for (const value of values) total += value
  return total
}
