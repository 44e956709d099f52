import { isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Encoding } from './operation.ts'

/**
 * Writes values as text in OpenAPI's styles (RFC 6570): in paths and headers, and as pairs in queries, forms and cookies.
 * `request.ts` uses it. Invariant: a value cannot break out of its part of the address.
 */

type EncodingStyle = Pick<Encoding, 'style' | 'explode'>

/** One `name=value` of a query, a form or a cookie; both are already encoded. */
export type Pair = readonly [name: string, value: string]

type Encode = (text: string) => string

/** Encodes everything but unreserved characters (RFC 6570), including characters that `encodeURIComponent` leaves. */
export function encodeStrictly(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** For `allowReserved`: leaves reserved characters too, except those that would end the value. */
export function encodeReserved(text: string): string {
  return encodeStrictly(text).replaceAll(/%(3A|2F|3F|5B|5D|40|21|24|27|28|29|2A|2C|3B|3D)/g, (code) =>
    decodeURIComponent(code),
  )
}

/** For headers, whose values are not encoded. */
export function unencoded(text: string): string {
  return text
}

/** The text of a single value; an object or a list becomes JSON. */
export function plainText(value: JsonValue): string {
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}

/** Separators of the styles that do not use commas. */
const SEPARATORS: Partial<Record<Encoding['style'], string>> = {
  spaceDelimited: ' ',
  pipeDelimited: '|',
  tabDelimited: '\t',
}

/** Writes a value in a path or a header, in the styles `simple`, `label` and `matrix`. */
export function serializeInPath(
  name: string,
  value: JsonValue,
  { style, explode }: EncodingStyle,
  encode: Encode,
): string {
  if (style === 'matrix') {
    // Nothing follows the name of an empty value (RFC 6570 §3.2.7).
    return matrixPairs(name, value, explode, encode)
      .map(([key, text]) => (text === '' ? `;${key}` : `;${key}=${text}`))
      .join('')
  }
  const prefix = style === 'label' ? '.' : ''
  const separator = style === 'label' && explode ? '.' : separatorOf(style, encode)
  return prefix + partsOf(value, explode, encode).join(separator)
}

function matrixPairs(name: string, value: JsonValue, explode: boolean, encode: Encode): readonly Pair[] {
  const key = encode(name)
  if (!explode || !isCollection(value)) return [[key, partsOf(value, false, encode).join(',')]]
  return explodedPairs(key, value, encode, encode)
}

/** Returns a pair for each item of a list or each member of an object. */
function explodedPairs(key: string, value: JsonArray | JsonObject, encodeName: Encode, encode: Encode) {
  return isJsonObject(value)
    ? present(value).map(([member, item]): Pair => [encodeName(member), encode(plainText(item))])
    : value.map((item): Pair => [key, encode(plainText(item))])
}

/** Writes a value in a query, a form or a cookie. */
export function serializeAsPairs(
  name: string,
  value: JsonValue,
  encoding: EncodingStyle,
  encode: Encode,
): readonly Pair[] {
  const key = encodeStrictly(name)
  if (!isCollection(value)) return [[key, encode(plainText(value))]]
  if (encoding.style === 'deepObject') return deepPairs(key, value, encode)
  if (encoding.explode) return explodedPairs(key, value, encodeStrictly, encode)
  const parts = partsOf(value, false, encode)
  return parts.length === 0 ? [] : [[key, parts.join(separatorOf(encoding.style, encodeStrictly))]]
}

/** Returns pairs such as `a[b][c]=1`; items of a list have their index as the key. */
function deepPairs(key: string, value: JsonArray | JsonObject, encode: Encode): readonly Pair[] {
  return Object.entries(value).flatMap(([member, item]: [string, JsonValue]) => {
    if (item === null) return []
    const inner = `${key}%5B${encodeStrictly(member)}%5D`
    return isCollection(item) ? deepPairs(inner, item, encode) : [[inner, encode(plainText(item))] as const]
  })
}

/** The parts that separators are put between: items, or names and values. */
function partsOf(value: JsonValue, explode: boolean, encode: Encode): readonly string[] {
  if (!isCollection(value)) return [encode(plainText(value))]
  if (!isJsonObject(value)) return value.map((item) => encode(plainText(item)))
  const pairs = present(value).map(([name, item]) => [encode(name), encode(plainText(item))] as const)
  return explode ? pairs.map((pair) => pair.join('=')) : pairs.flat()
}

function present(value: JsonObject): readonly (readonly [string, JsonValue])[] {
  return Object.entries(value).filter(([, item]) => item !== null)
}

/** A comma is not encoded; other separators are. */
function separatorOf(style: Encoding['style'], encode: Encode): string {
  const separator = SEPARATORS[style]
  return separator === undefined ? ',' : encode(separator)
}

function isCollection(value: JsonValue): value is JsonArray | JsonObject {
  return typeof value === 'object' && value !== null
}
