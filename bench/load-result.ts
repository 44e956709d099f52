import type { LoadSlice } from './load.ts'
import { type Figure, percentile } from './statistics.ts'

export interface LoadResult {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time of the server for one request; other programs on the machine hardly change it. */
  readonly cpuMicroseconds: number
  /** Share of the time in which the load generator was busy. Near 1, the generator is the limit, not the server. */
  readonly generatorBusy: number
}

export function summarizeLoad(slices: readonly LoadSlice[]): LoadResult {
  const sum = (read: (slice: LoadSlice) => number) => slices.reduce((total, slice) => total + read(slice), 0)
  const sorted = Float64Array.from(slices.flatMap((slice) => slice.latenciesMs)).sort()
  const seconds = sum((slice) => slice.seconds)
  return {
    requestsPerSecond: sorted.length / seconds,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    cpuMicroseconds: (sum((slice) => slice.serverCpuMs) * 1000) / sorted.length,
    generatorBusy: sum((slice) => slice.busySeconds) / seconds,
  }
}

/** The median latency as the figure. */
export function timeOf({ p50Ms, p99Ms, requestsPerSecond, cpuMicroseconds }: LoadResult): Figure {
  return { value: p50Ms, p50Ms, p99Ms, requestsPerSecond, cpuMicroseconds }
}
