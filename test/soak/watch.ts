import type { Client, Seen } from './load.ts'
import type { Living } from './soak-project.ts'

/** The state of the watched process at one moment. */
export interface Sample {
  readonly atMs: number
  readonly rssMb: number
  /** Heap memory reserved from the system, used or not. */
  readonly takenMb: number
  /** Only set if all garbage was collected just before. */
  readonly living: Living | undefined
  readonly files: number
  readonly handles: number
}

const MB = 1_048_576
/** A run is divided into minutes; a short one into this many equal periods. */
const MIN_PERIODS = 6
/** Share of the run that is the warm-up. */
const WARMING_UP = 1 / 6
/** Random variation of live memory over a whole run: four periods of the same server lie within one megabyte. */
const LIVING_MB = 3
/** Memory outside of the heap, which the allocator and the system share. */
const BESIDE_MB = 10
const BESIDE_SHARE = 0.1
const MAX_SLOWER = 2
/** A smaller change of the p99 is caused by the machine. */
const FLOOR_MS = 20

export async function takeSample(at: Client, living?: Living): Promise<Sample> {
  const text = await at.expect(200, 'GET', '/metrics')
  const read = (name: string): number => {
    const [, value] = new RegExp(`^${name}(?:{[^}]*})? (\\S+)$`, 'm').exec(text) ?? []
    if (value === undefined) throw new Error(`/metrics has no ${name}, so its growth would go unnoticed.`)
    return Number(value)
  }
  return {
    atMs: performance.now(),
    rssMb: read('process_resident_memory_bytes') / MB,
    takenMb: read('nodejs_heap_size_total_bytes') / MB,
    living,
    files: read('process_open_fds'),
    handles: read('nodejs_active_resources_total'),
  }
}

/** One period of a run. */
interface Period {
  readonly acts: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** After a collection. */
  readonly heapMb: number
  readonly buffersMb: number
  /** Heap and external memory together: the content of a cache moves from one to the other. */
  readonly livingMb: number
  readonly takenMb: number
  readonly rssMb: number
  /** Resident memory without the heap. */
  readonly besideMb: number
  readonly files: number
  readonly handles: number
}

/**
 * Live memory, and the memory of the process outside the heap, must not grow. The size of uncollected garbage is up to
 * V8: it varies by a hundred megabytes, and resident memory with it.
 */
const MEMORY = { livingMb: 'what lives', besideMb: 'memory beside the heap' } as const
const MEMORIES = ['livingMb', 'besideMb'] as const
type Memory = (typeof MEMORIES)[number]

export interface SoakVerdict {
  readonly periods: readonly Period[]
  /** Per minute, after the warm-up. */
  readonly slopesMb: Readonly<Record<Memory | 'rssMb', number>>
  readonly problems: readonly string[]
}

/** Number of periods of a run. */
export function countPeriods(lengthMs: number): number {
  return Math.max(MIN_PERIODS, Math.round(lengthMs / 60_000))
}

/** Whether memory, handles and latency stay constant, except for a cache outside the heap that fills up to its size. */
export function judgeSoak(samples: readonly Sample[], seen: readonly Seen[], cacheMb: number): SoakVerdict {
  const [startMs, endMs] = [samples[0]?.atMs ?? 0, samples.at(-1)?.atMs ?? 0]
  const count = countPeriods(endMs - startMs)
  const lengthMs = (endMs - startMs) / count
  const within = (atMs: number, index: number) =>
    atMs >= startMs + index * lengthMs && atMs <= startMs + (index + 1) * lengthMs
  const periods = Array.from({ length: count }, (_, index) =>
    periodOf(
      samples.filter(({ atMs }) => within(atMs, index)),
      seen.filter(({ atMs }) => within(atMs, index)).map(({ ms }) => ms),
    ),
  )
  const warm = periods.slice(Math.ceil(count * WARMING_UP))
  const [first, last] = [warm[0], warm.at(-1)]
  if (first === undefined || last === undefined) throw new Error('Nothing was measured.')
  const slopeOf = (name: Memory | 'rssMb') => slope(warm.map((period) => period[name]))
  const perMinute = (name: Memory | 'rssMb') => slopeOf(name) / (lengthMs / 60_000)
  const grown = MEMORIES.flatMap((name) => {
    const growth = slopeOf(name) * warm.length
    const allowed =
      name === 'livingMb' ? LIVING_MB : Math.max(BESIDE_MB, first.besideMb * BESIDE_SHARE) + cacheMb
    // NaN means that nothing was measured, which is not a success.
    return growth <= allowed ? [] : [`${MEMORY[name]} grew by ${growth.toFixed(1)} MB`]
  })
  // Compares the later half of the minutes with the earlier one: a single minute may be distorted by the machine.
  const p99s = warm.map(({ p99Ms }) => p99Ms)
  const [before, after] = [median(p99s.slice(0, p99s.length / 2)), median(p99s.slice(p99s.length / 2))]
  return {
    periods,
    slopesMb: {
      livingMb: perMinute('livingMb'),
      besideMb: perMinute('besideMb'),
      rssMb: perMinute('rssMb'),
    },
    problems: [
      ...grown,
      ...(last.files > 1.5 * first.files + 20
        ? [`open files went from ${first.files} to ${last.files}`]
        : []),
      ...(last.handles > 1.5 * first.handles + 20
        ? [`handles went from ${first.handles} to ${last.handles}`]
        : []),
      ...(after > Math.max(FLOOR_MS, MAX_SLOWER * before)
        ? [`p99 went from ${before.toFixed(1)} to ${after.toFixed(1)} ms`]
        : []),
    ],
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function periodOf(samples: readonly Sample[], latencies: readonly number[]): Period {
  const sorted = latencies.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  const living = samples.find((sample) => sample.living !== undefined)?.living
  const [heapMb, buffersMb] = [(living?.heap ?? Number.NaN) / MB, (living?.buffers ?? Number.NaN) / MB]
  return {
    acts: sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    heapMb,
    buffersMb,
    livingMb: heapMb + buffersMb,
    takenMb: Math.min(...samples.map(({ takenMb }) => takenMb)),
    rssMb: Math.min(...samples.map(({ rssMb }) => rssMb)),
    besideMb: median(samples.map(({ rssMb, takenMb }) => rssMb - takenMb)),
    files: Math.max(...samples.map(({ files }) => files)),
    handles: Math.max(...samples.map(({ handles }) => handles)),
  }
}

/** Slope per step, by least squares. */
function slope(values: readonly number[]): number {
  const [middle, mean] = [
    (values.length - 1) / 2,
    values.reduce((sum, value) => sum + value, 0) / values.length,
  ]
  const above = values.reduce((sum, value, index) => sum + (index - middle) * (value - mean), 0)
  return above / values.reduce((sum, _, index) => sum + (index - middle) ** 2, 0)
}

/** Of a column. */
const WIDTH = 11

/** One row per period. */
export function describeSoak(
  name: string,
  { periods, slopesMb: { livingMb, besideMb, rssMb }, problems }: SoakVerdict,
): string {
  const rows = periods.map((period, index) =>
    [
      ...[index + 1, period.acts, period.p50Ms.toFixed(1), period.p99Ms.toFixed(1)],
      ...[period.livingMb.toFixed(1), period.heapMb.toFixed(1), period.buffersMb.toFixed(1)],
      ...[period.takenMb.toFixed(0), period.rssMb.toFixed(0), period.besideMb.toFixed(0)],
      ...[period.files, period.handles],
    ]
      .map((cell) => String(cell).padStart(WIDTH))
      .join(''),
  )
  const head = [
    ...['period', 'acts', 'p50 ms', 'p99 ms', 'living MB', 'heap MB', 'buffers MB'],
    ...['taken MB', 'RSS MB', 'beside MB', 'files', 'handles'],
  ]
  return [
    `${name}, MB a minute: living ${livingMb.toFixed(2)}, beside the heap ${besideMb.toFixed(2)}, RSS ${rssMb.toFixed(2)}`,
    head.map((cell) => cell.padStart(WIDTH)).join(''),
    ...rows,
    ...problems.map((problem) => `${name}: ${problem}`),
  ].join('\n')
}
