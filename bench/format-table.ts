import { figureText, type Line } from './report.ts'
import type { Goals } from './rows.ts'

/** Where and when the figures were measured. */
export interface Setting {
  readonly date: string
  readonly processor: string
  readonly cores: number
  readonly memoryGigabytes: number
  readonly system: string
  /** Versions of the programs and packages in the comparison, by name. */
  readonly versions: Readonly<Record<string, string>>
  readonly how: string
}

const HEADINGS = [
  'row',
  'what',
  'figure',
  'rounds',
  'must',
  'aim',
  'req/s',
  'against',
  'p50',
  'p99',
  'cpu/req',
]
const LEFT_COLUMNS: ReadonlySet<number> = new Set([0, 1])

/** The table for a terminal. */
export function formatTable(lines: readonly Line[]): string {
  const rows = [HEADINGS, ...lines.map(cells)]
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) => row.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join('  '))
    .map((text) => text.trimEnd())
    .join('\n')
}

/** The contents of RESULTS.md: the table, and the machine and versions that it was measured on. */
export function formatResults(lines: readonly Line[], setting: Setting): string {
  const { date, processor, cores, memoryGigabytes, system, versions, how } = setting
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  const table = [HEADINGS, HEADINGS.map((_, column) => (LEFT_COLUMNS.has(column) ? '---' : '---:'))]
  const rows = [...table, ...lines.map(cells)].map((row) => `| ${row.join(' | ')} |`)
  return [
    '# Results of the benchmark',
    '',
    'Written by `npm run bench`; [README.md](README.md) explains each row. These are the figures of one run on one machine: compare the ratios.',
    '',
    `- ${date}`,
    `- ${processor}, ${cores} cores, ${memoryGigabytes} GB, ${system}`,
    `- ${named.join(', ')}`,
    `- ${how}`,
    '',
    ...rows,
    '',
  ].join('\n')
}

function cells(line: Line): string[] {
  const { figure, goals } = line
  return [
    line.row,
    line.problem === undefined ? line.title : `${line.title} (${line.problem})`,
    figure === undefined ? 'none' : withUnit(figure.median, goals),
    figure === undefined ? '' : `${figureText(figure.lowest, goals)} to ${figureText(figure.highest, goals)}`,
    goalText(goals.must, goals, line.must),
    goalText(goals.aim, goals, line.aim),
    rate(line.requestsPerSecond),
    rate(line.againstRequestsPerSecond),
    milliseconds(line.p50Ms),
    milliseconds(line.p99Ms),
    line.cpuMicroseconds === undefined ? '' : `${Math.round(line.cpuMicroseconds)} µs`,
  ]
}

function withUnit(value: number, goals: Goals): string {
  return goals.unit === 'ratio' ? figureText(value, goals) : `${figureText(value, goals)} ${goals.unit}`
}

function goalText(goal: number | undefined, { best }: Goals, isMet: boolean | undefined): string {
  if (goal === undefined) return ''
  return `${best === 'high' ? '≥' : '≤'} ${goal.toLocaleString('en-US').replaceAll(',', ' ')} ${isMet ? '✓' : '✗'}`
}

function rate(perSecond: number | undefined): string {
  return perSecond === undefined ? '' : Math.round(perSecond).toLocaleString('en-US').replaceAll(',', ' ')
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? '' : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`
}

function pad(cell: string, width: number, column: number): string {
  return LEFT_COLUMNS.has(column) ? cell.padEnd(width) : cell.padStart(width)
}
