import type { Line } from './report.ts'

const HEADINGS = [
  'row',
  'what',
  'req/s',
  'p50',
  'p99',
  'cpu/req',
  'against',
  'ratio',
  'rounds',
  'target',
  '',
] as const

export function formatTable(lines: readonly Line[]): string {
  const rows = [[...HEADINGS], ...lines.map(cells)]
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) => row.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join('  '))
    .map((text) => text.trimEnd())
    .join('\n')
}

function cells(line: Line): string[] {
  return [
    line.row,
    line.title,
    rate(line.requestsPerSecond),
    milliseconds(line.p50Ms),
    milliseconds(line.p99Ms),
    line.cpuMicroseconds === undefined ? '' : `${Math.round(line.cpuMicroseconds)} µs`,
    rate(line.againstRequestsPerSecond),
    line.ratio === undefined ? '' : line.ratio.median.toFixed(2),
    line.ratio === undefined ? '' : `${line.ratio.lowest.toFixed(2)}–${line.ratio.highest.toFixed(2)}`,
    line.target,
    line.passed === undefined ? 'info' : line.passed ? 'pass' : 'FAIL',
  ]
}

function rate(perSecond: number | undefined): string {
  return perSecond === undefined ? '' : Math.round(perSecond).toLocaleString('en-US').replaceAll(',', ' ')
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? '' : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`
}

const LEFT_COLUMNS: ReadonlySet<number> = new Set([0, 1, 9, 10])

function pad(cell: string, width: number, column: number): string {
  return LEFT_COLUMNS.has(column) ? cell.padEnd(width) : cell.padStart(width)
}
