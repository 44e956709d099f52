/**
 * Writes exported rows as CSV or as JSON lines, in pieces of bounded size. The export routes are the only user. CSV follows RFC 4180:
 * a header line, CRLF, quotes around cells that need them. Texts from callers cannot become formulas in a spreadsheet.
 */
import type { ExportFormat } from '#admin-api/exports'
import type { JsonValue } from '#kernel/base/json'

/** A value of each column, by its name; an absent value is an empty cell, and `null` in JSON. */
export type ExportRow = Readonly<Record<string, JsonValue | undefined>>

/** Rows of an export. A batch is what was read at once; it may be empty. */
export interface ExportRows {
  readonly columns: readonly string[]
  readonly batches: AsyncIterable<readonly ExportRow[]>
}

/** Characters in one piece of the answer. */
const PIECE_LENGTH = 64 * 1_024

export async function* exportText(
  format: ExportFormat,
  { columns, batches }: ExportRows,
): AsyncGenerator<string> {
  const line = format === 'csv' ? csvLine : jsonLine
  let text = format === 'csv' ? csvCells(columns) : ''
  for await (const batch of batches) {
    for (const row of batch) {
      text += line(columns, row)
      if (text.length < PIECE_LENGTH) continue
      yield text
      text = ''
    }
  }
  if (text !== '') yield text
}

function csvLine(columns: readonly string[], row: ExportRow): string {
  return csvCells(columns.map((column) => row[column]))
}

function jsonLine(columns: readonly string[], row: ExportRow): string {
  return `${JSON.stringify(Object.fromEntries(columns.map((column) => [column, row[column] ?? null])))}\n`
}

function csvCells(values: readonly (JsonValue | undefined)[]): string {
  return `${values.map(csvCell).join(',')}\r\n`
}

/** Lists and objects are written as JSON. */
export function csvCell(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const safe = FORMULA_START.test(text) ? `'${text}` : text
  return NEEDS_QUOTES.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/**
 * Spreadsheets read a cell as a formula if it begins with one of these characters, also in its full-width form or after spaces. An
 * apostrophe before it makes the cell a text.
 */
const FORMULA_START = /^(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])/
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/
