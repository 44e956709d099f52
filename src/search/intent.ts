import { isPluralWord, splitWords, stemsOf } from './words.ts'

/**
 * What a query asks for, beside its words: whether something is to be read, created, changed or deleted, whether one thing or
 * many are meant, and which words name that thing. The same verbs say what a tool does. `ranking.ts` compares the two.
 * Invariant: only the form of the sentence is read, so nothing here depends on a catalog.
 */

const ACTIONS = ['list', 'get', 'search', 'create', 'update', 'delete', 'run'] as const
export type Action = (typeof ACTIONS)[number]

/** Verbs in the names of tools. */
const TOOL_VERBS: Readonly<Record<Action, string>> = {
  list: 'list enumerate',
  get: 'fetch get read show view describe download check export compare render count open retrieve is has',
  search: 'search find query lookup',
  create:
    'create add new make post send upload write generate invite fork star follow start publish register request echo insert submit import provision append',
  update:
    'update set edit replace rename move transfer change modify patch merge lock convert map mark put reorder restore configure',
  delete: 'delete remove erase drop unstar unfollow revoke clear purge unlock unblock dismiss unlink',
  run: 'run execute trigger cancel rerun re approve review dispatch stop enable disable suspend redeliver ping test block',
}

/** Further verbs that people write. A verb may mean several actions. */
const QUERY_VERBS: Readonly<Record<Action, string>> = {
  list: 'browse show',
  get: 'display tell see look give load calculate',
  search: 'locate look',
  create:
    'begin copy raise file define attach save put remember note assign record report open propose share draft mark commit store tag give build schedule book buy order ask install bring reply answer comment leave plan set tell inform notify',
  update:
    'turn switch close reopen require limit restrict sync protect bring forbid let allow make freeze fix adjust hand give add assign take pause resume reset save',
  delete: 'forget destroy detach kick strip rid throw take end cancel wipe empty',
  run: 'abort retry restart repeat switch allow kick ban kill start pause resume end let turn rebuild replay apply accept reject decline use call play shut pull sync',
}

const QUESTIONS = wordSet(
  'what which who whose whom where how why when is are has have did does were was am do',
)
/** Words before the verb of a request. */
const POLITE = wordSet(
  'please can could would you i we want wants need needs to like let us should must help me just now then also the user',
)
/** Words that end the phrase that a request is about. */
const BOUNDARIES = wordSet(
  `of in from for on under by with into to at about that which who whose as out off over between after before through without via and
  or are is was were have has had can could do does did should would may might will been per than so because when where if not`,
)
const BEFORE_VERBS = wordSet('to and please can should must not')
const SUBJECTS = wordSet('i we nobody somebody people there it')
const OBLIGATIONS = wordSet('should must cannot longer')
const EVERYTHING = wordSet('all every')

const READING: ReadonlySet<Action> = new Set(['list', 'get'])
const BY_TOOL_VERB = byVerb([TOOL_VERBS])
const BY_QUERY_VERB = byVerb([TOOL_VERBS, QUERY_VERBS])

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(/\s+/))
}

function byVerb(tables: readonly (typeof TOOL_VERBS)[]): ReadonlyMap<string, ReadonlySet<Action>> {
  const found = new Map<string, Set<Action>>()
  for (const table of tables)
    for (const action of ACTIONS)
      for (const verb of table[action].split(' ')) found.set(verb, (found.get(verb) ?? new Set()).add(action))
  return found
}

export interface Intent {
  /** Empty if the text does not say. */
  readonly actions: ReadonlySet<Action>
  /** Whether many things are meant; `undefined` if the text does not say. */
  readonly isMany: boolean | undefined
  /** Stems of what the request is about; the other words say where or how. */
  readonly object: ReadonlySet<string>
}

export function intentOf(text: string): Intent {
  const words = splitWords(text)
  const polite = words.findIndex((word) => !POLITE.has(word))
  const start = Math.max(0, polite)
  const first = words[start] ?? ''
  // "Tell me which …" asks; "tell the team …" does not.
  const isTold = first === 'tell' && /^(?:me|us)$/.test(words[start + 1] ?? '')
  const isQuestion = isTold || QUESTIONS.has(first) || QUESTIONS.has(words[0] ?? '')
  // "Pull requests" are things, although "pull" is a verb.
  const isNoun = isPluralWord(first) || (first === 'pull' && /^requests?$/.test(words[start + 1] ?? ''))
  const isCommand = !isQuestion && BY_QUERY_VERB.has(first) && !isNoun
  const phrase = phraseFrom(words.slice(isQuestion || isCommand ? start + 1 : start))
  const last = phrase.findLast((word) => !/^\d+$/.test(word))
  const hasAll = words.some((word) => EVERYTHING.has(word))
  return {
    actions: isQuestion ? READING : isCommand ? actionsOf(first) : laterActions(words, start),
    isMany: hasAll || (last === undefined ? undefined : isPluralWord(last)),
    object: new Set(phrase.flatMap(stemsOf)),
  }
}

function actionsOf(verb: string): ReadonlySet<Action> {
  return BY_QUERY_VERB.get(verb) ?? new Set()
}

/** The actions of a text that does not begin with a verb: "the build is done, please publish it", "my open invoices". */
function laterActions(words: readonly string[], start: number): ReadonlySet<Action> {
  const verb = words.find(
    (word, at) => at > start && BY_QUERY_VERB.has(word) && BEFORE_VERBS.has(words[at - 1] ?? ''),
  )
  if (verb !== undefined) return actionsOf(verb)
  const isSentence = SUBJECTS.has(words[0] ?? '') || words.some((word) => OBLIGATIONS.has(word))
  return isSentence ? new Set(words.flatMap((word) => [...actionsOf(word)])) : READING
}

/** The first words that belong together. */
function phraseFrom(words: readonly string[]): readonly string[] {
  const from = words.findIndex((word) => !BOUNDARIES.has(word) && !EVERYTHING.has(word))
  const rest = from === -1 ? [] : words.slice(from)
  const end = rest.findIndex((word) => BOUNDARIES.has(word))
  return end === -1 ? rest : rest.slice(0, end)
}

/** What a tool does: by the verb of its name or of its title, or because it only reads. */
export function toolAction(names: readonly string[], isReading: boolean): Action | undefined {
  for (const name of names) {
    const words = splitWords(name)
    const at = words.findIndex((word) => BY_TOOL_VERB.has(word))
    const [action] = BY_TOOL_VERB.get(words[at] ?? '') ?? []
    if (action === undefined) continue
    const last = phraseFrom(words.slice(at + 1)).at(-1)
    return action === 'get' && last !== undefined && isPluralWord(last) ? 'list' : action
  }
  return isReading ? 'get' : undefined
}
