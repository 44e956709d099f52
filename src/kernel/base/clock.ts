/**
 * The current time, passed as a dependency so that tests can set it. Records use `nowMs`; durations and deadlines use
 * `monotonicMs`, which is not affected when the system's time is changed.
 */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** Milliseconds that only increase. */
  monotonicMs(): number
}

export const SYSTEM_CLOCK: Clock = {
  nowMs: Date.now,
  monotonicMs: performance.now.bind(performance),
}
