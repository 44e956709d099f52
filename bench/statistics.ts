/** One figure of one round, with other measurements for the columns beside it. */
export interface Figure {
  readonly value: number
  readonly requestsPerSecond?: number
  readonly p50Ms?: number
  readonly p99Ms?: number
  readonly cpuMicroseconds?: number
}

/** The middle value; of an even number of values, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN
  return (upper + lower) / 2
}

/** The value below which `share` (0 to 1) of the sorted values lie. */
export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
