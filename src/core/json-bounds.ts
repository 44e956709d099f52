/** How much one JSON text of somebody else may hold before it is parsed. */
export interface JsonBounds {
  readonly deepest: number
  /** Members and elements of all its objects and lists together. */
  readonly mostValues: number
  /** Of its outermost object or list alone; no bound of its own unless told. */
  readonly mostOutermost?: number
}

/** Also what an author's own value may hold (`copyJson`). */
export const JSON_BOUNDS: JsonBounds = { deepest: 256, mostValues: 100_000 }

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Counts what a JSON text holds while its bytes arrive, without building any of it: parsing 8 MiB of brackets takes a second
 * and a gigabyte, looking at them some milliseconds. Says nothing about whether the text is JSON.
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

  /** What it has too much of so far, in words. */
  get problem(): string | undefined {
    return this.#problem
  }

  take(bytes: Uint8Array): void {
    const { deepest, mostValues, mostOutermost = Number.POSITIVE_INFINITY } = this.#bounds
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
        if (depth > deepest) this.#problem ??= `is nested deeper than ${deepest} levels`
      } else if ((byte === CLOSE_LIST || byte === CLOSE_OBJECT) && depth > 0) depth -= 1
      if (values > mostValues) this.#problem ??= `holds more than ${mostValues} values`
      if (outermost >= mostOutermost) this.#problem ??= `holds more than ${mostOutermost} values at its top`
      if (this.#problem !== undefined) return
    }
    this.#depth = depth
    this.#values = values
    this.#outermost = outermost
    this.#isText = isText
    this.#isEscaped = isEscaped
  }

  /** No text of JSON goes over the end of a line: whoever pretends that one does cannot hide anything in it. */
  endLine(): void {
    this.#isText = false
    this.#isEscaped = false
  }

  /** From here on another text. */
  startAnew(): void {
    this.endLine()
    this.#depth = 0
    this.#values = 0
    this.#outermost = 0
    this.#problem = undefined
  }
}

/** What a JSON text has too much of, in words. */
export function tooMuchJson(bytes: Uint8Array, bounds: JsonBounds = JSON_BOUNDS): string | undefined {
  const scan = new JsonScan(bounds)
  scan.take(bytes)
  return scan.problem
}

/** Why somebody's JSON was not parsed: what it has too much of. */
export class TooMuchJson extends Error {
  override readonly name = 'TooMuchJson'
}
