import { approvalRequired } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { BY_CALL_ID, fault, type ToolError } from '#kernel/base/errors'
import type { CallRecord, KernelStore, MaybePromise } from '#kernel/ports/store'
import type { Failure } from './call.ts'

/** How a workflow ends that was suspended and will not go on: its finished steps stay what they are. */
export function endSuspended(tool: string, why: 'cancelled' | 'expired'): Failure {
  const what = {
    cancelled: `The call of ${tool} was cancelled while one of its steps waited.`,
    expired: `The call of ${tool} was not continued in time, so it was ended.`,
  }[why]
  const message = `${what} Steps that had finished keep their effects: check before repeating it.`
  return { ok: false, error: { code: 'cancelled', message, canRetry: false } }
}

/** What a suspended workflow waits for, and what its caller hears. */
export interface Blocked {
  readonly error: ToolError
  /** The parked call whose decision would let it go on. */
  readonly decides?: { readonly tenant: string; readonly record: string; readonly approvalId: string }
}

/** What looking at the step that a workflow waits for takes. */
export interface BlockedNeeds {
  readonly store: KernelStore
  readonly clock: Clock
  /** Base of the addresses where people see what waits for them, never taken from a request (OTC/T-16). */
  approvalsUrl(): MaybePromise<string>
}

/** Looks at the step it waits for, so that asking again costs no attempt; nothing when it may go on. */
export async function isStillBlocked(
  needs: BlockedNeeds,
  previous: CallRecord,
  workflow: string,
): Promise<Blocked | undefined> {
  if (previous.waitsFor === undefined || previous.waitsFor === '') return undefined
  const { store, clock } = needs
  const step = await store.find({ tenant: previous.tenant, record: previous.waitsFor })
  if (step === undefined) return undefined
  if (step.state === 'ambiguous') return { error: ambiguousStep(workflow, step) }
  if (step.state !== 'parked') return undefined
  if (step.waitsFor !== undefined) return await isStillBlocked(needs, step, step.tool)
  const approval = await store.approvals.findFor(step)
  if (approval?.state !== 'pending' || approval.expiresAtMs <= clock.nowMs()) return undefined
  const { tenant, record } = step
  return {
    error: approvalRequired(approval, await needs.approvalsUrl()),
    decides: { tenant, record, approvalId: approval.id },
  }
}

/** A workflow cannot go on now: it is suspended, and its caller hears why. */
export class Suspension {
  /** What its caller hears; never a recorded outcome. */
  readonly error: ToolError
  /** The step it waits for, when that one is recorded; else `''`. */
  readonly waitsFor: string

  constructor(error: ToolError, waitsFor = '') {
    this.error = error
    this.waitsFor = waitsFor
  }
}

/** Something is in the way for the moment. A reply that a run has begun is no refusal (rule 11). */
export function blockedBy(
  workflow: string,
  why: string,
  options: { readonly retryAfterMs?: number | undefined; readonly developerMessage?: string } = {},
): ToolError {
  const { retryAfterMs = 1_000, developerMessage } = options
  return fault(
    'outcome_unknown',
    `${workflow} is not finished: ${why} Its finished steps are kept, and it goes on from there: call again with exactly the same arguments${BY_CALL_ID.repeat}.`,
    { retryAfterMs, ...(developerMessage === undefined ? {} : { developerMessage }) },
  )
}

/** Rule 31: a workflow waits while a step is ambiguous. */
export function ambiguousStep(
  workflow: string,
  step: { readonly tool: string; readonly record: string },
): ToolError {
  return fault(
    'ambiguous',
    `The server stopped while ${workflow} was calling ${step.tool}, so that step may or may not have taken effect. The workflow waits until an operator settles the step; then call again with exactly the same arguments${BY_CALL_ID.repeat}.`,
    {
      developerMessage: `Settle the step with: collet calls settle ${step.record} --as succeeded|failed|not-run --why TEXT`,
    },
  )
}
