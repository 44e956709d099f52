import type { ContenderName } from './contenders.ts'
import type { LoadResult } from './load-result.ts'
import type { CatalogMeasurement } from './measure-catalog.ts'
import { FOLLOWERS, type FollowersMeasurement } from './measure-followers.ts'
import type { HopMeasurement } from './measure-hop.ts'
import type { ImportMeasurement } from './measure-import.ts'
import type { PrincipalsMeasurement } from './measure-principals.ts'
import type {
  CatalogRow,
  FollowersRow,
  HopRow,
  ImportRow,
  PrincipalsMemoryRow,
  PrincipalsRow,
  RatioRow,
  Row,
  RowName,
  SpreadRow,
} from './rows.ts'
import { median } from './statistics.ts'

/** One entry a round. */
export interface Measurements {
  readonly rounds: readonly ReadonlyMap<ContenderName, LoadResult>[]
  readonly catalogs: readonly CatalogMeasurement[]
  readonly principals: readonly PrincipalsMeasurement[]
  readonly followers: readonly FollowersMeasurement[]
  readonly imports: readonly ImportMeasurement[]
  readonly hops: readonly HopMeasurement[]
}

/** One line of the table. */
export interface Line {
  readonly row: RowName
  readonly title: string
  readonly requestsPerSecond: number | undefined
  readonly p50Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly cpuMicroseconds: number | undefined
  readonly againstRequestsPerSecond: number | undefined
  /** Median of the rounds' own ratios, lowest and highest round. */
  readonly ratio: { readonly median: number; readonly lowest: number; readonly highest: number } | undefined
  readonly target: string
  /** `undefined` = the row is for information. */
  readonly passed: boolean | undefined
}

export function reportLine(name: RowName, row: Row, measured: Measurements): Line {
  if (row.kind === 'ratio') return { row: name, ...reportRatio(row, measured) }
  if (row.kind === 'spread') return { row: name, ...reportSpread(row, measured) }
  if (row.kind === 'principals') return { row: name, ...reportPrincipals(row, measured) }
  if (row.kind === 'principalsMemory') return { row: name, ...reportMemory(row, measured) }
  if (row.kind === 'followers') return { row: name, ...reportFollowers(row, measured) }
  if (row.kind === 'import') return { row: name, ...reportImport(row, measured) }
  if (row.kind === 'hop') return { row: name, ...reportHop(row, measured) }
  return { row: name, ...reportCatalog(row, measured) }
}

type Body = Omit<Line, 'row'>

function reportRatio(row: RatioRow, measured: Measurements): Body {
  const ratio = ratioOf(measured, row.contender, row.against)
  return {
    title: row.title,
    ...summary(loadsOf(measured, row.contender)),
    againstRequestsPerSecond: summary(loadsOf(measured, row.against)).requestsPerSecond,
    ratio,
    target: row.atLeast === undefined ? '' : `≥ ${row.atLeast.toFixed(2)}`,
    passed: row.atLeast === undefined ? undefined : ratio.median >= row.atLeast,
  }
}

function reportSpread(row: SpreadRow, measured: Measurements): Body {
  const pairs = row.contenders.flatMap((left) =>
    row.contenders.filter((right) => right !== left).map((right) => ratioOf(measured, left, right)),
  )
  const ratio = pairs.reduce((worst, pair) => (pair.median < worst.median ? pair : worst))
  return {
    title: row.title,
    ...summary(row.contenders.flatMap((contender) => loadsOf(measured, contender))),
    againstRequestsPerSecond: undefined,
    ratio,
    target: `≥ ${row.atLeast.toFixed(2)}`,
    passed: ratio.median >= row.atLeast,
  }
}

function reportCatalog(row: CatalogRow, measured: Measurements): Body {
  const { timing } = row
  const target = `≤ ${row.atMostMs} ms`
  const rest = { title: row.title, againstRequestsPerSecond: undefined, ratio: undefined, target }
  if (timing === 'startUp') {
    const p50Ms = median(measured.catalogs.map((catalog) => catalog.startUpMs))
    return { ...NO_LOAD, ...rest, p50Ms, passed: p50Ms <= row.atMostMs }
  }
  const lists = summary(measured.catalogs.map((catalog) => catalog[timing]))
  return { ...rest, ...lists, passed: lists.p50Ms <= row.atMostMs }
}

function reportPrincipals({ title, timing, atMostMs }: PrincipalsRow, measured: Measurements): Body {
  const lists = summary(measured.principals.map((round) => round[timing]))
  const rest = { againstRequestsPerSecond: undefined, ratio: undefined, target: `≤ ${atMostMs} ms` }
  return { title, ...rest, ...lists, passed: lists.p50Ms <= atMostMs }
}

function reportMemory({ title, atMost }: PrincipalsMemoryRow, measured: Measurements): Body {
  const ratio = spreadOf(measured.principals.map(({ memoryRatio }) => memoryRatio))
  return {
    title,
    ...NO_LOAD,
    p50Ms: undefined,
    againstRequestsPerSecond: undefined,
    ratio,
    target: `≤ ${atMost.toFixed(2)}`,
    passed: ratio.median <= atMost,
  }
}

function reportFollowers({ title }: FollowersRow, { followers }: Measurements): Body {
  return {
    title,
    requestsPerSecond: median(followers.map(({ eventsPerSecond }) => eventsPerSecond)),
    p50Ms: median(followers.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(followers.map(({ p99Ms }) => p99Ms)),
    cpuMicroseconds: undefined,
    againstRequestsPerSecond: undefined,
    ratio: undefined,
    target: 'all, once, in order',
    passed: followers.every(({ complete }) => complete === FOLLOWERS.readers),
  }
}

function reportImport(row: ImportRow, { imports }: Measurements): Body {
  const own = imports.filter(({ document }) => document === row.document)
  const cpuMs = median(own.map((each) => each.cpuMs))
  const stallMs = median(own.map((each) => each.stallMs))
  const megabytes = Math.max(...own.map(({ extraBytes }) => extraBytes / 1e6))
  const listMegabytes = Math.max(...own.map(({ listBytes }) => listBytes / 1e6))
  const isWhole = own.every(({ tools }) => tools >= row.atLeastTools)
  const isShort = cpuMs <= row.atMostMs && stallMs <= row.atMostStallMs
  const isSmall = megabytes <= row.atMostMegabytes && listMegabytes <= row.atMostListMegabytes
  return {
    title: `${row.title}: cpu ${Math.round(cpuMs)} ms, stall ${Math.round(stallMs)} ms, ${Math.round(megabytes)} MB, list ${listMegabytes.toFixed(1)} MB`,
    ...NO_LOAD,
    p50Ms: median(own.map(({ tookMs }) => tookMs)),
    againstRequestsPerSecond: undefined,
    ratio: undefined,
    target: `cpu ≤ ${row.atMostMs} ms, stall ≤ ${row.atMostStallMs} ms, ≤ ${row.atMostMegabytes} MB, list ≤ ${row.atMostListMegabytes} MB`,
    passed: isWhole && isShort && isSmall,
  }
}

function reportHop(row: HopRow, { hops }: Measurements): Body {
  const more = hops.map(({ direct, through }) => through.p50Ms - direct.p50Ms)
  const ratios = hops.map(({ direct, through }) => through.p99Ms / direct.p99Ms)
  const ratio = { median: median(ratios), lowest: Math.min(...ratios), highest: Math.max(...ratios) }
  return {
    title: `${row.title} (+${median(more).toFixed(2)} ms)`,
    requestsPerSecond: undefined,
    cpuMicroseconds: undefined,
    p50Ms: median(hops.map(({ through }) => through.p50Ms)),
    p99Ms: median(hops.map(({ through }) => through.p99Ms)),
    againstRequestsPerSecond: undefined,
    ratio,
    target: `+≤ ${row.atMostMoreMs} ms, p99 ≤ ${row.atMostP99Ratio}`,
    passed: median(more) <= row.atMostMoreMs && ratio.median <= row.atMostP99Ratio,
  }
}

const NO_LOAD = { requestsPerSecond: undefined, p99Ms: undefined, cpuMicroseconds: undefined }

function summary(loads: readonly LoadResult[]) {
  return {
    requestsPerSecond: median(loads.map((load) => load.requestsPerSecond)),
    p50Ms: median(loads.map((load) => load.p50Ms)),
    p99Ms: median(loads.map((load) => load.p99Ms)),
    cpuMicroseconds: median(loads.map((load) => load.cpuMicroseconds)),
  }
}

function loadsOf(measured: Measurements, contender: ContenderName): LoadResult[] {
  return measured.rounds.flatMap((round) => round.get(contender) ?? [])
}

/** Compares inside each round first, so that a slow minute of the machine slows both sides. */
function ratioOf(measured: Measurements, contender: ContenderName, against: ContenderName) {
  const others = loadsOf(measured, against)
  const ratios = loadsOf(measured, contender).map(
    (load, round) => load.requestsPerSecond / (others[round]?.requestsPerSecond ?? Number.NaN),
  )
  return spreadOf(ratios)
}

function spreadOf(ratios: readonly number[]) {
  return { median: median(ratios), lowest: Math.min(...ratios), highest: Math.max(...ratios) }
}
