import {
  JSON_BOUNDS,
  type JsonBounds,
  JsonScan,
  type JsonValue,
  parseJson,
  TooMuchJson,
  tooMuchJson,
} from '#kernel/base/json'
import { EventLoopYielder, inPieces } from '#kernel/base/long-work'

/**
 * Parses answers and tool lists from other servers. The sources for remote servers use it.
 * Invariant: a long list is parsed in parts, so that it does not block calls.
 */

/** The bounds of a value, with an allowance for the envelope around it. */
export const ANSWER_BOUNDS: JsonBounds = {
  maxDepth: JSON_BOUNDS.maxDepth + 16,
  maxValues: JSON_BOUNDS.maxValues + 100,
}

/** Parses another server's answer to a call, within the bounds of any tool's value. */
export async function readAnswer(text: string): Promise<JsonValue | undefined> {
  return readWithin(text, ANSWER_BOUNDS)
}

/** `undefined` for a text that is not JSON. */
export function readWithin(text: string, bounds: JsonBounds): JsonValue | undefined {
  const problem = tooMuchJson(Buffer.from(text), bounds)
  if (problem !== undefined) throw new TooMuchJson(problem)
  return parseJson(text)
}

const LIST_BOUNDS: JsonBounds = { ...ANSWER_BOUNDS, maxValues: 1_000_000 }
const SCANNED_BYTES = 262_144
/** Maximum number of parts of a list: tools, or their members. */
const MAX_PARTS = 100_000
/** Bounds for one tool, which is parsed in one step. */
const PART_BOUNDS: JsonBounds = { maxDepth: JSON_BOUNDS.maxDepth, maxValues: 5_000 }
const MAX_PART_SIZE = 1_048_576

/**
 * Parses a list of tools of any length. Splits the outermost value and its members, and parses each part by itself, with pauses for
 * other work. `undefined` for a text that is not JSON.
 */
export async function readList(text: string): Promise<JsonValue | undefined> {
  try {
    // Decoding the text may have taken long, so other work gets a turn first.
    await new EventLoopYielder().yieldNow()
    await inPieces(scanBytes(Buffer.from(text)))
    const value = await inPieces(new ListReader(text).read())
    await new EventLoopYielder().yieldNow()
    return value
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function* scanBytes(bytes: Buffer): Generator<undefined, void> {
  const scan = new JsonScan(LIST_BOUNDS)
  for (let at = 0; at < bytes.length; at += SCANNED_BYTES) {
    scan.take(bytes.subarray(at, at + SCANNED_BYTES))
    if (scan.problem !== undefined) throw new TooMuchJson(scan.problem)
    yield
  }
}

const SPACE = /[\t\n\r ]*/y
/** Matches up to the end of a string or the next escape. */
const INSIDE = /[^"\\]*/y
/** Matches a number or a literal. */
const SCALAR = /[^\t\n\r ,\]}]+/y
/** Matches up to the next bracket, brace or quote. */
const PLAIN = /[^"[\]{}]*/y

class ListReader {
  readonly #text: string
  #at = 0
  #parts = 0

  constructor(text: string) {
    this.#text = text
  }

  *read(): Generator<undefined, JsonValue> {
    const value = yield* this.#value(2)
    this.#skip(SPACE)
    if (this.#at < this.#text.length) throw new SyntaxError('something follows')
    return value
  }

  *#value(levels: number): Generator<undefined, JsonValue> {
    this.#skip(SPACE)
    const first = this.#text[this.#at]
    if (levels > 0 && first === '[') return yield* this.#list(levels - 1)
    if (levels > 0 && first === '{') return yield* this.#object(levels - 1)
    const from = this.#at
    if (first === '[' || first === '{') this.#passContainer()
    else if (first === '"') this.#passText()
    else this.#skip(SCALAR)
    this.#parts += 1
    if (this.#parts > MAX_PARTS) throw new TooMuchJson(`has more than ${MAX_PARTS} parts`)
    const part = this.#text.slice(from, this.#at)
    checkPartSize(part.length)
    const problem = tooMuchJson(Buffer.from(part), PART_BOUNDS)
    if (problem !== undefined) throw new TooMuchJson(`has a part that ${problem}`)
    yield
    return JSON.parse(part)
  }

  *#list(levels: number): Generator<undefined, JsonValue> {
    const items: JsonValue[] = []
    this.#at += 1
    if (this.#takes(']')) return items
    do {
      items.push(yield* this.#value(levels))
    } while (this.#takes(','))
    if (!this.#takes(']')) throw new SyntaxError('a list without its end')
    return items
  }

  *#object(levels: number): Generator<undefined, JsonValue> {
    const members: [string, JsonValue][] = []
    this.#at += 1
    if (this.#takes('}')) return {}
    do {
      this.#skip(SPACE)
      const from = this.#at
      this.#passText()
      const name: string = JSON.parse(this.#text.slice(from, this.#at))
      if (!this.#takes(':')) throw new SyntaxError('a member without a value')
      members.push([name, yield* this.#value(levels)])
    } while (this.#takes(','))
    if (!this.#takes('}')) throw new SyntaxError('an object without its end')
    // As in `JSON.parse`, the last member with a name counts, and `__proto__` is an ordinary name.
    return Object.fromEntries(members)
  }

  /** Skips to the end of a list or an object. */
  #passContainer(): void {
    const from = this.#at
    let depth = 0
    do {
      const character = this.#text[this.#at]
      if (character === undefined) throw new SyntaxError('it ends too early')
      if (character === '"') this.#passText()
      else {
        depth += character === '[' || character === '{' ? 1 : -1
        this.#at += 1
      }
      checkPartSize(this.#at - from)
      if (depth > 0) this.#skip(PLAIN)
    } while (depth > 0)
  }

  #passText(): void {
    if (this.#text[this.#at] !== '"') throw new SyntaxError('a string without its opening quote')
    this.#at += 1
    this.#skip(INSIDE)
    while (this.#text[this.#at] === '\\') {
      this.#at += 2
      this.#skip(INSIDE)
    }
    if (this.#text[this.#at] !== '"') throw new SyntaxError('a string without its closing quote')
    this.#at += 1
  }

  /** Skips the text that matches here, if any. */
  #skip(pattern: RegExp): void {
    pattern.lastIndex = this.#at
    if (pattern.test(this.#text)) this.#at = pattern.lastIndex
  }

  /** Skips the character and white space before it; returns false if another character is here. */
  #takes(character: string): boolean {
    this.#skip(SPACE)
    if (this.#text[this.#at] !== character) return false
    this.#at += 1
    return true
  }
}

function checkPartSize(characters: number): void {
  if (characters > MAX_PART_SIZE) throw new TooMuchJson(`has a part of more than ${MAX_PART_SIZE} characters`)
}
