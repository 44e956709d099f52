import type { ApprovalRecord } from '#kernel/approval/approval'
import { approvalRequired } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { CALL_ID_ADVICE, fault, type ToolError } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import { type Followers, noteEnded } from '#kernel/run/runs'
import type { KernelStore } from '#kernel/store/store'
import type { Failure } from './call.ts'
import type { CallAddress, CallRecord } from './call-record.ts'
import type { WorkflowStore } from './stages.ts'

/**
 * Suspended workflows: what a workflow waits for, the error that tells its caller, and how it ends if it is never continued
 * (rule 31). The ladder and the workflow stage use this module. Finished steps are kept, so the reply is never a refusal (rule 11).
 */

/** The outcome of a suspended workflow that will not continue; its finished steps keep their effects. */
export function endSuspended(tool: string, why: 'cancelled' | 'expired'): Failure {
  const what = {
    cancelled: `The call of ${tool} was cancelled while one of its steps waited.`,
    expired: `The call of ${tool} was not continued in time, so it was ended.`,
  }[why]
  const message = `${what} Steps that had finished keep their effects: check before repeating it.`
  return { ok: false, error: { code: 'cancelled', message, canRetry: false } }
}

/**
 * Ends a call that this process does not run, if it waits for approval or is a suspended workflow, and returns `true`. For any
 * other call, asks the process that runs it to stop it, and returns `false`.
 */
export async function cancelElsewhere(
  needs: Followers & { readonly store: KernelStore; readonly clock: Clock },
  workflows: Pick<WorkflowStore, 'cancel'>,
  { address, by }: { readonly address: CallAddress; readonly by: string },
): Promise<boolean> {
  const { store } = needs
  const nowMs = needs.clock.nowMs()
  const parked = await store.approvals.cancel(address, by, nowMs)
  const ended = parked.length > 0 ? parked : await workflows.cancel(address, by, nowMs)
  noteEnded(needs, ended)
  if (ended.length === 0) await store.requestCancel(address, by, nowMs)
  return ended.length > 0
}

/** What a suspended workflow waits for, and the error for its caller. */
export interface Blocker {
  readonly error: ToolError
  /** The pending approval of the step; once it is decided, the workflow can continue. */
  readonly approval?: Pick<ApprovalRecord, 'tenant' | 'record' | 'id'>
}

export interface BlockerNeeds {
  readonly store: KernelStore
  readonly clock: Clock
  /** Base of the addresses of approval pages, never taken from a request (OTC/T-16). */
  approvalsUrl(): MaybePromise<string>
}

/**
 * Checks the step that a workflow waits for, so that a repeated request uses no attempt; `undefined` if the workflow can continue.
 */
export async function findBlocker(
  needs: BlockerNeeds,
  previous: CallRecord,
  workflow: string,
): Promise<Blocker | undefined> {
  if (previous.waitsFor === undefined || previous.waitsFor === '') return undefined
  const { store, clock } = needs
  const step = await store.find({ tenant: previous.tenant, record: previous.waitsFor })
  if (step === undefined) return undefined
  if (step.state === 'ambiguous') return { error: ambiguousStep(workflow, step) }
  if (step.state !== 'parked') return undefined
  if (step.waitsFor !== undefined) return await findBlocker(needs, step, step.tool)
  const approval = await store.approvals.findFor(step)
  if (approval?.state !== 'pending' || approval.expiresAtMs <= clock.nowMs()) return undefined
  return { error: approvalRequired(approval, await needs.approvalsUrl()), approval }
}

/** Thrown by a workflow that cannot continue now. */
export class Suspension {
  /** The error for its caller; never a recorded outcome. */
  readonly error: ToolError
  /** Record of the step it waits for, if there is one; else `''`. */
  readonly waitsFor: string

  constructor(error: ToolError, waitsFor = '') {
    this.error = error
    this.waitsFor = waitsFor
  }
}

/** The error for a temporary obstacle. Its code is not one of the refusals, because the run has begun (rule 11). */
export function blockedBy(workflow: string, why: string, retryAfterMs = 1_000): ToolError {
  return fault(
    'outcome_unknown',
    `${workflow} is not finished: ${why} Its finished steps are kept, and it continues from there: call again with exactly the same arguments${CALL_ID_ADVICE.repeat}.`,
    { retryAfterMs },
  )
}

/** Rule 31: a workflow waits while a step is ambiguous. */
export function ambiguousStep(workflow: string, step: Pick<CallRecord, 'tool' | 'record'>): ToolError {
  return fault(
    'ambiguous',
    `The server stopped while ${workflow} was calling ${step.tool}, so that step may or may not have taken effect. The workflow waits until an operator settles the step; then call again with exactly the same arguments${CALL_ID_ADVICE.repeat}.`,
    {
      developerMessage: `Settle the step with: collet calls settle ${step.record} --as succeeded|failed|not-run --why TEXT`,
    },
  )
}
