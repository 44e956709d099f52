import { encode } from '@toon-format/toon'
import type { JsonValue } from '#kernel/base/json'
import type { ResultPart } from './read.ts'
import type { LeftOut } from './shape.ts'

/*
 * Says in words what of a result was left out, where the whole is kept and how to read on. MCP sends these texts to models, and
 * the command line prints them.
 * Invariant: a text has at most `MAX_WORDS_BYTES` bytes, whatever the names in a result.
 */

/** Room that callers leave for a text. */
export const MAX_WORDS_BYTES = 1_500

/** A value as text. TOON is used where it is shorter than JSON, which it is for lists of equal objects. */
export function valueText(value: JsonValue, format: 'json' | 'text' | 'toon' = 'json'): string {
  if (typeof value === 'string') return value
  const json = JSON.stringify(value)
  if (format !== 'toon' || typeof value !== 'object') return json
  const toon = encode(value)
  return toon.length < json.length ? toon : json
}

const MAX_PLACES = 8
const MAX_PATH = 80

/** One line for each place, and the number of the others. */
export function placesText(leftOut: readonly LeftOut[], from = ''): string {
  const shown = leftOut.slice(0, MAX_PLACES).map((place) => `- ${placeText(place, from)}`)
  const more = leftOut.length - shown.length
  return [...shown, ...(more > 0 ? [`- and ${more} more places`] : [])].join('\n')
}

function placeText({ path, unit, kept, of, names = [] }: LeftOut, from: string): string {
  const at = shortPath(from + path)
  const others = names.length === 0 ? '' : ` (left out: ${shortList(names, of - kept)})`
  return `${at === '' ? 'the value' : at}: ${kept} of ${of} ${unit}${others}`
}

const MAX_LIST = 5

/** Names, the first ones only. */
export function shortList(names: readonly string[], total = names.length, max = MAX_LIST): string {
  const shown = names.slice(0, max).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  const more = total - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

/** A pointer is not cut in its beginning, which tells where to look. */
function shortPath(path: string): string {
  return path.length > MAX_PATH ? `${path.slice(0, MAX_PATH)}…` : path
}

/** Which part was read, and where the next one begins. */
export function partText({
  path,
  type,
  unit,
  offset = 0,
  count = 0,
  total = 0,
  next,
  leftOut,
}: ResultPart): string {
  const at = path === '' ? 'The value' : shortPath(path)
  if (unit === undefined) return `${at} is a ${type}.`
  const range =
    offset === 0 && count === total
      ? `all ${total} ${unit}`
      : count === 0
        ? `no ${unit} from ${offset} on, of ${total}`
        : `${unit} ${offset} to ${offset + count - 1} of ${total}`
  const following = next === undefined ? '' : ` Read on with offset ${next}.`
  const shortened =
    leftOut.length === 0 ? '' : `\nShortened inside, read these by their path:\n${placesText(leftOut)}`
  return `${at}: ${range}.${following}${shortened}`
}
