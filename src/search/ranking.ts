import type { TermIndex } from './term-index.ts'
import { type QueryWord, splitWords, stemsOf } from './words.ts'

/**
 * Reorders the best documents of an index by two facts that a sum of word scores does not express: whether the action of the
 * tool (reads, creates, changes, deletes) is the one in the query, and how much of the tool's name the query contains. A tool that
 * deletes is not ranked first for other actions. `visible-index.ts` calls it for the candidates of one query.
 */

const ACTIONS = ['list', 'get', 'search', 'create', 'update', 'delete', 'run'] as const
type Action = (typeof ACTIONS)[number]

/** Verbs in the names of tools. */
const TOOL_VERBS: Readonly<Record<Action, string>> = {
  list: 'list',
  get: 'get read fetched show view describe download check export compare render count open retrieve',
  search: 'search find query lookup',
  create:
    'create add new make post send upload write generate invite fork star follow start publish register request echo',
  update: 'update set edit replace rename move transfer change modify patch merge lock convert map mark',
  delete: 'delete remove erase drop unstar unfollow revoke clear purge unlock unblock dismiss',
  run: 'run execute trigger cancel rerun re approve review dispatch stop enable disable suspend redeliver ping test block',
}

/** Further verbs that people write. A verb may mean several actions. */
const QUERY_VERBS: Readonly<Record<Action, string>> = {
  list: 'browse enumerate',
  get: '',
  search: 'locate look',
  create:
    'begin copy raise file define attach save put remember note assign submit record report open propose share draft mark',
  update: 'reorder turn switch close reopen require limit restrict configure sync protect bring',
  delete: 'forget destroy detach kick strip rid throw unlink',
  run: 'abort retry restart repeat switch allow kick',
}

const QUESTIONS = new Set(
  'what which who whose where how why when is are has have did does were was am do'.split(' '),
)

const BY_TOOL_VERB = byStem([TOOL_VERBS])
const BY_QUERY_VERB = byStem([TOOL_VERBS, QUERY_VERBS])

function byStem(tables: readonly (typeof TOOL_VERBS)[]): ReadonlyMap<string, ReadonlySet<Action>> {
  const found = new Map<string, Set<Action>>()
  for (const table of tables)
    for (const action of ACTIONS)
      for (const stem of stemsOf(table[action])) found.set(stem, (found.get(stem) ?? new Set()).add(action))
  return found
}

/** The facts about a document that the reordering uses. */
export interface RankedDocument {
  /** Distinct stems of the name and the title. */
  readonly name: readonly string[]
  readonly action: Action | undefined
}

/** The action is that of the first verb in the name. */
export function rankedDocument(name: readonly string[], title: readonly string[]): RankedDocument {
  const verb = name.find((stem) => BY_TOOL_VERB.has(stem))
  const [action] = BY_TOOL_VERB.get(verb ?? '') ?? []
  return { name: [...new Set([...name, ...title])], action }
}

interface Candidate {
  readonly at: number
  readonly score: number
  readonly document: RankedDocument
}

export interface Query {
  readonly text: string
  readonly words: readonly QueryWord[]
}

const PRECISION_WEIGHT = 1.2
/** How much a word that is related to a word of the query counts, compared with the word itself. */
const RELATED_SHARE = 0.85

/** The candidates with their final scores, in no order. */
export function refine(index: TermIndex, query: Query, candidates: readonly Candidate[]) {
  const wanted = wantedActions(query)
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
    return { at, score: score * (1 + PRECISION_WEIGHT * precision) * actionFactor(wanted, action) }
  })
}

function wantedActions({ text, words }: Query): ReadonlySet<Action> {
  const written = splitWords(text)
  // A question needs a tool that reads, whatever its verb.
  if (QUESTIONS.has(written[0] ?? '')) return new Set(['list', 'get'])
  const found = new Set(words.flatMap(({ stem }) => [...(BY_QUERY_VERB.get(stem) ?? [])]))
  return written.includes('all') ? found.add('list') : found
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
