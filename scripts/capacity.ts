import { arch, cpus, platform } from 'node:os'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

/**
 * The capacity model of one PostgreSQL. `node scripts/capacity.ts` prints the tables of docs/scale.md from measured
 * figures; `--measure` measures them again (`--calls 40000`); `--replicas`, `--calls-a-day` and others change the
 * load.
 */

/** Cost of a call, or of a commit group, for the database. Microseconds are those of a backend's core. */
export interface Figures {
  /** Of a commit, independent of its number of calls. */
  readonly groupUs: number
  readonly pureUs: number
  /** Including its claim. */
  readonly writeUs: number
  readonly pureWal: number
  readonly writeWal: number
  /** Of the row of a call and its indexes. */
  readonly callBytes: number
  /** Of the journal, first with inputs and outcomes, then without. */
  readonly resultBytes: number
  readonly journalBytes: number
  readonly deleteUs: number
  readonly deleteWal: number
  /** Of a change that reads before it writes; those of all replicas run one after another. */
  readonly serializedUs: number
  readonly connections: number
}

/** As printed by `--measure`; docs/scale.md describes the machine. */
export const MEASURED: Figures = {
  groupUs: 762,
  pureUs: 51,
  writeUs: 69,
  pureWal: 2_003,
  writeWal: 2_672,
  callBytes: 398,
  resultBytes: 1_339,
  journalBytes: 429,
  deleteUs: 96,
  deleteWal: 354,
  serializedUs: 594,
  connections: 4,
}

export interface Load {
  readonly callsADay: number
  readonly replicas: number
  /** Ratio of the busiest second to the mean. */
  readonly peak: number
  /** Share of calls that claim first. */
  readonly writes: number
  readonly resultDays: number
  readonly journalDays: number
  /** From sending a commit to its answer. */
  readonly commitMs: number
  /** Calls covered by one lease of a budget or rate. */
  readonly slice: number
  readonly leaseSeconds: number
}

const DAY_SECONDS = 86_400
const PARTS = 12
/** Renewals in one term of a lease. */
const RENEWALS = 3

export const LOADS: readonly Load[] = [
  { callsADay: 1e6, replicas: 2 },
  { callsADay: 1e8, replicas: 10 },
  { callsADay: 1e9, replicas: 100 },
].map((load) => ({
  ...load,
  ...{ peak: 3, writes: 0.2, resultDays: 1, journalDays: 90 },
  ...{ commitMs: 3, slice: 50, leaseSeconds: 10 },
}))

/** One line of the model: what is needed, and the limit if it is known. */
export interface Need {
  readonly what: string
  readonly needed: number
  readonly unit: string
  /** The limit of one database. */
  readonly max?: number
}

/** What a load needs of one database. */
export function needsOf(figures: Figures, load: Load): readonly Need[] {
  const peak = (load.callsADay / DAY_SECONDS) * load.peak
  const mean = load.callsADay / DAY_SECONDS
  // Calls that arrive during a commit form the next group; a write commits twice.
  const perReplica = (peak * (1 + load.writes)) / load.replicas
  const inGroup = Math.max(1, (perReplica * load.commitMs) / 1_000)
  const commits = (peak * (1 + load.writes)) / inGroup
  const callUs = figures.pureUs * (1 - load.writes) + figures.writeUs * load.writes
  const wal = figures.pureWal * (1 - load.writes) + figures.writeWal * load.writes
  const partDays = Math.max(1, Math.floor(load.journalDays / PARTS))
  const gigabytes = (bytes: number) => bytes / 1e9
  return [
    { what: 'calls in the busiest second', needed: peak, unit: '/s' },
    { what: 'calls in a commit', needed: inGroup, unit: '' },
    { what: 'commits', needed: commits, unit: '/s', max: 20_000 },
    {
      what: 'cores for commits and calls',
      needed: (commits * figures.groupUs + peak * callUs) / 1e6,
      unit: '',
      max: 48,
    },
    {
      what: 'cores for deleting results, all day',
      needed: (mean * figures.deleteUs) / 1e6,
      unit: '',
      max: 16,
    },
    { what: 'deleting results, one step at a time', needed: mean, unit: '/s', max: 1e6 / figures.deleteUs },
    {
      what: 'WAL in the busiest second',
      needed: (peak * wal + mean * figures.deleteWal) / 1e6,
      unit: ' MB/s',
      max: 1_000,
    },
    {
      what: 'calls and results at rest',
      needed: gigabytes(load.callsADay * load.resultDays * (figures.callBytes + figures.resultBytes)),
      unit: ' GB',
      max: 16_000,
    },
    {
      what: 'the journal at rest',
      needed: gigabytes(load.callsADay * load.journalDays * figures.journalBytes),
      unit: ' GB',
      max: 16_000,
    },
    {
      what: 'tombstones of writes at rest',
      needed: gigabytes(load.callsADay * load.writes * load.journalDays * figures.callBytes),
      unit: ' GB',
      max: 16_000,
    },
    {
      what: 'partitions of the journal',
      needed: Math.ceil(load.journalDays / partDays) + 2,
      unit: '',
      max: 100,
    },
    {
      what: 'one partition',
      needed: gigabytes(load.callsADay * partDays * figures.journalBytes),
      unit: ' GB',
    },
    { what: 'connections', needed: load.replicas * figures.connections, unit: '', max: 1_000 },
    {
      what: 'renewals of leases',
      needed: (load.replicas * RENEWALS) / load.leaseSeconds,
      unit: '/s',
      max: 5_000,
    },
    {
      what: 'serialized changes, if every call is in a budget',
      needed: peak / load.slice,
      unit: '/s',
      max: 1e6 / figures.serializedUs,
    },
  ]
}

/** Ordered by how far the need exceeds the limit. */
export function firstToBreak(needs: readonly Need[]): readonly Need[] {
  const share = ({ needed, max }: Need) => (max === undefined ? 0 : needed / max)
  return needs.filter((need) => share(need) > 1).sort((left, right) => share(right) - share(left))
}

/** The model as a Markdown table. */
export function printModel(figures: Figures, loads: readonly Load[]): string {
  const columns = loads.map((load) => needsOf(figures, load))
  const heads = loads.map(({ callsADay, replicas }) => `${shown(callsADay)} calls/day, ${replicas} replicas`)
  const rows = (columns[0] ?? []).map(({ what }, index) => {
    const cells = columns.map((needs) => {
      const { needed, unit, max } = needs[index] ?? { needed: 0, unit: '', max: undefined }
      return `${shown(needed)}${unit}${max !== undefined && needed > max ? ' ✗' : ''}`
    })
    const max = columns[0]?.[index]?.max
    return `| ${[what, ...cells, max === undefined ? '' : shown(max)].join(' | ')} |`
  })
  return [`| | ${heads.join(' | ')} | limit |`, `|${' --- |'.repeat(loads.length + 2)}`, ...rows].join('\n')
}

/** Rounded to two significant digits. */
function shown(value: number): string {
  if (value >= 1e6) return `10^${Number(Math.log10(value).toFixed(1))}`
  if (value >= 100) return String(Number(value.toPrecision(2))).replace(/\B(?=(\d{3})+$)/g, ' ')
  return String(Number(value.toPrecision(2)))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { values } = parseArgs({
    options: {
      measure: { type: 'boolean' },
      calls: { type: 'string', default: '40000' },
      replicas: { type: 'string' },
      'calls-a-day': { type: 'string' },
    },
  })
  let figures = MEASURED
  if (values.measure === true) {
    const { measure } = await import('./capacity-measure.ts')
    console.log(
      `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${platform()} ${arch()}, ${cpus().length} cores, ${cpus()[0]?.model ?? ''}`,
    )
    figures = await measure(Number(values.calls), (line) => console.log(line))
    console.log(JSON.stringify(figures, undefined, 2))
  }
  const [, , largest] = LOADS
  const own = values.replicas ?? values['calls-a-day']
  const loads =
    own === undefined || largest === undefined
      ? LOADS
      : [
          {
            ...largest,
            replicas: Number(values.replicas ?? largest.replicas),
            callsADay: Number(values['calls-a-day'] ?? largest.callsADay),
          },
        ]
  console.log(printModel(figures, loads))
  for (const load of loads) {
    const broken = firstToBreak(needsOf(figures, load)).map(({ what }) => what)
    console.log(
      `${load.replicas} replicas: ${broken.length === 0 ? 'nothing breaks' : `breaks first: ${broken.join('; then ')}`}`,
    )
  }
}
