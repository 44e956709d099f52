/** Time, handed in so that tests can move it. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** Milliseconds that only go forward, for durations. */
  monotonicMs(): number
}

export const SYSTEM_CLOCK: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
