import type { Outcome } from '#core/outcome'
import type { RefusedCall } from '#core/ports/run-store'
import type { CallRecord } from '#core/ports/store'
import type { CallLabel, RunEvent, RunFact, SessionOutcome, ToolCalled, ToolReturned } from './run-event.ts'

/** One attempt of one call, as both of its facts name it. */
export interface Attempted {
  readonly record: string
  readonly attempt: number
  readonly call: CallLabel
  readonly sessionId: string | undefined
}

export function calledFact(attempted: Attempted, principal: string): ToolCalled {
  return { type: 'called', ...named(attempted), principal }
}

/** `cut`: the process that ran it is gone, so nobody knows how long it took. */
export function returnedFact(attempted: Attempted, end: Outcome | 'cut'): ToolReturned {
  const base = { type: 'returned', ...named(attempted) } as const
  if (end === 'cut') return { ...base, code: 'ambiguous' }
  const took = end.durationMs === undefined ? {} : { durationMs: Math.round(end.durationMs) }
  if (end.ok) return { ...base, ...took }
  const { code } = end.error
  const isUntimed = code === 'session_lost' || end.neverStarted === true
  return isUntimed ? { ...base, code } : { ...base, code, ...took }
}

/** The pair of a call that a limit refused: it never began (C10, OWP-53). */
export function refusedFacts(refused: RefusedCall, call: CallLabel): readonly [ToolCalled, ToolReturned] {
  const { record, principal, sessionId, code } = refused
  const attempted = { record, attempt: 1, call, sessionId }
  return [calledFact(attempted, principal), { type: 'returned', ...named(attempted), code }]
}

/** How much a fact changes the number of things that are open in its run. */
export function opens({ type }: RunFact): 1 | 0 | -1 {
  return OPENS[type]
}

const OPENS = {
  called: 1,
  returned: -1,
  'session.opened': 1,
  'session.closed': -1,
  'interrupt.requested': 0,
  'node.suspended': 0,
  'approval.granted': 0,
  'approval.rejected': 0,
  'approval.overridden': 0,
  'interrupt.resolved': 0,
  'consent.requested': 0,
  'consent.suspended': 0,
  'consent.resolved': 0,
  'connector.authorized': 0,
  'connector.auth_expired': 0,
} as const satisfies Record<RunFact['type'], 1 | 0 | -1>

/** How the session of a single attempt ends (OWP-44, C2). */
export function ownSessionOutcome(outcome: Outcome): SessionOutcome {
  if (outcome.ok) return 'completed'
  return outcome.error.code === 'cancelled' ? 'cancelled' : 'failed'
}

/** What a call's own run is told from. */
export type ToldCall = CallLabel &
  Pick<
    CallRecord,
    'record' | 'attempt' | 'principal' | 'state' | 'createdAtMs' | 'finishedAtMs' | 'outcome' | 'sessionId'
  >

/** The run of a call that is alone in it and was tried once: its record says it all, so nothing else is stored. */
export function ownRunEvents(call: ToldCall): readonly RunEvent[] {
  // Earlier attempts of calls from before there were runs are not told.
  const { record, attempt, sessionId } = call
  const attempted = { record, attempt, call: labelOf(call), sessionId }
  const called = { ...calledFact(attempted, call.principal), sequence: 0, atMs: call.createdAtMs }
  if (call.state === 'running' || call.state === 'parked') return [called]
  const atMs = call.finishedAtMs ?? call.createdAtMs
  return [called, { ...returnedFact(attempted, call.outcome ?? 'cut'), sequence: 1, atMs }]
}

/** The label alone, without whatever else an object carries. */
export function labelOf({ callId, toolId, transport, argsHash, traceId }: CallLabel): CallLabel {
  return { callId, toolId, transport, argsHash, traceId }
}

function named({ record, attempt, call, sessionId }: Attempted) {
  const base = { record, attempt, call }
  return sessionId === undefined ? base : { ...base, sessionId }
}
