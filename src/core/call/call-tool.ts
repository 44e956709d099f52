import { fault } from '#core/errors'
import type { CallRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { findPlace } from './call-place.ts'
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
  const call = identifyCall(services.store, { principal, request, freshId: services.newCallId })
  try {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const found = call.keyed ? await lookUp(services, call) : undefined
      if (found?.kind === 'answer')
        return { callId: call.callId, outcome: found.outcome, runId: found.runId, replayed: true }
      const run = await startCall(services, call, found?.seen)
      if (run.kind === 'answer') {
        return { callId: call.callId, outcome: run.outcome, runId: run.runId, replayed: run.joined }
      }
    }
    throw fault('overloaded', 'This call id is being used by several requests at once. Try again shortly.', {
      retryAfterMs: 1_000,
    })
  } catch (error) {
    return { callId: call.callId, outcome: refusalOutcome(services, error), replayed: false }
  }
}

/** Nothing final is recorded under this key: walk the ladder, then run. */
async function startCall(
  services: CallServices,
  call: IdentifiedCall,
  seen: CallRecord | undefined,
): Promise<RunResult> {
  checkReady(services)
  const tool = resolveTool(services, call, seen)
  const place = await findPlace(services, call, tool)
  const input = await validateInput(tool, call.input)
  const equipped = await checkRequirements(services, tool, call)
  checkApproval(tool)
  return await runCall(services, { call: equipped, tool, place, input, seen })
}
