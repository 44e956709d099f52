import type { ApprovalRecord } from '#kernel/approval/approval'
import type { Outcome } from '#kernel/call/call'
import type { CallRecord, NewCall, RefusedCall, Settlement } from '#kernel/call/call-record'
import type {
  ApprovalChanged,
  CallCancelRequested,
  CallClaimed,
  CallCorrected,
  CallCut,
  CallEnded,
  CallParked,
  CallRefused,
  CallSettled,
  CallShown,
  CallSuspended,
} from './events.ts'

/**
 * Makes the journal events of calls and approvals. The store's modules append them.
 * An event holds no input, output or text of a caller.
 */

type Subject = Pick<CallRecord, 'record' | 'tenant' | 'principal' | 'tool' | 'attempt'>

export function claimedEvent(
  call: Omit<Subject, 'attempt'> & Pick<NewCall, 'tier' | 'by'>,
  attempt: number,
  { atMs, parent }: { readonly atMs: number; readonly parent: string | undefined },
): CallClaimed {
  const step = parent === undefined ? {} : { parent }
  return {
    type: 'call.claimed',
    ...subject(call, attempt, atMs),
    tier: call.tier,
    ...operatorOf(call),
    ...step,
  }
}

/** The operator who ran a call in its principal's name, for the first event of the call. */
export function operatorOf({ by }: Pick<NewCall, 'by'>): { readonly by?: string } {
  return by === undefined ? {} : { by }
}

export function correctedEvent(
  previous: Pick<CallRecord, 'attempt' | 'fingerprint'>,
  corrected: Omit<Subject, 'attempt'> & Pick<NewCall, 'fingerprint'>,
  atMs: number,
): CallCorrected {
  const { attempt, fingerprint: before } = previous
  return {
    type: 'call.corrected',
    ...subject(corrected, attempt + 1, atMs),
    before,
    after: corrected.fingerprint,
  }
}

export function endedEvent(
  call: Omit<Subject, 'attempt'>,
  attempt: number,
  ended: {
    readonly state: 'succeeded' | 'failed' | 'released' | 'late'
    readonly outcome: Outcome
    readonly atMs: number
  },
): CallEnded {
  const { state, outcome, atMs } = ended
  const { record, tenant, principal, tool } = call
  const { durationMs } = outcome
  const type = `call.${state}` as const
  // The most common end is built in one step.
  if (outcome.ok && durationMs !== undefined)
    return { type, at: atMs, record, tenant, principal, tool, attempt, durationMs }
  const base = { type, at: atMs, record, tenant, principal, tool, attempt } as const
  const timed = durationMs === undefined ? base : { ...base, durationMs }
  if (outcome.ok) return timed
  const { code, effect } = outcome.error
  return effect === undefined ? { ...timed, code } : { ...timed, code, effect }
}

export function suspendedEvent(call: Subject, waitsFor: string, atMs: number): CallSuspended {
  const base = { type: 'call.suspended', ...subject(call, call.attempt, atMs) } as const
  return waitsFor === '' ? base : { ...base, waitsFor }
}

export function resumedEvent(call: Subject, atMs: number): CallSuspended {
  return { type: 'call.resumed', ...subject(call, call.attempt, atMs) }
}

export function ambiguousEvent(call: Subject, deadWriter: string, atMs: number): CallCut {
  return { type: 'call.ambiguous', ...subject(call, call.attempt, atMs), deadWriter }
}

export function cutEvent(call: Subject, deadWriter: string, atMs: number): CallCut {
  return { type: 'call.cut', ...subject(call, call.attempt, atMs), deadWriter }
}

export function settledEvent(call: Subject, settlement: Settlement): CallSettled {
  const { as, who, why, atMs } = settlement
  return { type: 'call.settled', ...subject(call, call.attempt, atMs), as, who, why }
}

export function shownEvent(call: Subject, by: string, atMs: number): CallShown {
  return { type: 'call.shown', ...subject(call, call.attempt, atMs), by }
}

export function cancelRequestedEvent(call: Subject, by: string, atMs: number): CallCancelRequested {
  return { type: 'call.cancel_requested', ...subject(call, call.attempt, atMs), by }
}

export function refusedEvent(refused: RefusedCall): CallRefused {
  return { type: 'call.refused', ...subject(refused, 1, refused.atMs), code: refused.code }
}

export function parkedEvent(
  call: Omit<Subject, 'attempt'> & Pick<NewCall, 'by'>,
  approval: Pick<ApprovalRecord, 'id' | 'attempt'>,
  atMs: number,
): CallParked {
  return {
    type: 'call.parked',
    ...subject(call, approval.attempt, atMs),
    approval: approval.id,
    ...operatorOf(call),
  }
}

export function approvalEvent(
  approval: Pick<ApprovalRecord, 'id' | 'tenant' | 'record' | 'attempt' | 'tool'>,
  changed: Pick<ApprovalChanged, 'type' | 'at' | 'by' | 'reason'>,
): ApprovalChanged {
  const { id, tenant, record, attempt, tool } = approval
  const { type, at, by, reason } = changed
  return {
    type,
    at,
    approval: id,
    tenant,
    record,
    attempt,
    tool,
    ...(by === undefined ? {} : { by }),
    ...(reason === undefined ? {} : { reason }),
  }
}

function subject(call: Omit<Subject, 'attempt'>, attempt: number, atMs: number) {
  return {
    at: atMs,
    record: call.record,
    tenant: call.tenant,
    principal: call.principal,
    tool: call.tool,
    attempt,
  }
}
