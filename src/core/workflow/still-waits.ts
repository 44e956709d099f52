import { approvalRequired } from '#core/call/approval-required'
import type { CallServices } from '#core/call/call-services'
import type { ToolError } from '#core/errors'
import type { CallRecord } from '#core/ports/store'
import { ambiguousStep } from './suspension.ts'

/** What a workflow that was put away waits for, and what its caller is told. */
export interface Waits {
  readonly error: ToolError
  /** The parked call whose decision would let it go on. */
  readonly decides?: { readonly tenant: string; readonly record: string; readonly approvalId: string }
}

/** Looks at the step it waits for, so that asking again costs no attempt; nothing when it may go on. */
export async function stillWaits(
  services: CallServices,
  seen: CallRecord,
  workflow: string,
): Promise<Waits | undefined> {
  if (seen.waitsFor === undefined || seen.waitsFor === '') return undefined
  const { store, clock } = services
  const step = await store.find({ tenant: seen.tenant, record: seen.waitsFor })
  if (step === undefined) return undefined
  if (step.state === 'ambiguous') return { error: ambiguousStep(workflow, step) }
  if (step.state !== 'parked') return undefined
  if (step.waitsFor !== undefined) return await stillWaits(services, step, step.tool)
  const approval = await store.approvals.findFor(step)
  if (approval?.state !== 'pending' || approval.expiresAtMs <= clock.nowMs()) return undefined
  const { tenant, record } = step
  return {
    error: approvalRequired(approval, services.publicUrl()),
    decides: { tenant, record, approvalId: approval.id },
  }
}
