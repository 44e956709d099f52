/**
 * JSON values and texts: safe display, copying of authors' values, JSON Pointers, the canonical form, bounds for texts from other
 * parties, and integers that a double cannot represent. Every folder uses it.
 * Two requests are equal exactly when their canonical texts are equal (rule 5).
 */

/** Control characters, characters that reorder text or are invisible (tags, fillers, selectors), and line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu

/**
 * Makes text from other parties (tool texts, call ids, server messages) safe to show: a terminal would obey escape
 * sequences in it, and a page would reorder or hide parts of it.
 */
export function cleanText(text: string): string {
  return text.replace(UNPRINTABLE, (character) =>
    character === '\n' || character === '\t' ? ' ' : escaped(character),
  )
}

/** JSON in which unprintable characters are escaped; it still parses to an equal value. */
export function cleanJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? 'null'
  return text.replace(UNPRINTABLE, (character) => (character === '\n' ? character : escaped(character)))
}

function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}

const MAX_LENGTH = 80

/** A value as text, short enough to quote to its author. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') {
    const text = JSON.stringify(value)
    return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
  }
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value === undefined) return 'missing'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** C0, DEL and C1, which no id may contain. */
export function hasControlCharacter(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    if (unit < 0x20 || (unit >= 0x7f && unit <= 0x9f)) return true
  }
  return false
}

/** A plain copy, or the first value that JSON cannot represent. */
type CopiedJson =
  | { readonly ok: true; readonly value: JsonValue }
  | {
      readonly ok: false
      readonly pointer: string
      readonly problem: string
      /** The value may be JSON, but exceeds a limit. */
      readonly tooLarge: boolean
    }

/**
 * Copies an author's JavaScript value; members that are `undefined` are left out. The bounds also end the copying of cycles
 * and of objects that are referenced very often.
 */
export function copyJson(
  value: unknown,
  { maxValues }: Pick<JsonBounds, 'maxValues'> = JSON_BOUNDS,
): CopiedJson {
  const budget = { left: maxValues, of: maxValues }
  try {
    return { ok: true, value: copy(value, '', 0, budget) }
  } catch (error) {
    if (!(error instanceof NotJson)) throw error
    return { ok: false, pointer: error.pointer, problem: error.message, tooLarge: error.tooLarge }
  }
}

interface Budget {
  left: number
  readonly of: number
}

class NotJson extends Error {
  readonly pointer: string
  readonly tooLarge: boolean

  constructor(pointer: string, problem: string, tooLarge = false) {
    super(problem)
    this.pointer = pointer
    this.tooLarge = tooLarge
  }
}

function copy(value: unknown, pointer: string, depth: number, budget: Budget): JsonValue {
  budget.left -= 1
  if (budget.left < 0) throw new NotJson(pointer, `Contains more than ${budget.of} values.`, true)
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw new NotJson(pointer, 'Is a string with a lone surrogate.')
    return value
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new NotJson(pointer, `Is ${value}, which JSON cannot represent.`)
    return value
  }
  if (typeof value !== 'object')
    throw new NotJson(pointer, `Is a ${typeof value}, which JSON cannot represent.`)
  if (depth >= JSON_BOUNDS.maxDepth) {
    const problem = `Is nested deeper than ${JSON_BOUNDS.maxDepth} levels, or contains itself.`
    throw new NotJson(pointer, problem, true)
  }
  return Array.isArray(value)
    ? Array.from(value, (item, index) => copy(item, childPointer(pointer, index), depth + 1, budget))
    : copyObject(value, pointer, depth + 1, budget)
}

function copyObject(value: object, pointer: string, depth: number, budget: Budget): JsonObject {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw new NotJson(pointer, 'Is an instance of a class, which JSON cannot represent.')
  }
  const copied: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined)
      setMember(copied, name, copy(member, childPointer(pointer, name), depth, budget))
  }
  return copied
}

/** Sets a member of any name: assigning to `__proto__` would change the prototype instead. */
export function setMember<Value>(target: Record<string, Value>, name: string, value: Value): void {
  if (name === '__proto__') {
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
  } else {
    target[name] = value
  }
}

/** Appends a step to a JSON Pointer (RFC 6901). */
export function childPointer(pointer: string, step: string | number): string {
  // Most names contain neither character, and this test is much faster than two replacements.
  if (typeof step === 'number' || !/[~/]/.test(step)) return `${pointer}/${step}`
  return `${pointer}/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/** The steps of a JSON Pointer; an empty list for the empty pointer. */
export function pointerSteps(pointer: string): string[] {
  if (pointer === '') return []
  const steps = pointer.slice(1).split('/')
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** One text per value (RFC 8785): members sorted by UTF-16 code unit, no spaces, numbers and strings as in ECMAScript. */
export function canonicalJson(value: JsonValue): string {
  if (typeof value === 'number') return String(value)
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  let text = ''
  if (!isJsonObject(value)) {
    for (const member of value) text += `${text === '' ? '' : ','}${canonicalJson(member)}`
    return `[${text}]`
  }
  for (const name of inOrder(Object.keys(value))) {
    const member = value[name]
    if (member === undefined) continue
    text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${canonicalJson(member)}`
  }
  return `{${text}}`
}

/** Most senders already write members in this order, and checking is far cheaper than sorting. */
function inOrder(names: string[]): readonly string[] {
  for (let index = 1; index < names.length; index += 1) {
    if ((names[index - 1] ?? '') > (names[index] ?? '')) return names.sort()
  }
  return names
}

/** Any JSON value. Values from clients were already checked when their bodies were read. */
export type JsonValue = null | boolean | number | string | JsonArray | JsonObject
export type JsonArray = readonly JsonValue[]
export interface JsonObject {
  readonly [member: string]: JsonValue
}

/** True for an object that is not an array. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return isRecord(value)
}

/** Bounds for a JSON text from another party, checked before the text is parsed. */
export interface JsonBounds {
  readonly maxDepth: number
  /** Maximum number of members and elements in all objects and lists together. */
  readonly maxValues: number
  /** Maximum number of members in the outermost object or list; unbounded by default. */
  readonly maxOutermost?: number
}

/** The default bounds; `copyJson` also applies them to authors' values. */
export const JSON_BOUNDS: JsonBounds = { maxDepth: 256, maxValues: 100_000 }

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Counts the values in a JSON text while its bytes arrive, without parsing it: parsing 8 MiB of brackets takes a second
 * and a gigabyte, scanning them takes some milliseconds. It does not check that the text is JSON.
 */
export class JsonScan {
  readonly #bounds: JsonBounds
  #depth = 0
  #values = 0
  #outermost = 0
  #isText = false
  #isEscaped = false
  #problem: string | undefined

  constructor(bounds: JsonBounds = JSON_BOUNDS) {
    this.#bounds = bounds
  }

  /** A text that names the bound that was exceeded; `undefined` if there is none. */
  get problem(): string | undefined {
    return this.#problem
  }

  get values(): number {
    return this.#values
  }

  take(bytes: Uint8Array): void {
    const { maxDepth, maxValues, maxOutermost = Number.POSITIVE_INFINITY } = this.#bounds
    let [depth, values, outermost] = [this.#depth, this.#values, this.#outermost]
    let [isText, isEscaped] = [this.#isText, this.#isEscaped]
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at]
      if (isEscaped) isEscaped = false
      else if (isText) {
        if (byte === BACKSLASH) isEscaped = true
        else if (byte === QUOTE) isText = false
      } else if (byte === QUOTE) isText = true
      else if (byte === COMMA) {
        values += 1
        if (depth === 1) outermost += 1
      } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        depth += 1
        values += 1
        if (depth > maxDepth) this.#problem ??= `is nested deeper than ${maxDepth} levels`
      } else if ((byte === CLOSE_LIST || byte === CLOSE_OBJECT) && depth > 0) depth -= 1
      if (values > maxValues) this.#problem ??= `contains more than ${maxValues} values`
      if (outermost >= maxOutermost)
        this.#problem ??= `contains more than ${maxOutermost} values at its top level`
      if (this.#problem !== undefined) return
    }
    this.#depth = depth
    this.#values = values
    this.#outermost = outermost
    this.#isText = isText
    this.#isEscaped = isEscaped
  }
}

/** Parses a JSON text; `undefined` if the text is not JSON. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A text that names the bound that the JSON text exceeds; `undefined` if it exceeds none. */
export function tooMuchJson(bytes: Uint8Array, bounds: JsonBounds = JSON_BOUNDS): string | undefined {
  const scan = new JsonScan(bounds)
  scan.take(bytes)
  return scan.problem
}

/** Thrown instead of parsing a JSON text that exceeds its bounds. */
export class TooMuchJson extends Error {
  override readonly name = 'TooMuchJson'
}

/** Matches a number that may be an integer beyond 2^53: at least 16 digits, preceded by neither quote nor letter. */
const LONG_NUMBER = /[:,[\s-][0-9]{16}/
/** Maximum number of pointers reported for one value. */
const MAX_INEXACT = 20
const inexactIntegers = new WeakMap<object, string[]>()

/**
 * Remembers which integers in a JSON text a double cannot represent exactly. Returns the value to use: `value` itself, or a
 * parsed copy whose inexact integers are known.
 */
export function withInexactIntegers(text: string, value: JsonValue): JsonValue {
  return LONG_NUMBER.test(text) ? JSON.parse(text, noteInexact) : value
}

/** JSON Pointers to the integers in a value that differ from its JSON text. */
export function inexactIntegersIn(value: JsonValue | undefined): readonly string[] {
  return typeof value === 'object' && value !== null ? (inexactIntegers.get(value) ?? []) : []
}

/** A reviver. Members are revived before the object that contains them, so each object collects the pointers of its members. */
function noteInexact(this: object, name: string, value: JsonValue, context?: { readonly source?: string }) {
  const inside =
    typeof value === 'number' ? (isInexact(value, context?.source) ? [''] : []) : inexactIntegersIn(value)
  if (inside.length === 0) return value
  const pointers = inexactIntegers.get(this) ?? []
  inexactIntegers.set(this, pointers)
  const own = childPointer('', name)
  for (const pointer of inside) if (pointers.length < MAX_INEXACT) pointers.push(`${own}${pointer}`)
  return value
}

/** Whether an integer's value changed when it was parsed. Large doubles are printed with digits that parse to the same value. */
function isInexact(value: number, source: string | undefined): boolean {
  if (source === undefined || !/^-?[0-9]+$/.test(source)) return false
  return String(value) !== source && BigInt(source) !== BigInt(value)
}

/** A record whose members that may be `undefined` are optional instead, as `exactOptionalPropertyTypes` requires. */
type Defined<Members> = {
  [Name in keyof Members as undefined extends Members[Name] ? never : Name]: Members[Name]
} & {
  [Name in keyof Members as undefined extends Members[Name] ? Name : never]?: Exclude<
    Members[Name],
    undefined
  >
}

/** The members that are not `undefined`. Not for code that runs in every call, because it copies. */
export function defined<const Members extends object>(members: Members): Defined<Members>
export function defined(members: object): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
