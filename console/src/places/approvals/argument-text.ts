import { visibleJson, visibleText } from '../../parts/visible-text.ts'

/**
 * The input of a call as an approver reads it. The caller chooses the input, so no part of it may push another out of sight: long
 * parts are folded, and `foldsOf` lists the parts that must be unfolded to show everything.
 */
export interface Argument {
  readonly name: string
  /** Characters that hide or reorder text are spelled out. */
  readonly text: string
  readonly isJson: boolean
  /** Set for a short list of scalars, for example the words of a command. */
  readonly words?: readonly string[]
}

/** The number of characters shown before a text is unfolded: about eight lines on a wide screen. */
const MAX_SHOWN_CHARACTERS = 600
const MAX_SHOWN_LINES = 30
export const MAX_SHOWN_ARGUMENTS = 30
const MAX_WORDS = 30
/** A longer name is shown as part of the JSON, which folds. */
const MAX_NAME_CHARACTERS = 200

/** Names the fold of all arguments after the first `MAX_SHOWN_ARGUMENTS`. It is longer than any argument name. */
export const MORE_ARGUMENTS = 'more arguments'.padEnd(MAX_NAME_CHARACTERS + 1)
/** Names the fold of the whole input, shown as JSON. */
export const WHOLE_INPUT = 'input'.padEnd(MAX_NAME_CHARACTERS + 1)

/**
 * Arguments in the order of the summary, where declared parameters come first. `undefined` if the input is not an object, or has
 * names too long for a list; it is then shown as JSON.
 */
export function argumentsOf(input: unknown, summary: unknown): readonly Argument[] | undefined {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return undefined
  const members = Object.entries(input)
  if (members.some(([name]) => name.length > MAX_NAME_CHARACTERS)) return undefined
  const order = new Map(
    typeof summary === 'object' && summary !== null
      ? Object.keys(summary).map((name, index) => [name, index] as const)
      : [],
  )
  const indexOf = (name: string): number => order.get(name) ?? order.size
  return members
    .toSorted(([left], [right]) => indexOf(left) - indexOf(right))
    .map(([name, value]) => argumentOf(name, value))
}

function argumentOf(name: string, value: unknown): Argument {
  if (typeof value === 'string') return { name, text: wordOf(value), isJson: false }
  const text = visibleJson(value)
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_WORDS || !value.every(isScalar))
    return { name, text, isJson: true }
  const words = value.map(wordOf)
  const isShort = words.join(' ').length <= MAX_SHOWN_CHARACTERS && !words.some((word) => word.includes('\n'))
  return { name, text, isJson: true, ...(isShort ? { words } : {}) }
}

/** How many characters are shown before a text is unfolded; `undefined` if the whole text is shown. */
export function foldAt(text: string): number | undefined {
  let lineEnd = -1
  for (let lines = 0; lines < MAX_SHOWN_LINES; lines += 1) {
    lineEnd = text.indexOf('\n', lineEnd + 1)
    if (lineEnd === -1) break
  }
  const end = Math.min(MAX_SHOWN_CHARACTERS, lineEnd === -1 ? text.length : lineEnd)
  return end < text.length ? end : undefined
}

/** The names of all folds in the list of arguments. */
export function foldsOf(listed: readonly Argument[]): readonly string[] {
  const long = listed.filter(({ text, words }) => words === undefined && foldAt(text) !== undefined)
  return [...long.map(({ name }) => name), ...(listed.length > MAX_SHOWN_ARGUMENTS ? [MORE_ARGUMENTS] : [])]
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value !== 'object'
}

/** Shows a value. A string that is empty or looks like another type is quoted: `"5"` is not `5`. */
function wordOf(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value) ?? String(value)
  const isMistakable = value.trim() !== value || /^(?:|-?\d[\d.e+-]*|true|false|null|".*")$/is.test(value)
  return visibleText(isMistakable ? JSON.stringify(value) : value)
}
