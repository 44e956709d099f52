/** How much one JSON text of somebody else may hold before it is parsed. */
export interface JsonBounds {
  readonly deepest: number
  /** Members and elements of all its objects and lists together. */
  readonly mostValues: number
}

/** Also what an author's own value may hold (`copyJson`). */
export const JSON_BOUNDS: JsonBounds = { deepest: 256, mostValues: 100_000 }

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * What a JSON text has too much of, in words; looked for in its bytes, without building any of it: parsing 8 MiB of brackets
 * takes a second and a gigabyte, looking at them some milliseconds. Says nothing about whether the text is JSON.
 */
export function tooMuchJson(bytes: Uint8Array, bounds: JsonBounds = JSON_BOUNDS): string | undefined {
  let [depth, values, isText] = [0, 0, false]
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (isText) {
      if (byte === BACKSLASH) at += 1
      else if (byte === QUOTE) isText = false
    } else if (byte === QUOTE) isText = true
    else if (byte === COMMA) values += 1
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1
      values += 1
      if (depth > bounds.deepest) return `is nested deeper than ${bounds.deepest} levels`
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1
    if (values > bounds.mostValues) return `holds more than ${bounds.mostValues} values`
  }
  return undefined
}
