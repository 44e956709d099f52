import { type Clock, SYSTEM_CLOCK } from './clock.ts'

/**
 * The part of a structured logger that the kernel and tools use, and two loggers on top of it: one with bound fields,
 * and one for outages, which limits its lines so that it does not fill the log or the disk.
 */

/** Writes one line: a text alone, or fields with an optional text. */
export interface WriteLine {
  (message: string): void
  (fields: object, message?: string): void
}

export interface Logger {
  readonly debug: WriteLine
  readonly info: WriteLine
  readonly warn: WriteLine
  readonly error: WriteLine
}

export const SILENT_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} }

export function boundLogger(log: Logger, bound: object): Logger {
  const write =
    (level: keyof Logger): WriteLine =>
    (line: object | string, message?: string) => {
      if (typeof line === 'string') log[level](bound, line)
      // An error's own fields are not enumerable, so spreading it would lose them.
      else log[level]({ ...bound, ...(line instanceof Error ? { err: line } : line) }, message)
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

const OUTAGE_LINE_EVERY_MS = 60_000

/** Writes one error line per minute and the others at level debug, because every request fails in the same way during an outage. */
export class OutageLog {
  readonly #log: Logger
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #reportedAtMs = Number.NEGATIVE_INFINITY

  constructor(log: Logger, clock: Pick<Clock, 'monotonicMs'> = SYSTEM_CLOCK) {
    this.#log = log
    this.#clock = clock
  }

  report(fields: object, message: string): void {
    const nowMs = this.#clock.monotonicMs()
    const isDue = nowMs - this.#reportedAtMs >= OUTAGE_LINE_EVERY_MS
    if (isDue) this.#reportedAtMs = nowMs
    this.#log[isDue ? 'error' : 'debug'](fields, message)
  }
}
