import { fault } from '#core/errors'
import type { ApprovalRecord } from '#core/ports/approval-store'
import type { CallRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { adoptCall } from './adopt-call.ts'
import { approvalRequired } from './approval-required.ts'
import { findPlace, runIdOf } from './call-place.ts'
import type { CallReply, CallRequest } from './call-request.ts'
import type { CallServices } from './call-services.ts'
import { checkApproval } from './check-approval.ts'
import { checkReady } from './check-ready.ts'
import { checkRequirements } from './check-requirements.ts'
import { type IdentifiedCall, identifyCall } from './identified-call.ts'
import { lookUp } from './look-up.ts'
import { refusalOutcome } from './refusal-outcome.ts'
import { resolveTool } from './resolve-tool.ts'
import { type RunResult, runCall } from './run-call.ts'
import { validateInput } from './validate-input.ts'

/** How often a call that lost its claim to another process looks again before it gives up. */
const MOST_ROUNDS = 5

/**
 * The story of a call, top to bottom (rule 1). Stages throw `ToolError`; this is the one place that catches
 * them. A call is a record first: what is found under its key is answered, and nothing is checked again.
 */
export async function callTool(
  services: CallServices,
  principal: Principal,
  request: CallRequest,
): Promise<CallReply> {
  const freshId = () => request.freshId ?? services.newCallId()
  let call = identifyCall(services.store, { principal, request, freshId })
  try {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      if (!call.keyed) call = await adoptCall(services, call)
      const found = call.keyed ? await lookUp(services, call) : undefined
      if (found?.kind === 'answer')
        return { callId: call.callId, outcome: found.outcome, runId: found.runId, replayed: true }
      const run = await startCall(services, call, found?.seen)
      if (run.kind === 'answer') {
        return { callId: call.callId, outcome: run.outcome, runId: run.runId, replayed: run.joined }
      }
      if (run.kind === 'parked' && !(await isDecided(services, call, run.approval))) {
        const outcome = refusalOutcome(services, approvalRequired(run.approval, services.publicUrl()))
        return { callId: call.callId, outcome, runId: run.runId, replayed: false }
      }
    }
    throw fault('overloaded', 'This call id is being used by several requests at once. Try again shortly.', {
      retryAfterMs: 1_000,
    })
  } catch (error) {
    return { callId: call.callId, outcome: refusalOutcome(services, error), replayed: false }
  }
}

interface Parked {
  readonly kind: 'parked'
  readonly approval: ApprovalRecord
  readonly runId: string
}

/** Nothing final is recorded under this key: walk the ladder, then run. */
async function startCall(
  services: CallServices,
  call: IdentifiedCall,
  seen: CallRecord | undefined,
): Promise<RunResult | Parked> {
  checkReady(services)
  const tool = resolveTool(services, call, seen)
  const place = await findPlace(services, { call, tool, seen })
  const input = await validateInput(tool, call.input)
  await checkRequirements(services, tool, call)
  const checked = { call, tool, place, input, seen }
  // Most tools ask nobody: their calls do not wait here, not even for a turn.
  const asksNobody = tool.policy.approval === 'never' && seen?.state !== 'parked'
  if (asksNobody) return await runCall(services, { ...checked, grant: undefined })
  const check = await checkApproval(services, checked)
  if (check.kind === 'changed') return { kind: 'lost' }
  if (check.kind === 'parked') return { ...check, runId: seen?.runId ?? runIdOf(call, place) }
  return await runCall(services, { ...checked, grant: check.kind === 'granted' ? check.grant : undefined })
}

/** Waits for a decision as long as the caller wants to (`Prefer: wait`). */
async function isDecided(
  { store, waits }: CallServices,
  call: IdentifiedCall,
  { tenant, id }: ApprovalRecord,
): Promise<boolean> {
  const { waitMs = 0 } = call.request
  if (waitMs <= 0) return false
  return await waits.until(call.record, waitMs, async () => {
    const now = await store.approvals.find({ tenant, id })
    return now?.state !== 'pending'
  })
}
