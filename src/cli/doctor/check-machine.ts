import { statSync } from 'node:fs'
import type { Clock } from '#core/runtime'
import { type Check, fail, ok, warn } from './check.ts'

const LEAST_NODE = 24
const FIRST_SANE_YEAR = 2025
const LAST_SANE_YEAR = 2100
const TOLERATED_FUTURE_MS = 5 * 60_000

export function checkNode(version: string): Check {
  const major = Number(version.split('.')[0])
  if (major >= LEAST_NODE) return ok('node', `Node ${version}`)
  return fail('node', `Node ${version} is too old`, `Install Node ${LEAST_NODE} or newer.`)
}

/** A clock that is wrong ends tokens early and keeps results too long or too short. */
export function checkClock(clock: Clock, newestFile?: string): Check {
  const nowMs = clock.nowMs()
  const year = new Date(nowMs).getUTCFullYear()
  const text = Number.isNaN(year) ? 'nonsense' : new Date(nowMs).toISOString()
  if (!(year >= FIRST_SANE_YEAR && year < LAST_SANE_YEAR)) {
    return fail('clock', `The clock says ${text}`, 'Set the clock, for example with NTP.')
  }
  const before = clock.monotonicMs()
  if (clock.monotonicMs() < before) {
    return fail(
      'clock',
      'The monotonic clock runs backwards',
      'This machine cannot measure time; use another one.',
    )
  }
  const written =
    newestFile === undefined ? undefined : statSync(newestFile, { throwIfNoEntry: false })?.mtimeMs
  if (written !== undefined && written > nowMs + TOLERATED_FUTURE_MS) {
    return warn(
      'clock',
      `The clock says ${text}, but the store was written at ${new Date(written).toISOString()}`,
      'The clock went back. Set it, for example with NTP.',
    )
  }
  return ok('clock', text)
}
