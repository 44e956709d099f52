import type { TextPosition } from './codec-document-finding.ts'
import { findSyntaxError } from './codec-document-syntax.ts'

export type ParsedText =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly position?: TextPosition }

const BOM = '\uFEFF'

/** JSON text or its UTF-8 bytes; a byte order mark is skipped (OTS-01). */
export function parseDocumentText(input: string | Uint8Array): ParsedText {
  const decoded = typeof input === 'string' ? input : decodeUtf8(input)
  if (decoded === undefined) return { ok: false, message: 'The bytes are not UTF-8.' }
  const text = decoded.startsWith(BOM) ? decoded.slice(1) : decoded
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch {
    const position = positionAt(text, findSyntaxError(text))
    const found = describeCharacter(text, position.offset)
    const message = `Not JSON: line ${position.line}, column ${position.column} has ${found}.`
    return { ok: false, message, position }
  }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function positionAt(text: string, offset: number): TextPosition {
  let line = 1
  let lineStart = 0
  for (let end = text.indexOf('\n'); end !== -1 && end < offset; end = text.indexOf('\n', end + 1)) {
    line += 1
    lineStart = end + 1
  }
  return { offset, line, column: offset - lineStart + 1 }
}

function describeCharacter(text: string, offset: number): string {
  const point = text.codePointAt(offset)
  if (point === undefined) return 'the end of the text'
  return `an unexpected ${JSON.stringify(String.fromCodePoint(point))}`
}
