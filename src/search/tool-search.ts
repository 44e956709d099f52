import type { Clock } from '#kernel/base/clock'
import { type Logger, OutageLog } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { type Embed, ToolVectors } from './embedding.ts'
import { type Family, familiesOf } from './families.ts'
import { byScore, type ScoredTool, type VisibleIndex, VisibleIndexes } from './visible-index.ts'
import type { QueryWord } from './words.ts'

/**
 * Search over the tools that a caller sees, for every surface: protocols, the client, the command line and the console.
 * A tool whose name is in the query, in any spelling, comes first. The others are ranked by the index, by past searches that led
 * to successful calls, and by the operator's embedding model. Tools that cannot be called now are marked and keep their rank.
 * Invariant: answers come from the caller's own catalog (rule 2), and an unchanged catalog gives unchanged answers.
 */

export interface ToolSearch {
  find(principal: Principal, text: string, limit?: number): Promise<SearchResult>
  /** Groups of tools that the caller sees, largest first. */
  families(catalog: Catalog): readonly Family[]
}

export interface SearchResult {
  /** Best first. */
  readonly found: readonly FoundTool[]
  /** Only if nothing was found: the groups of tools that exist. */
  readonly families: readonly Family[]
}

interface FoundTool {
  readonly tool: Tool
  /** Why a call would fail now; absent if nothing is known to prevent it. */
  readonly unavailable?: string | undefined
}

/** What is compared with past searches. */
export interface SearchedQuery {
  readonly words: readonly QueryWord[]
  rarity(stem: string): number
  /** Past searches for tools that the caller does not see do not count. */
  isVisible(base: string): boolean
}

/** From 0 to 1 for each tool, by its name without a version: how well the searches fit that a caller made before it called the tool. */
type Shares = ReadonlyMap<string, number>

interface Evidence {
  readonly own: Shares
  /** One for each other caller. */
  readonly others: readonly Shares[]
}

/** Past searches that led to successful calls (`learning.ts`). */
export interface PastSearches {
  evidence(principal: Principal, query: SearchedQuery): Promise<Evidence>
  /** Notes a search, so that the call that follows it can be remembered with it. */
  noteSearch(principal: Principal, text: string, found: readonly Tool[]): void
}

interface SearchParts {
  catalogFor(principal: Principal): Catalog
  /** Why each of these tools cannot be called now; tools that can be called are absent. */
  unavailable?(principal: Principal, tools: readonly Tool[]): Promise<ReadonlyMap<Tool, string>>
  readonly past?: PastSearches | undefined
  readonly embed?: Embed | undefined
  readonly clock: Clock
  readonly log: Logger
}

export const DEFAULT_FOUND = 10
export const MAX_FOUND = 50
const MAX_QUERY_LENGTH = 1_000

/** The amount that a full share adds to a score; the best tool of the index has the score 1. */
const EVIDENCE_WEIGHT = 1
/** Tools that are much worse than the best one are left out. */
const MIN_SHARE = 0.2
/** At least this many are returned, because in a small catalog a word that most tools have counts little. */
const ALWAYS_FOUND = 5
/**
 * The constant of reciprocal rank fusion, and how much a place in the model's order counts: measured so that a model which is much
 * worse than the index, such as an average of word vectors, costs little.
 */
const FUSION = 10
const SIMILAR_WEIGHT = 0.5

export function openToolSearch(parts: SearchParts): ToolSearch {
  const indexes = new VisibleIndexes()
  const outage = new OutageLog(parts.log, parts.clock)
  const vectors =
    parts.embed === undefined
      ? undefined
      : new ToolVectors(parts.embed, (err) =>
          outage.report({ err }, 'search.embed failed; the index alone is used'),
        )
  return {
    async find(principal, text, limit = DEFAULT_FOUND) {
      const catalog = parts.catalogFor(principal)
      const query = text.slice(0, MAX_QUERY_LENGTH)
      const index = await indexes.of(catalog)
      const order = await rank(index, query, { principal, past: parts.past, vectors })
      const tools = order.slice(0, Math.min(limit, MAX_FOUND)).flatMap((at) => index.tools[at] ?? [])
      parts.past?.noteSearch(principal, query, tools)
      const reasons = await parts.unavailable?.(principal, tools)
      return {
        found: tools.map((tool) => ({ tool, unavailable: reasons?.get(tool) })),
        families: tools.length === 0 ? familiesOf(catalog) : [],
      }
    },
    families: familiesOf,
  }
}

interface RankParts {
  readonly principal: Principal
  readonly past: PastSearches | undefined
  readonly vectors: ToolVectors | undefined
}

/** Positions of the tools that fit, best first. */
async function rank(index: VisibleIndex, text: string, parts: RankParts): Promise<readonly number[]> {
  const words = index.words(text)
  const isVisible = (base: string): boolean => index.positionOf(base) !== undefined
  const evidence = await parts.past?.evidence(parts.principal, { words, rarity: index.rarity, isVisible })
  const similar = await parts.vectors?.similar(index.tools, text)
  const candidates = index.candidates(text, words)
  const learned = withShares(index, candidates, evidence?.own)
  const best = (learned[0]?.score ?? 0) * MIN_SHARE
  const fitting = learned
    .filter(({ score }, place) => place < ALWAYS_FOUND || score >= best)
    .map(({ at }) => at)
  const byWords = raise(fitting, chosenByOthers(index, candidates, evidence?.others ?? []))
  const fused = similar === undefined ? byWords : fuse(byWords, similar)
  const named = index.named(text)
  const rest = new Map(fused.map((at, position) => [at, position]))
  const first = named.toSorted(
    (left, right) => (rest.get(left) ?? LAST) - (rest.get(right) ?? LAST) || left - right,
  )
  return [...new Set([...first, ...fused])]
}

const LAST = Number.MAX_SAFE_INTEGER

function withShares(
  index: VisibleIndex,
  candidates: readonly ScoredTool[],
  shares: Shares | undefined,
): readonly ScoredTool[] {
  if (shares === undefined || shares.size === 0) return candidates
  const scores = new Map(candidates.map(({ at, score }) => [at, score]))
  for (const [base, share] of shares) {
    const at = index.positionOf(base)
    if (at !== undefined) scores.set(at, (scores.get(at) ?? 0) + EVIDENCE_WEIGHT * share)
  }
  return [...scores].map(([at, score]) => ({ at, score })).sort(byScore)
}

interface Raised {
  readonly at: number
  readonly places: number
}

/**
 * Each other caller has one vote, for the tool that it would find first itself. The tool with the most votes moves up by one
 * place less than it has votes more than the next one, so that one vote more or less moves no tool by more than one place.
 */
function chosenByOthers(
  index: VisibleIndex,
  candidates: readonly ScoredTool[],
  others: readonly Shares[],
): Raised | undefined {
  if (others.length < 2) return undefined
  const scores = new Map(candidates.map(({ at, score }) => [at, score]))
  const votes = new Map<number, number>()
  for (const shares of others) {
    let [choice, best] = [candidates[0]?.at, 0]
    for (const at of [choice, ...[...shares.keys()].map((base) => index.positionOf(base))]) {
      if (at === undefined) continue
      const base = index.tools[at]?.parts.base ?? ''
      const score = (scores.get(at) ?? 0) + EVIDENCE_WEIGHT * (shares.get(base) ?? 0)
      if (score > best) [choice, best] = [at, score]
    }
    if (choice !== undefined) votes.set(choice, (votes.get(choice) ?? 0) + 1)
  }
  const [first, second] = [...votes].sort(([, left], [, right]) => right - left)
  const margin = (first?.[1] ?? 0) - (second?.[1] ?? 0)
  return first === undefined || margin < 2 ? undefined : { at: first[0], places: margin - 1 }
}

/** Moves one tool up; one that the words did not find comes from behind the last place. */
function raise(order: readonly number[], raised: Raised | undefined): readonly number[] {
  if (raised === undefined) return order
  const { at, places } = raised
  const found = order.indexOf(at)
  const from = found === -1 ? order.length : found
  return order.filter((each) => each !== at).toSpliced(Math.max(0, from - places), 0, at)
}

/** Reciprocal rank fusion of the order of the index and that of the model. */
function fuse(byWords: readonly number[], similar: readonly number[]): readonly number[] {
  const scores = new Map<number, number>()
  for (const [order, weight] of [
    [byWords, 1],
    [similar, SIMILAR_WEIGHT],
  ] as const)
    for (const [position, at] of order.entries())
      scores.set(at, (scores.get(at) ?? 0) + weight / (FUSION + position + 1))
  return [...scores]
    .map(([at, score]) => ({ at, score }))
    .sort(byScore)
    .map(({ at }) => at)
}
