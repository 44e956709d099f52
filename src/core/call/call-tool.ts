import { fault, isToolError } from '#core/errors'
import { type Reservation, UNBUDGETED } from '#core/limits/budgets'
import type { CallRecord, MaybePromise } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { adaptInput } from './adapt-input.ts'
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
import { type CheckedCall, type RunResult, runCall } from './run-call.ts'
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
      const seen = found?.seen
      const run = await (call.keyed
        ? startOrWait(services, { call, seen, mayWait: round === 0 })
        : startCall(services, { call, seen, isFirst: true }))
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

interface Start {
  readonly call: IdentifiedCall
  readonly seen: CallRecord | undefined
  /** Whether it may wait for another request with its key. */
  readonly mayWait: boolean
}

/** Rule 1 for requests that arrive together: what a limit refuses while the first of them is on its way waits for that one. */
async function startOrWait(services: CallServices, { call, seen, mayWait }: Start): Promise<RunResult> {
  const own = services.starting.begin(call.record)
  try {
    return await startCall(services, { call, seen, isFirst: own !== undefined })
  } catch (error) {
    const first =
      own === undefined && mayWait && isLimit(error) ? services.starting.get(call.record) : undefined
    if (first === undefined) throw error
    await first.ended
    return { kind: 'lost' }
  } finally {
    own?.end()
  }
}

function isLimit(error: unknown): boolean {
  return isToolError(error) && error.details.scope !== undefined
}

/** Nothing final is recorded under this key: walk the ladder, then run. */
async function startCall(
  services: CallServices,
  { call, seen, isFirst }: Omit<Start, 'mayWait'> & { readonly isFirst: boolean },
): Promise<RunResult> {
  checkReady(services)
  services.limits.checkCaller(call.principal)
  const tool = resolveTool(services, call, seen)
  const place = await findPlace(services, call, tool)
  try {
    services.limits.checkTool(call.principal, tool)
    const adapted = adaptInput(call, tool)
    const input = await validateInput(tool, adapted.input)
    const equipped = await checkRequirements(services, tool, adapted)
    checkApproval(tool)
    return await runWithinBudget(services, { call: equipped, tool, place, input, seen })
  } catch (error) {
    if (seen === undefined && isFirst) await services.refusals.tell({ call, tool, place }, error)
    throw error
  }
}

/** Its worst case is set aside before it runs; whoever joins another run, or does not run after all, spends nothing. */
function runWithinBudget(
  services: CallServices,
  checked: Omit<CheckedCall, 'reservation'>,
): Promise<RunResult> {
  const reserved = services.budgets.reserve(checked.call.principal, checked.tool)
  if (reserved === UNBUDGETED) return runCall(services, { ...checked, reservation: UNBUDGETED })
  return runReserved(services, checked, reserved)
}

async function runReserved(
  services: CallServices,
  checked: Omit<CheckedCall, 'reservation'>,
  reserved: MaybePromise<Reservation>,
): Promise<RunResult> {
  const reservation = reserved instanceof Promise ? await reserved : reserved
  try {
    return await runCall(services, { ...checked, reservation })
  } finally {
    reservation.cancel()
  }
}
