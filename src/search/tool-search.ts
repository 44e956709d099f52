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

/** Past searches that led to successful calls (`learning.ts`). */
export interface PastSearches {
  /** Evidence from 0 to 1 for each tool, by its name without a version. */
  evidence(
    principal: Principal,
    words: readonly QueryWord[],
    rarity: (stem: string) => number,
  ): Promise<ReadonlyMap<string, number>>
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

/** The amount that full evidence from past searches adds to a score; the best tool of the index has the score 1. */
const EVIDENCE_WEIGHT = 1.5
/** Tools that are much worse than the best one are left out. */
const MIN_SHARE = 0.2
/** The constant of reciprocal rank fusion. */
const FUSION = 60

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
  const evidence = await parts.past?.evidence(parts.principal, words, index.rarity)
  const similar = await parts.vectors?.similar(index.tools, text)
  const learned = withEvidence(index, index.candidates(text, words), evidence)
  const best = (learned[0]?.score ?? 0) * MIN_SHARE
  const byWords = learned.filter(({ score }) => score >= best).map(({ at }) => at)
  const fused = similar === undefined ? byWords : fuse(byWords, similar)
  const named = index.named(text)
  const rest = new Map(fused.map((at, position) => [at, position]))
  const first = named.toSorted(
    (left, right) => (rest.get(left) ?? LAST) - (rest.get(right) ?? LAST) || left - right,
  )
  return [...new Set([...first, ...fused])]
}

const LAST = Number.MAX_SAFE_INTEGER

function withEvidence(
  index: VisibleIndex,
  candidates: readonly ScoredTool[],
  evidence: ReadonlyMap<string, number> | undefined,
): readonly ScoredTool[] {
  if (evidence === undefined || evidence.size === 0) return candidates
  const scores = new Map(candidates.map(({ at, score }) => [at, score]))
  for (const [base, share] of evidence) {
    const at = index.positionOf(base)
    if (at !== undefined) scores.set(at, (scores.get(at) ?? 0) + EVIDENCE_WEIGHT * share)
  }
  return [...scores].map(([at, score]) => ({ at, score })).sort(byScore)
}

/** Reciprocal rank fusion of two orders. */
function fuse(left: readonly number[], right: readonly number[]): readonly number[] {
  const scores = new Map<number, number>()
  for (const order of [left, right])
    for (const [position, at] of order.entries())
      scores.set(at, (scores.get(at) ?? 0) + 1 / (FUSION + position + 1))
  return [...scores]
    .map(([at, score]) => ({ at, score }))
    .sort(byScore)
    .map(({ at }) => at)
}
