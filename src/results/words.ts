import { encode } from '@toon-format/toon'
import type { JsonValue } from '#kernel/base/json'
import type { ResultPart } from './read.ts'
import type { LeftOut } from './shape.ts'

/*
 * Texts about shortened results: what was left out, which part was read, and how to read the rest. MCP sends these texts to
 * models, and the command line prints them.
 * Invariant: a text has at most `MAX_WORDS_BYTES` bytes, whatever the names in a result.
 */

/** Number of bytes that callers reserve for a text. */
export const MAX_WORDS_BYTES = 1_500

/** A value as text. TOON is used only if it is shorter than JSON, as for lists of objects with the same members. */
export function valueText(value: JsonValue, format: 'json' | 'text' | 'toon' = 'json'): string {
  if (typeof value === 'string') return value
  const json = JSON.stringify(value)
  if (format !== 'toon' || typeof value !== 'object') return json
  const toon = encode(value)
  return toon.length < json.length ? toon : json
}

const MAX_PLACES = 8
const MAX_PATH = 80

/** One line for each of the first shortened parts, and the number of the others. */
export function placesText(leftOut: readonly LeftOut[], from = ''): string {
  const shown = leftOut.slice(0, MAX_PLACES).map((place) => `- ${placeText(place, from)}`)
  const more = leftOut.length - shown.length
  const isCut = leftOut.slice(0, MAX_PLACES).some(({ path }) => isLong(from + path))
  return [
    ...shown,
    ...(more > 0 ? [`- and ${more} more places`] : []),
    ...(isCut ? ['A path that ends with … is not whole; such a part can be read with format "text".'] : []),
  ].join('\n')
}

function placeText({ path, unit, kept, of, names = [] }: LeftOut, from: string): string {
  const at = shortPath(from + path)
  const others = names.length === 0 ? '' : ` (left out: ${shortList(names, of - kept)})`
  return `${at === '' ? 'the value' : at}: ${kept} of ${of} ${unit}${others}`
}

const MAX_LIST = 5

/** The first names, and the number of the others. */
export function shortList(names: readonly string[], total = names.length, max = MAX_LIST): string {
  const shown = names.slice(0, max).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  const more = total - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

/** Cuts the end of a long pointer, because its beginning is needed to find the value. */
function shortPath(path: string): string {
  return isLong(path) ? `${path.slice(0, MAX_PATH)}…` : path
}

function isLong(path: string): boolean {
  return path.length > MAX_PATH
}

/** Describes the part that was read, and the offset of the next one. */
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
