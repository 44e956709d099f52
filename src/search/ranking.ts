import type { Action, Intent } from './intent.ts'
import type { TermIndex } from './term-index.ts'
import type { QueryWord } from './words.ts'

/**
 * Reorders the best documents of an index by two facts that a sum of word scores does not express: whether the action of the
 * tool (reads, creates, changes, deletes) is the one in the query (`intent.ts`), and how much of the tool's name the query contains. A tool that
 * deletes is not ranked first for other actions. `visible-index.ts` calls it for the candidates of one query.
 */

/** The facts about a document that the reordering uses. */
export interface RankedDocument {
  /** Distinct stems of the name and the title. */
  readonly name: readonly string[]
  readonly action: Action | undefined
}

interface Candidate {
  readonly at: number
  readonly score: number
  readonly document: RankedDocument
}

export interface Query {
  readonly intent: Intent
  readonly words: readonly QueryWord[]
}

const PRECISION_WEIGHT = 1.2
/** How much a word that is related to a word of the query counts, compared with the word itself. */
const RELATED_SHARE = 0.85

/** The candidates with their final scores, in no order. */
export function refine(index: TermIndex, query: Query, candidates: readonly Candidate[]) {
  const known = new Map<string, number>()
  for (const { related, weight } of query.words)
    for (const other of related) known.set(other, Math.max(known.get(other) ?? 0, RELATED_SHARE * weight))
  for (const { stem } of query.words) known.set(stem, 1)
  const rarities = new Map<string, number>()
  const rarityOf = (stem: string): number => {
    const rarity = rarities.get(stem) ?? index.rarity(stem)
    rarities.set(stem, rarity)
    return rarity
  }
  return candidates.map(({ document: { name, action }, score, at }) => {
    let [explained, total] = [0, 0]
    for (const stem of name) {
      const rarity = rarityOf(stem)
      total += rarity
      explained += rarity * (known.get(stem) ?? 0)
    }
    const precision = total === 0 ? 0 : explained / total
    const fit = actionFactor(query.intent.actions, action) * numberFactor(query.intent, action)
    return { at, score: score * (1 + PRECISION_WEIGHT * precision) * fit }
  })
}

const READS: ReadonlySet<Action> = new Set(['list', 'get', 'search'])

function actionFactor(wanted: ReadonlySet<Action>, action: Action | undefined): number {
  if (action === undefined) return 0.95
  if (wanted.has(action)) return 1
  if (action === 'delete') return 0.6
  const isReading = READS.has(action)
  if (wanted.size === 0) return isReading ? 1 : 0.9
  if ([...wanted].every((each) => READS.has(each))) return isReading ? 0.92 : 0.72
  return isReading ? 0.75 : 0.85
}

/** The factor of a tool for one thing if the query is about many, and the reverse. */
const NUMBER_FACTOR = 0.9

function numberFactor({ isMany, actions }: Intent, action: Action | undefined): number {
  if (isMany === undefined || !actions.has('get')) return 1
  return action === (isMany ? 'get' : 'list') ? NUMBER_FACTOR : 1
}
