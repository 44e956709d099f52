import type { ContenderName } from './contenders.ts'
import type { LoadResult } from './load-result.ts'
import type { RoundResult } from './measure-round.ts'
import type { FigureRow, Goals, RatioRow, Row, RowName } from './rows.ts'
import { type Figure, median } from './statistics.ts'
import type { SubjectName } from './subjects.ts'

/** Everything that was measured. */
export interface Measurements {
  /** One entry per round. */
  readonly rounds: readonly ReadonlyMap<ContenderName, RoundResult>[]
  /** One entry per round, or the error that prevented them. */
  readonly subjects: ReadonlyMap<SubjectName, readonly Readonly<Record<string, Figure>>[] | Error>
}

/** One line of the table. */
export interface Line {
  readonly row: RowName
  readonly title: string
  readonly goals: Goals
  /** Median, lowest and highest of the rounds; `undefined` if it could not be measured. */
  readonly figure: { readonly median: number; readonly lowest: number; readonly highest: number } | undefined
  readonly problem: string | undefined
  readonly requestsPerSecond: number | undefined
  readonly p50Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly cpuMicroseconds: number | undefined
  readonly againstRequestsPerSecond: number | undefined
  /** Whether the goals are met; `undefined` where there is none. */
  readonly must: boolean | undefined
  readonly aim: boolean | undefined
}

export function reportLine(name: RowName, row: Row, measured: Measurements): Line {
  const seen = read(row, measured)
  const figure = seen.values === undefined ? undefined : spreadOf(seen.values)
  const { title, goals } = row
  return {
    ...{ row: name, title, goals, figure, problem: seen.problem },
    requestsPerSecond: middle(seen.beside, 'requestsPerSecond'),
    p50Ms: middle(seen.beside, 'p50Ms'),
    p99Ms: middle(seen.beside, 'p99Ms'),
    cpuMicroseconds: middle(seen.beside, 'cpuMicroseconds'),
    againstRequestsPerSecond: middle(seen.against ?? [], 'requestsPerSecond'),
    must: goals.must === undefined ? undefined : isMet(figure?.median, goals.must, goals),
    aim: goals.aim === undefined ? undefined : isMet(figure?.median, goals.aim, goals),
  }
}

/** A figure as it is printed. The printed figure is compared with the goal, so that `1.00` never fails at 1. */
export function figureText(value: number, { unit }: Goals): string {
  if (unit === 'ratio') return value.toFixed(2)
  if (unit === 'MB') return value.toFixed(value < 20 ? 1 : 0)
  return Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(0)
}

function isMet(value: number | undefined, goal: number, goals: Goals): boolean {
  if (value === undefined) return false
  const printed = Number(figureText(value, goals))
  return goals.best === 'high' ? printed >= goal : printed <= goal
}

interface Seen {
  /** One value per round. */
  readonly values?: readonly number[]
  readonly problem?: string
  readonly beside: readonly Beside[]
  readonly against?: readonly Beside[]
}

type Beside = Partial<Omit<Figure, 'value'>>

function read(row: Row, measured: Measurements): Seen {
  return row.kind === 'ratio' ? readRatio(row, measured) : readFigure(row, measured)
}

/** Compares within each round, so that a slow period of the machine affects both sides. */
function readRatio({ contender, against, of }: RatioRow, measured: Measurements): Seen {
  const [own, others] = [loadsOf(measured, contender), loadsOf(measured, against)]
  const problem = problemOf(measured, [contender, against])
  if (problem !== undefined) return { problem, beside: own, against: others }
  const values = own.map((load, round) => load[of] / (others[round]?.[of] ?? Number.NaN))
  return { values, beside: own, against: others }
}

function readFigure({ subject, figure }: FigureRow, { subjects }: Measurements): Seen {
  const rounds = subjects.get(subject)
  if (rounds === undefined || rounds instanceof Error)
    return { problem: rounds?.message ?? 'not measured', beside: [] }
  const figures = rounds.flatMap((round) => round[figure] ?? [])
  return { values: figures.map(({ value }) => value), beside: figures }
}

function loadsOf(measured: Measurements, contender: ContenderName): LoadResult[] {
  return measured.rounds.flatMap((round) => {
    const result = round.get(contender)
    return result === undefined || result instanceof Error ? [] : result
  })
}

/** The first error of these contenders in any round. */
function problemOf({ rounds }: Measurements, contenders: readonly ContenderName[]): string | undefined {
  const failures = rounds.flatMap((round) => contenders.map((name) => [name, round.get(name)] as const))
  const found = failures.find(([, result]) => result instanceof Error)
  return found === undefined ? undefined : `${found[0]}: ${found[1] instanceof Error ? found[1].message : ''}`
}

function middle(beside: readonly Beside[], name: keyof Beside): number | undefined {
  const values = beside.flatMap((each) => each[name] ?? [])
  return values.length === 0 ? undefined : median(values)
}

function spreadOf(values: readonly number[]) {
  return { median: median(values), lowest: Math.min(...values), highest: Math.max(...values) }
}
