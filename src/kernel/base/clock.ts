/**
 * Time, passed as a dependency so that tests can move it. Records use `nowMs`; durations and deadlines use
 * `monotonicMs`, which a change of the system's time does not affect.
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
