import { arch, cpus, platform } from 'node:os'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

/**
 * How far one PostgreSQL goes. `node scripts/capacity.ts` prints the model of docs/scale.md, from figures that were measured;
 * `--measure` measures them anew (`--calls 40000`), `--replicas`, `--calls-a-day` and the others change the load.
 */

/** What one call, or one group of them, costs the database. Microseconds are those of a backend's core. */
export interface Figures {
  /** Of a commit, however many calls are in it. */
  readonly groupUs: number
  readonly pureUs: number
  /** With its claim. */
  readonly writeUs: number
  readonly pureWal: number
  readonly writeWal: number
  /** Of the row of a call and its indexes. */
  readonly callBytes: number
  /** Of the journal while it holds inputs and outcomes, and after that. */
  readonly resultBytes: number
  readonly journalBytes: number
  readonly forgetUs: number
  readonly forgetWal: number
  /** Of a change that reads before it writes; those of all replicas go one after another. */
  readonly carefulUs: number
  readonly connections: number
}

/** As `--measure` printed them; see docs/scale.md for where and when. */
export const MEASURED: Figures = {
  groupUs: 762,
  pureUs: 51,
  writeUs: 69,
  pureWal: 2_003,
  writeWal: 2_672,
  callBytes: 398,
  resultBytes: 1_339,
  journalBytes: 429,
  forgetUs: 96,
  forgetWal: 354,
  carefulUs: 594,
  connections: 4,
}

export interface Load {
  readonly callsADay: number
  readonly replicas: number
  /** The busiest second against the mean. */
  readonly peak: number
  /** Of the calls, those that claim first. */
  readonly writes: number
  readonly resultDays: number
  readonly journalDays: number
  /** From sending a commit to its answer. */
  readonly commitMs: number
  /** Calls that one lease of a budget or rate covers. */
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

/** One line of the model: what is needed, and what there is, where that is known. */
export interface Need {
  readonly what: string
  readonly needed: number
  readonly unit: string
  /** What one database has of it; a need above that breaks it. */
  readonly most?: number
}

/** What a load asks of one database. */
export function needsOf(figures: Figures, load: Load): readonly Need[] {
  const peak = (load.callsADay / DAY_SECONDS) * load.peak
  const mean = load.callsADay / DAY_SECONDS
  // What arrives at a replica while it commits goes together; a write commits twice.
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
    { what: 'commits', needed: commits, unit: '/s', most: 20_000 },
    {
      what: 'cores for commits and calls',
      needed: (commits * figures.groupUs + peak * callUs) / 1e6,
      unit: '',
      most: 48,
    },
    { what: 'cores for forgetting, all day', needed: (mean * figures.forgetUs) / 1e6, unit: '', most: 16 },
    { what: 'forgetting, one step at a time', needed: mean, unit: '/s', most: 1e6 / figures.forgetUs },
    {
      what: 'WAL in the busiest second',
      needed: (peak * wal + mean * figures.forgetWal) / 1e6,
      unit: ' MB/s',
      most: 1_000,
    },
    {
      what: 'calls and results at rest',
      needed: gigabytes(load.callsADay * load.resultDays * (figures.callBytes + figures.resultBytes)),
      unit: ' GB',
      most: 16_000,
    },
    {
      what: 'the journal at rest',
      needed: gigabytes(load.callsADay * load.journalDays * figures.journalBytes),
      unit: ' GB',
      most: 16_000,
    },
    {
      what: 'tombstones of writes at rest',
      needed: gigabytes(load.callsADay * load.writes * load.journalDays * figures.callBytes),
      unit: ' GB',
      most: 16_000,
    },
    { what: 'parts of the journal', needed: Math.ceil(load.journalDays / partDays) + 2, unit: '', most: 100 },
    { what: 'one part', needed: gigabytes(load.callsADay * partDays * figures.journalBytes), unit: ' GB' },
    { what: 'connections', needed: load.replicas * figures.connections, unit: '', most: 1_000 },
    {
      what: 'renewals of leases',
      needed: (load.replicas * RENEWALS) / load.leaseSeconds,
      unit: '/s',
      most: 5_000,
    },
    {
      what: 'careful changes, if every call is in a budget',
      needed: peak / load.slice,
      unit: '/s',
      most: 1e6 / figures.carefulUs,
    },
  ]
}

/** What breaks first comes first: by how much more is needed than there is. */
export function firstToBreak(needs: readonly Need[]): readonly Need[] {
  const share = ({ needed, most }: Need) => (most === undefined ? 0 : needed / most)
  return needs.filter((need) => share(need) > 1).sort((left, right) => share(right) - share(left))
}

/** The model as the page shows it. */
export function printModel(figures: Figures, loads: readonly Load[]): string {
  const columns = loads.map((load) => needsOf(figures, load))
  const heads = loads.map(({ callsADay, replicas }) => `${shown(callsADay)} calls/day, ${replicas} replicas`)
  const rows = (columns[0] ?? []).map(({ what }, index) => {
    const cells = columns.map((needs) => {
      const { needed, unit, most } = needs[index] ?? { needed: 0, unit: '', most: undefined }
      return `${shown(needed)}${unit}${most !== undefined && needed > most ? ' ✗' : ''}`
    })
    const most = columns[0]?.[index]?.most
    return `| ${[what, ...cells, most === undefined ? '' : shown(most)].join(' | ')} |`
  })
  return [`| | ${heads.join(' | ')} | most |`, `|${' --- |'.repeat(loads.length + 2)}`, ...rows].join('\n')
}

/** Two figures that count. */
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
