import { childPointer, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'

/*
 * Shortens a JSON value to a number of bytes: long texts keep their beginning, long arrays their first items, large objects as many
 * members as fit. MCP replies and the result reader use it.
 * Invariants: the JSON of the result has at most the given number of bytes, except for a number or boolean, which cannot be shortened;
 * every value keeps its type; every shortened part is listed with the amount that was left out, and a shortened text that is not empty
 * ends with a note.
 */

/** A shortened part of a value. */
export interface LeftOut {
  /** JSON Pointer from the value that was shortened. */
  readonly path: string
  readonly unit: 'items' | 'members' | 'characters'
  readonly kept: number
  readonly of: number
  /** Names of a few of the members that were left out. */
  readonly names?: readonly string[]
}

export interface Shaped {
  readonly value: JsonValue
  readonly json: string
  /** Empty if the value is whole. */
  readonly leftOut: readonly LeftOut[]
}

/** Sizes are estimates, so a result that is still too long is made again with a smaller budget. */
const MAX_ROUNDS = 8
const BUDGET_FACTOR = 0.75

export function shapeValue(value: JsonValue, maxBytes: number): Shaped {
  const whole = JSON.stringify(value)
  if (byteLength(whole) <= maxBytes) return { value, json: whole, leftOut: [] }
  const sizes = new Sizes()
  let budget = maxBytes
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const shaper = new Shaper(sizes)
    const shaped = shaper.shape(value, budget, { path: '', depth: 0 })
    const json = JSON.stringify(shaped)
    if (byteLength(json) <= maxBytes) return { value: shaped, json, leftOut: shaper.leftOut }
    budget = Math.floor(budget * BUDGET_FACTOR)
  }
  return emptied(value)
}

export function byteLength(text: string): number {
  return Buffer.byteLength(text)
}

/** The longest beginning of a text that fits, without splitting a character. */
export function beginningOf(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text
  let end = Math.min(text.length, Math.max(0, maxBytes))
  while (end > 0 && byteLength(text.slice(0, end)) > maxBytes) {
    const over = byteLength(text.slice(0, end)) - maxBytes
    // Each UTF-16 code unit takes at most three bytes in UTF-8.
    end -= Math.max(1, Math.floor(over / 3))
  }
  return text.slice(0, wholeEnd(text, end))
}

/** The given end, or one before it if it would split a surrogate pair. */
export function wholeEnd(text: string, end: number): number {
  if (end <= 0 || end >= text.length) return Math.max(0, Math.min(end, text.length))
  const last = text.charCodeAt(end - 1)
  const isHalf = last >= 0xd8_00 && last <= 0xdb_ff && text.charCodeAt(end) >= 0xdc_00
  return isHalf && text.charCodeAt(end) <= 0xdf_ff ? end - 1 : end
}

/** Deeper values are shown as empty. */
const MAX_DEPTH = 200

/** The sizes of a value's parts as JSON, each measured once. */
class Sizes {
  readonly #known = new WeakMap<object, number>()

  of(value: JsonValue, depth = 0): number {
    if (typeof value !== 'object' || value === null) return byteLength(JSON.stringify(value))
    const known = this.#known.get(value)
    if (known !== undefined) return known
    const size = depth > MAX_DEPTH ? Number.MAX_SAFE_INTEGER : this.#measure(value, depth)
    this.#known.set(value, size)
    return size
  }

  #measure(value: object & JsonValue, depth: number): number {
    let size = 2
    if (Array.isArray(value)) for (const item of value) size += this.of(item, depth + 1) + 1
    else if (isJsonObject(value))
      for (const [name, member] of Object.entries(value)) size += nameSize(name) + this.of(member, depth + 1)
    return size
  }
}

/** The size of a member's name with its quotes, the colon and the comma. */
function nameSize(name: string): number {
  return byteLength(JSON.stringify(name)) + 2
}

interface Position {
  readonly path: string
  readonly depth: number
}

/** Minimum size of a shortened member or item; a shorter one would say too little. */
const MIN_BYTES = 40
/** Number of shortened items of an array whose first item does not fit. */
const MAX_SHORTENED_ITEMS = 3
const MAX_NAMES = 8
const NAME_LENGTH = 40

class Shaper {
  readonly leftOut: LeftOut[] = []
  readonly #sizes: Sizes

  constructor(sizes: Sizes) {
    this.#sizes = sizes
  }

  shape(value: JsonValue, budget: number, position: Position): JsonValue {
    if (this.#sizes.of(value, position.depth) <= budget) return value
    if (typeof value === 'string') return this.#text(value, budget, position)
    if (Array.isArray(value)) return this.#array(value, budget, position)
    return isJsonObject(value) ? this.#object(value, budget, position) : value
  }

  #text(text: string, budget: number, { path }: Position): string {
    const room = Math.max(0, budget - noteOf(text.length, text.length).length - 6)
    const start = beginningOf(text, isEncoded(text) ? Math.min(room, ENCODED_BYTES) : room)
    // Escape sequences take more bytes than the characters they stand for.
    const excess = byteLength(JSON.stringify(start)) - byteLength(start) - 2
    const kept = excess <= 4 ? start : beginningOf(start, Math.floor(room * (room / (room + excess))))
    this.leftOut.push({ path, unit: 'characters', kept: kept.length, of: text.length })
    return `${kept}${noteOf(kept.length, text.length)}`
  }

  #array(items: readonly JsonValue[], budget: number, { path, depth }: Position): JsonValue {
    const kept: JsonValue[] = []
    const firstInner = this.leftOut.length
    let remaining = budget - 2
    for (const item of items) {
      const size = this.#sizes.of(item, depth + 1) + 1
      if (size > remaining) break
      kept.push(item)
      remaining -= size
    }
    const wanted = kept.length === 0 ? Math.min(MAX_SHORTENED_ITEMS, items.length) : kept.length + 1
    const share = Math.floor(remaining / (kept.length === 0 ? wanted : 1)) - 1
    const isDeep = depth >= MAX_DEPTH
    while (kept.length < wanted && kept.length < items.length && !isDeep) {
      // If the space is not enough for several items, one item gets all of it.
      const room = share >= MIN_BYTES ? share : remaining - 1
      if (room < MIN_BYTES) break
      const at = { path: childPointer(path, kept.length), depth: depth + 1 }
      const shaped = this.shape(items[kept.length] ?? null, room, at)
      remaining -= this.#sizes.of(shaped, depth + 1) + 1
      kept.push(shaped)
    }
    // Outer parts are listed before inner ones.
    if (kept.length < items.length)
      this.leftOut.splice(firstInner, 0, { path, unit: 'items', kept: kept.length, of: items.length })
    return kept
  }

  /** Small members stay whole; the others share the remaining space. */
  #object(object: JsonObject, budget: number, { path, depth }: Position): JsonValue {
    const entries = Object.entries(object)
    const fitting = depth >= MAX_DEPTH ? [] : fittingMembers(entries, budget - 2)
    const firstInner = this.leftOut.length
    // Outer parts are listed before inner ones.
    if (fitting.length < entries.length) {
      const names = entries.slice(fitting.length, fitting.length + MAX_NAMES).map(([name]) => shortName(name))
      this.leftOut.push({ path, unit: 'members', kept: fitting.length, of: entries.length, names })
    }
    const room = budget - 2 - fitting.reduce((sum, [name]) => sum + nameSize(name), 0)
    const share = shareOf(
      fitting.map(([, value]) => this.#sizes.of(value, depth + 1)),
      room,
    )
    const kept: Record<string, JsonValue> = {}
    for (const [name, value] of fitting)
      setMember(kept, name, this.shape(value, share, { path: childPointer(path, name), depth: depth + 1 }))
    return this.leftOut.length === firstInner ? object : kept
  }
}

/** The first members whose names fit, with space for a shortened value each. */
function fittingMembers<Value>(
  entries: readonly (readonly [string, Value])[],
  budget: number,
): readonly (readonly [string, Value])[] {
  let remaining = budget
  const end = entries.findIndex(([name, value]) => {
    remaining -= nameSize(name) + (typeof value === 'object' || typeof value === 'string' ? MIN_BYTES : 6)
    return remaining < 0
  })
  return end === -1 ? entries : entries.slice(0, end)
}

/** The size up to which members stay whole, so that all of them together fit. */
export function shareOf(sizes: readonly number[], room: number): number {
  let remaining = room
  const ascending = sizes.toSorted((one, other) => one - other)
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(remaining / (ascending.length - index))
    if (size > share) return Math.max(0, share)
    remaining -= size
  }
  return room
}

const ENCODED_BYTES = 24
const ENCODED = /^[A-Za-z0-9+/_=-]{400}/

/** True for base64 and similar texts, whose beginning is meaningless to a model. */
function isEncoded(text: string): boolean {
  return ENCODED.test(text)
}

function noteOf(kept: number, of: number): string {
  return `… [${kept} of ${of} characters]`
}

function shortName(name: string): string {
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH)}…` : name
}

/** The result if no part of the value fits. */
function emptied(value: JsonValue): Shaped {
  if (Array.isArray(value))
    return { value: [], json: '[]', leftOut: [{ path: '', unit: 'items', kept: 0, of: value.length }] }
  if (isJsonObject(value)) {
    const of = Object.keys(value).length
    return { value: {}, json: '{}', leftOut: [{ path: '', unit: 'members', kept: 0, of }] }
  }
  if (typeof value !== 'string') return { value, json: JSON.stringify(value), leftOut: [] }
  return { value: '', json: '""', leftOut: [{ path: '', unit: 'characters', kept: 0, of: value.length }] }
}
