import type { Clock } from '#core/runtime'

/** A clock that stands still until it is moved. */
export class FakeClock implements Clock {
  #nowMs: number

  constructor(nowMs = 1_700_000_000_000) {
    this.#nowMs = nowMs
  }

  nowMs(): number {
    return this.#nowMs
  }

  monotonicMs(): number {
    return this.#nowMs
  }

  advance(ms: number): void {
    this.#nowMs += ms
  }
}
