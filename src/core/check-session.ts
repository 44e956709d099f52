import { checkKeys } from './check-keys.ts'
import { describeValue } from './describe-value.ts'
import type { Report } from './finding.ts'
import type { SessionHooks } from './sessions/session-context.ts'
import type { SessionDefinition } from './tool-definition.ts'

const KEYS = Object.keys({ open: true, close: true, idleMs: true, isOptional: true } satisfies Record<
  keyof SessionDefinition,
  true
>)

const USUAL_IDLE_MS = 15 * 60_000
const LONGEST_IDLE_MS = 24 * 3_600_000

/** The session of a stateful tool, or `undefined` for every other; findings for what is half one. */
export function readSession(written: unknown, report: Report): SessionHooks | undefined {
  if (written === undefined) return undefined
  if (!isRecord(written)) {
    report(
      'session',
      `Is ${describeValue(written)}.`,
      'Write `session: { open: () => …, close: (state) => … }`.',
    )
    return undefined
  }
  checkKeys(written, KEYS, 'session', report)
  const { open, close } = written
  const idleMs = readIdle(written.idleMs, report)
  if (!isOpen(open))
    report('session/open', `Is ${describeValue(open)}.`, 'Write a function that gives the state.')
  if (close !== undefined && !isClose(close)) {
    report(
      'session/close',
      `Is ${describeValue(close)}.`,
      'Write a function that ends the state, or leave it out.',
    )
  }
  if (!isOpen(open)) return undefined
  const end = isClose(close) ? close.bind(written) : () => {}
  const isOptional = written.isOptional === true
  return Object.freeze({ open: open.bind(written), close: end, idleMs, isOptional })
}

function readIdle(value: unknown, report: Report): number {
  if (value === undefined) return USUAL_IDLE_MS
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= LONGEST_IDLE_MS)
    return value
  report(
    'session/idleMs',
    `Is ${describeValue(value)}.`,
    `Write a whole number of milliseconds from 1 to ${LONGEST_IDLE_MS}.`,
  )
  return USUAL_IDLE_MS
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isOpen(value: unknown): value is SessionHooks['open'] {
  return typeof value === 'function'
}

function isClose(value: unknown): value is SessionHooks['close'] {
  return typeof value === 'function'
}
