import type { RunRecord } from '#core/ports/run-store'

/** A run in which nothing is open ends by itself after this long. */
export const RUN_IDLE_MS = 15 * 60_000

type Life = Pick<RunRecord, 'open' | 'touchedAtMs' | 'endedAtMs'>

/** Whether nothing new may begin in it. */
export function isRunEnded({ open, touchedAtMs, endedAtMs }: Life, nowMs: number): boolean {
  return endedAtMs !== undefined || (open === 0 && nowMs - touchedAtMs >= RUN_IDLE_MS)
}

/** Whether no event will follow: it ended, and so did everything that began in it. */
export function isRunOver(life: Life, nowMs: number): boolean {
  return life.open === 0 && isRunEnded(life, nowMs)
}
