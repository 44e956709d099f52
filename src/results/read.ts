import { fault } from '#kernel/base/errors'
import { canonicalJson, childPointer, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type Found, memberAt, parseJsonText, stepsOf, valueAt } from './paths.ts'
import { projector } from './project.ts'
import { beginningOf, byteLength, type LeftOut, shapeValue, wholeEnd } from './shape.ts'

/*
 * Reads a part of a recorded result: by path, by range (items, members, characters, bytes of base64), by a filter of items.
 * MCP's `read_result`, the HTTP route and the command line use it.
 * Invariants: the JSON of a part has at most the given number of bytes; every read advances, so that all parts together are
 * the whole value.
 */

export interface ReadRequest {
  /** JSON Pointer or dotted path; default the whole value. */
  readonly path?: string | undefined
  readonly offset?: number | undefined
  readonly limit?: number | undefined
  /** Items of an array that match. */
  readonly where?: Where | undefined
  /** Members to return of an object, or of each item. */
  readonly select?: readonly string[] | undefined
  /** `text`: the part as text, by characters. `json`: a string that contains JSON is read as JSON. */
  readonly format?: ReadFormat | undefined
}

export const READ_FORMATS = ['json', 'text', 'toon'] as const
type ReadFormat = (typeof READ_FORMATS)[number]

export interface Where {
  /** Path of the member inside an item; empty for the item itself. */
  readonly member: string
  readonly equals?: JsonValue | undefined
  /** Part of a text, ignoring case; or an item of a list. */
  readonly contains?: string | undefined
}

type Unit = 'items' | 'members' | 'characters' | 'bytes'

export interface ResultPart {
  /** JSON Pointer of the part. */
  readonly path: string
  readonly type: 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'
  readonly value: JsonValue
  /** The unit of `offset`, `count` and `total`; absent for numbers, booleans and null. */
  readonly unit?: Unit
  readonly offset?: number
  readonly count?: number
  /** With a filter, the number of items that match. */
  readonly total?: number
  /** Offset of the next part; absent at the end. */
  readonly next?: number
  /** With a filter: the positions of the items in the array. */
  readonly indexes?: readonly number[]
  /** The shortened parts of the value, as pointers from the root. */
  readonly leftOut: readonly LeftOut[]
}

export function readPart(root: JsonValue, request: ReadRequest, maxBytes: number): ResultPart {
  const found = valueAt(root, request.path ?? '')
  if (request.format === 'text') return readText(found, asText(found.value), request, maxBytes)
  const { where, select, format } = request
  const asJson = where !== undefined || select !== undefined || format !== undefined
  const value = asJson ? parseJsonText(found.value) : found.value
  if (where !== undefined && !Array.isArray(value))
    throw fault(
      'request_invalid',
      `"where" filters the items of an array, but ${nameOf(found)} is not an array.`,
    )
  const selected = selection(select)
  if (Array.isArray(value)) return readItems(found, value, { ...request, selected }, maxBytes)
  const shown = selected(value)
  if (isJsonObject(shown)) return readMembers(found, shown, request, maxBytes)
  if (typeof value !== 'string') return { path: found.pointer, type: typeOf(value), value, leftOut: [] }
  return isBytes(found)
    ? readBytes(found, value, request, maxBytes)
    : readText(found, value, request, maxBytes)
}

function readItems(
  { pointer }: Found,
  items: readonly JsonValue[],
  { offset = 0, limit = items.length, where, selected }: ReadRequest & { readonly selected: Selection },
  maxBytes: number,
): ResultPart {
  const isChosen = where === undefined ? () => true : matcher(where)
  const chosen = items.flatMap((item, index) => (isChosen(item) ? [{ item, index }] : []))
  const wanted = chosen.slice(offset, offset + limit)
  // A filter also returns the position of each item.
  const extra = where === undefined ? 1 : 10
  const page = takeWhile(wanted, maxBytes, ({ item }) => jsonSize(selected(item)) + extra)
  const kept = page.length === 0 ? wanted.slice(0, 1) : page
  const leftOut: LeftOut[] = []
  const value = kept.map(({ item, index }) => {
    const part = selected(item)
    return page.length > 0
      ? part
      : shapeAt(childPointer(pointer, index), part, { maxBytes: maxBytes - extra, leftOut })
  })
  return {
    ...{ path: pointer, type: 'array', unit: 'items', value, leftOut },
    ...rangeOf(offset, kept.length, chosen.length),
    ...(where === undefined ? {} : { indexes: kept.map(({ index }) => index) }),
  }
}

/** Without a range, members are shortened so that all of them fit; with a range, as many whole members as fit are returned. */
function readMembers(
  { pointer }: Found,
  object: JsonObject,
  { offset, limit }: ReadRequest,
  maxBytes: number,
): ResultPart {
  const entries = Object.entries(object)
  const shared = { path: pointer, type: 'object', unit: 'members' } as const
  const leftOut: LeftOut[] = []
  if (offset === undefined && limit === undefined) {
    const value = shapeAt(pointer, object, { maxBytes, leftOut })
    const count = isJsonObject(value) ? Object.keys(value).length : 0
    return { ...shared, value, leftOut, ...rangeOf(0, count, entries.length) }
  }
  const start = offset ?? 0
  const wanted = entries.slice(start, start + (limit ?? entries.length))
  const page = takeWhile(wanted, maxBytes, ([name, value]) => jsonSize(name) + jsonSize(value) + 2)
  const [first] = wanted
  const isShaped = page.length === 0 && first !== undefined
  const value = isShaped
    ? shapeAt(pointer, Object.fromEntries([first]), { maxBytes, leftOut })
    : Object.fromEntries(page)
  return { ...shared, value, leftOut, ...rangeOf(start, isShaped ? 1 : page.length, entries.length) }
}

function readText(
  { pointer }: Found,
  text: string,
  { offset = 0, limit = text.length }: ReadRequest,
  maxBytes: number,
): ResultPart {
  const wanted = text.slice(offset, wholeEnd(text, offset + limit))
  let value = beginningOf(wanted, maxBytes - 2)
  // Escapes take more bytes than the characters.
  while (value.length > 1 && jsonSize(value) > maxBytes)
    value = beginningOf(value, Math.floor(byteLength(value) * Math.min(0.95, maxBytes / jsonSize(value))))
  // A read returns at least one character, whatever its size.
  if (value === '') value = String.fromCodePoint(...[text.codePointAt(offset) ?? []].flat())
  const range = rangeOf(offset, value.length, text.length)
  return { path: pointer, type: 'string', unit: 'characters', value, leftOut: [], ...range }
}

/** Base64 of a range of bytes, so that the parts can be decoded one by one. */
function readBytes(
  { pointer }: Found,
  text: string,
  { offset = 0, limit }: ReadRequest,
  maxBytes: number,
): ResultPart {
  const bytes = Buffer.from(text, 'base64')
  const max = Math.max(3, Math.floor((maxBytes - 2) / 4) * 3)
  const part = bytes.subarray(offset, offset + Math.min(limit ?? bytes.length, max))
  const range = rangeOf(offset, part.length, bytes.length)
  const value = part.toString('base64')
  return { path: pointer, type: 'string', unit: 'bytes', value, leftOut: [], ...range }
}

/** Whether the text is the base64 of an image, audio or a file in a content block of MCP. */
function isBytes({ name, parent }: Found): boolean {
  if (parent === undefined || !isJsonObject(parent)) return false
  if (name === 'data') return typeof parent.mimeType === 'string' && typeof parent.type === 'string'
  return name === 'blob' && typeof parent.uri === 'string'
}

function matcher({ member, equals, contains }: Where): (item: JsonValue) => boolean {
  const steps = stepsOf(member)
  return (item) => {
    const value = memberAt(item, steps)
    if (value === undefined) return false
    if (equals !== undefined && !isEqual(value, equals)) return false
    return contains === undefined || holds(value, contains)
  }
}

/** A text also equals the number, boolean or null that it spells, because addresses carry only text. */
function isEqual(value: JsonValue, wanted: JsonValue): boolean {
  const isSpelled = typeof value !== 'string' && (typeof value !== 'object' || value === null)
  if (typeof wanted === 'string' && isSpelled) return String(value) === wanted
  return canonicalJson(value) === canonicalJson(wanted)
}

function holds(value: JsonValue, wanted: string): boolean {
  if (Array.isArray(value)) return value.some((item) => isEqual(item, wanted))
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.toLowerCase().includes(wanted.toLowerCase())
}

type Selection = (value: JsonValue) => JsonValue

/** Keeps the selected members of an object; other values are unchanged. */
function selection(select: readonly string[] | undefined): Selection {
  if (select === undefined) return (value) => value
  const kept = projector(select)
  return (value) => (isJsonObject(value) ? kept(value).value : value)
}

function shapeAt(
  pointer: string,
  value: JsonValue,
  { maxBytes, leftOut }: { readonly maxBytes: number; readonly leftOut: LeftOut[] },
): JsonValue {
  const shaped = shapeValue(value, Math.max(2, maxBytes - 2))
  for (const each of shaped.leftOut) leftOut.push({ ...each, path: pointer + each.path })
  return shaped.value
}

function takeWhile<Item>(
  items: readonly Item[],
  maxBytes: number,
  sizeOf: (item: Item) => number,
): readonly Item[] {
  let left = maxBytes - 2
  const end = items.findIndex((item) => {
    left -= sizeOf(item)
    return left < 0
  })
  return end === -1 ? items : items.slice(0, end)
}

function rangeOf(offset: number, count: number, total: number) {
  const next = offset + count
  return { offset, count, total, ...(next < total ? { next } : {}) }
}

function asText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function jsonSize(value: JsonValue): number {
  return byteLength(JSON.stringify(value))
}

function typeOf(value: JsonValue): ResultPart['type'] {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  const type = typeof value
  return type === 'string' || type === 'number' || type === 'boolean' ? type : 'object'
}

function nameOf({ pointer }: Found): string {
  return pointer === '' ? 'the result' : pointer
}
