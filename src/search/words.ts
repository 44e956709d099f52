import { relatedStems } from './vocabulary.ts'

/**
 * Splits texts into the words that a search compares: names are split at case, digits and punctuation, words are reduced to
 * their stems, and words that say nothing about a tool are left out. Documents and queries use the same functions, so that a
 * word in a query finds all its forms. `vocabulary.ts` contains synonyms.
 */

/** Maximum length of the text that is read, because the rest of a long description says little about a tool's purpose. */
const MAX_TEXT_LENGTH = 4_000
const MAX_WORD_LENGTH = 40

/** The stems of a text, and its compounds as single words. */
export function documentStems(text: string): readonly string[] {
  const compounds = text.slice(0, MAX_TEXT_LENGTH).match(COMPOUND) ?? []
  return [...stemsOf(text), ...compounds.map((word) => word.toLowerCase())]
}

/** The stems of a text, in order, with repetitions. */
export function stemsOf(text: string): readonly string[] {
  return splitWords(text).flatMap((word) => (STOP_WORDS.has(word) ? [] : [stemOf(word)]))
}

/** `GetPullRequests2` and `get_pull_requests_2` both become `get pull requests 2`. */
export function splitWords(text: string): readonly string[] {
  const spaced = text
    .slice(0, MAX_TEXT_LENGTH)
    .normalize('NFKC')
    .replaceAll(/['’]s\b/g, '')
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .replaceAll(/(\p{L})(\p{N})|(\p{N})(\p{L})/gu, '$1$3 $2$4')
  const words = spaced.toLowerCase().match(WORD) ?? []
  return UNSPACED.test(spaced) ? words.flatMap(pairsOf) : words
}

/** Scripts that write words without spaces, or, as Korean does, with their particles. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u

/** Every two neighbouring characters of a word in such a script, because where its parts begin is not known. */
function pairsOf(word: string): readonly string[] {
  const characters = [...word]
  if (characters.length < 3 || !UNSPACED.test(word)) return [word]
  return characters.slice(1).map((character, at) => `${characters[at]}${character}`)
}

/** Words such as `GitHub`. */
const COMPOUND = /\b[A-Z][a-z]+[A-Z][A-Za-z]*\b/g
const WORD = new RegExp(`[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N}]{0,${MAX_WORD_LENGTH - 1}}`, 'gu')

/** A name without case and punctuation: all spellings of one name are equal. */
export function plainName(text: string): string {
  return text
    .slice(0, MAX_TEXT_LENGTH)
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '')
}

const STOP_WORDS = new Set(
  `a about again all already also am an and any anybody anyone anything are as at be because been before being both but by can could
  did do does doing done each etc ever every everybody everyone everything for from give had has have having he her here hers him his
  how i if in into is it its itself just let like may me might mine more most much must my myself need no nobody not now of off on
  once one only onto or other our ours out over own per please put she should since so some somebody someone something such take
  than that the their theirs them then there these they thing things this those through to too under until up upon us very via want
  was we were what when where whether which while who whom whose why will with within without would yes yet you your yours`.split(
    /\s+/,
  ),
)

const STEMS = new Map<string, string>()
const MAX_STEMS = 20_000

function stemOf(word: string): string {
  const known = STEMS.get(word)
  if (known !== undefined) return known
  const stem = NOT_ENGLISH.test(word) ? word : reduce(word)
  if (STEMS.size >= MAX_STEMS) STEMS.clear()
  STEMS.set(word, stem)
  return stem
}

const NOT_ENGLISH = /[^a-z]/
const VOWEL = /[aeiouy]/

/** Endings that are removed, with the minimum number of letters that must remain, and the replacement. */
const ENDINGS: readonly (readonly [ending: string, least: number, instead: string])[] = [
  ['ification', 2, 'ify'],
  ['ization', 3, 'ize'],
  ['isation', 3, 'ize'],
  ['ation', 5, ''],
  ['ition', 4, ''],
  ['ion', 4, ''],
  ['ment', 5, ''],
  ['ness', 4, ''],
  ['able', 4, ''],
  ['ance', 4, ''],
  ['ence', 4, ''],
  ['ize', 4, 'iz'],
  ['ise', 4, 'iz'],
  ['ful', 4, ''],
  ['our', 3, 'or'],
  ['er', 5, ''],
  ['or', 5, ''],
  ['ly', 4, ''],
]

/** A light form of Porter's algorithm: only forms of the same word become equal, and short words stay unchanged. */
function reduce(word: string): string {
  let stem = singular(word)
  if (stem.length > 4) stem = withoutTense(stem)
  for (const [ending, least, instead] of ENDINGS) {
    if (!stem.endsWith(ending) || stem.length - ending.length < least) continue
    stem = stem.slice(0, -ending.length) + instead
    break
  }
  if (stem.length > 3 && stem.endsWith('e')) stem = stem.slice(0, -1)
  return stem.length > 2 && stem.endsWith('y') ? `${stem.slice(0, -1)}i` : stem
}

/** Whether a noun is in the plural. */
export function isPluralWord(word: string): boolean {
  return word === 'people' || singular(word) !== word
}

function singular(word: string): string {
  if (word.length < 4 || !word.endsWith('s')) return word
  if (/(ss|us|is)$/.test(word)) return word
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`
  if (/(ss|x|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return word.slice(0, -1)
}

function withoutTense(word: string): string {
  const ending = ['ing', 'ed'].find((each) => word.endsWith(each))
  if (ending === undefined) return word
  const stem = word.slice(0, -ending.length)
  if (stem.length < 3 || !VOWEL.test(stem)) return word
  const isDoubled = stem.at(-1) === stem.at(-2) && !/[lsz]$/.test(stem)
  return isDoubled ? stem.slice(0, -1) : stem
}

/** Words with which callers refer to themselves. */
const OWN_WORDS = new Set(['i', 'mine', 'my', 'myself'])
const OWN: QueryWord = { stem: 'my', related: ['authent', 'me', 'own', 'current', 'viewer'], weight: 0.5 }

const RELATED = relatedStems(stemOf)

/** One word of a query: its stem, and the stems of related words. */
export interface QueryWord {
  readonly stem: string
  readonly related: readonly string[]
  /** How much the word counts; verbs count less than 1. */
  readonly weight: number
}

const MAX_QUERY_WORDS = 24

/** Verbs count less than nouns, because `ranking.ts` compares the action separately. */
const VERBS = new Set(
  `create add new make delete remove update edit change set list show get read fetched find search look open start run write save put use
  using used let want go work see turn give take`
    .split(/\s+/)
    .map(stemOf),
)

function weightOf(stem: string): number {
  return VERBS.has(stem) ? VERB_WEIGHT : 1
}

const VERB_WEIGHT = 0.6

/** Abbreviations that are never words themselves. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  pr: 'pull request',
  prs: 'pull requests',
  mr: 'pull request',
}

/** The distinct words of a query. A compound such as `GitHub` stays one word if `isKnown` has it. */
export function queryWords(text: string, isKnown: (stem: string) => boolean): readonly QueryWord[] {
  const whole = text.replaceAll(COMPOUND, (word) => (isKnown(word.toLowerCase()) ? word.toLowerCase() : word))
  const written = whole.replaceAll(/\b[PMpm][Rr]s?\b/g, (word) => ABBREVIATIONS[word.toLowerCase()] ?? word)
  const stems = [...new Set(stemsOf(written.replaceAll(/\btell (?:me|us)\b/gi, ' ')))].slice(
    0,
    MAX_QUERY_WORDS,
  )
  const words = stems.map((stem) => ({ stem, related: RELATED.get(stem) ?? [], weight: weightOf(stem) }))
  return splitWords(text).some((word) => OWN_WORDS.has(word)) ? [...words, OWN] : words
}
