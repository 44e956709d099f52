import type { ApprovalRecord } from '#kernel/approval/approval'
import { defined } from '#kernel/base/json'
import type { Outcome } from '#kernel/call/call'
import type { CallRecord, NewCall, RefusedCall } from '#kernel/call/call-record'
import type {
  ApprovalChanged,
  CallClaimed,
  CallCorrected,
  CallEnded,
  CallParked,
  CallRefused,
  CallSubject,
} from './events.ts'

/**
 * Makes the journal events of calls and approvals. The store's modules append them.
 * An event contains no input, output or text from a caller.
 */

type Subject = Omit<CallSubject, 'attempt'>

export function claimedEvent(
  call: Subject & Pick<NewCall, 'tier' | 'by'>,
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
  corrected: Subject & Pick<NewCall, 'fingerprint'>,
  atMs: number,
): CallCorrected {
  const fingerprints = { before: previous.fingerprint, after: corrected.fingerprint }
  return { type: 'call.corrected', ...subject(corrected, previous.attempt + 1, atMs), ...fingerprints }
}

export function endedEvent(
  { record, tenant, principal, tool }: Subject,
  attempt: number,
  ended: {
    readonly state: 'succeeded' | 'failed' | 'released' | 'late'
    readonly outcome: Outcome
    readonly atMs: number
  },
): CallEnded {
  const { state, outcome, atMs } = ended
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

/** An event of a call's current attempt; `facts` are the members that only this type has. */
export function attemptEvent<const Type extends string, Facts extends object>(
  type: Type,
  call: CallSubject,
  atMs: number,
  facts: Facts,
) {
  return { type, ...subject(call, call.attempt, atMs), ...facts }
}

export function refusedEvent(refused: RefusedCall): CallRefused {
  return { type: 'call.refused', ...subject(refused, 1, refused.atMs), code: refused.code }
}

export function parkedEvent(
  call: Subject & Pick<NewCall, 'by'>,
  { id, attempt }: Pick<ApprovalRecord, 'id' | 'attempt'>,
  atMs: number,
): CallParked {
  return { type: 'call.parked', ...subject(call, attempt, atMs), approval: id, ...operatorOf(call) }
}

export function approvalEvent(
  approval: Pick<ApprovalRecord, 'id' | 'tenant' | 'record' | 'attempt' | 'tool'>,
  changed: Pick<ApprovalChanged, 'type' | 'at' | 'by' | 'reason'>,
): ApprovalChanged {
  const { id, tenant, record, attempt, tool } = approval
  const { type, at, by, reason } = changed
  return defined({ type, at, approval: id, tenant, record, attempt, tool, by, reason })
}

function subject({ record, tenant, principal, tool }: Subject, attempt: number, atMs: number) {
  return { at: atMs, record, tenant, principal, tool, attempt }
}
