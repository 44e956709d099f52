import { stripVTControlCharacters } from 'node:util'
import { cleanText } from '#core/json'

const GAP = '  '
const LEAST_LAST_WIDTH = 20

/** Rows as aligned columns. Only the last column is cut, and only when a width is given. */
export function renderTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  width?: number,
): string[] {
  const cells = [headings, ...rows.map((row) => row.map(cleanText))]
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => lengthOf(row[column] ?? ''))))
  const used = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0)
  const room = width === undefined ? Number.POSITIVE_INFINITY : Math.max(LEAST_LAST_WIDTH, width - used)
  return cells.map((row) =>
    row
      .map((cell, column) =>
        column === row.length - 1
          ? cut(cell, room)
          : cell.padEnd(cell.length + (widths[column] ?? 0) - lengthOf(cell)),
      )
      .join(GAP)
      .trimEnd(),
  )
}

function cut(text: string, room: number): string {
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`
}

function lengthOf(text: string): number {
  return stripVTControlCharacters(text).length
}
