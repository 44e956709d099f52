import { approvalRequired } from '#core/approvals/approvals'
import { checkApproval } from '#core/approvals/check'
import type { CallReply, CallRequest } from '#core/call'
import { fault, isToolError } from '#core/errors'
import { canonicalJson } from '#core/json'
import { type Reservation, UNBUDGETED } from '#core/limits/budgets'
import type { ApprovalRecord } from '#core/ports/approval-store'
import type { CallRecord, MaybePromise, Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { hasUntrustedOutput, type Tool } from '#core/tool'
import { type Blocked, isStillBlocked } from '#core/workflow/suspend'
import { refusalOutcome } from './errors.ts'
import type { CallServices } from './gateway.ts'
import { fingerprintOf, type IdentifiedCall, identifyCall, keyConflict, type StepOrigin } from './identity.ts'
import { type Found, lookUp } from './look-up.ts'
import { checkRequirements } from './requirements.ts'
import { resolveTool, validateInput } from './resolve.ts'
import { type CheckedCall, type GrantedCall, type RunResult, runCall } from './run.ts'
import { resolveScope, runIdOf } from './scope.ts'

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
  step?: StepOrigin,
): Promise<CallReply> {
  const freshId = () => request.freshId ?? services.newCallId()
  let call = identifyCall(services, { principal, request, freshId, step })
  try {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      if (!call.keyed && services.registry.hasWaiting) call = await resumeUnkeyed(services, call)
      const found = call.keyed ? await lookUp(services, call) : undefined
      if (found?.kind === 'answer') return replyOf(call, found, true)
      if (found?.kind === 'other') return await refuseOther(services, call)
      const seen = found?.seen
      const run = await (call.keyed
        ? startOrWait(services, { call, seen, mayWait: round === 0 })
        : startCall(services, { call, seen, isFirst: true }))
      if (run.kind === 'answer') return replyOf(call, run, run.joined)
      if (run.kind === 'parked' && !(await isDecided(services, call, run.approval))) {
        const outcome = refusalOutcome(services, approvalRequired(run.approval, services.publicUrl()))
        return { callId: call.callId, outcome, runId: run.runId, replayed: false }
      }
      if (run.kind === 'waiting' && !(await isFree(services, call, run.waits))) {
        const outcome = refusalOutcome(services, run.waits.error)
        return { callId: call.callId, outcome, runId: run.runId, replayed: false }
      }
    }
    throw fault('overloaded', 'This call id is being used by several requests at once. Try again shortly.', {
      retryAfterMs: 1_000,
    })
  } catch (error) {
    const runId = isToolError(error) ? error.details.runId : undefined
    const outcome = refusalOutcome(services, error)
    return { callId: call.callId, outcome, ...(runId === undefined ? {} : { runId }), replayed: false }
  }
}

/** What a tool of others gave is marked, on replays too (OWP-58). */
function replyOf(
  { callId }: IdentifiedCall,
  { outcome, runId, toolId }: Pick<Found & { kind: 'answer' }, 'outcome' | 'runId' | 'toolId'>,
  replayed: boolean,
): CallReply {
  const reply = { callId, outcome, runId, replayed }
  return hasUntrustedOutput(toolId) ? { ...reply, untrusted: true } : reply
}

/**
 * Rule 1: the key is another request's. That is told last: whatever else is wrong with this one is told as ever, and nothing
 * of it runs or is recorded.
 */
async function refuseOther(services: CallServices, call: IdentifiedCall): Promise<never> {
  services.health.checkReady()
  services.limits.checkCaller(call.principal)
  const tool = resolveTool(services, call, undefined)
  await validateInput(tool, adaptInput(services.store, call, tool).input)
  throw keyConflict()
}

interface Start {
  readonly call: IdentifiedCall
  readonly seen: CallRecord | undefined
  /** Whether it may wait for another request with its key. */
  readonly mayWait: boolean
}

/** Rule 1 for requests that arrive together: what a limit refuses while the first of them is on its way waits for that one. */
async function startOrWait(services: CallServices, { call, seen, mayWait }: Start): Promise<Started> {
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

/** How far a call came by itself. */
type Started = RunResult | Parked

interface Parked {
  readonly kind: 'parked'
  readonly approval: ApprovalRecord
  readonly runId: string
}

/** Nothing final is recorded under this key: walk the ladder, then run. */
async function startCall(
  services: CallServices,
  { call, seen, isFirst }: Omit<Start, 'mayWait'> & { readonly isFirst: boolean },
): Promise<Started> {
  services.health.checkReady()
  // A step is part of a call that was let in.
  if (call.step === undefined) services.limits.checkCaller(call.principal)
  const tool = resolveTool(services, call, seen)
  const place = await resolveScope(services, { call, tool, seen })
  try {
    services.limits.checkTool(call.principal, tool)
    const adapted = adaptInput(services.store, call, tool)
    const input = await validateInput(tool, adapted.input)
    const equipped = await checkRequirements(services, { tool, call: adapted, place })
    return await runIfApproved(services, { call: equipped, tool, place, input, seen })
  } catch (error) {
    if (seen === undefined && isFirst && call.step === undefined)
      await services.refusals.tell({ call, tool, place }, error)
    throw error
  }
}

/** Most tools ask nobody: their calls do not wait here, not even for a turn. */
async function runIfApproved(services: CallServices, checked: CheckedCall): Promise<Started> {
  const { call, tool, place, seen } = checked
  if (seen?.waitsFor !== undefined) {
    const waits = await isStillBlocked(services, seen, tool.name)
    if (waits !== undefined) return { kind: 'waiting', waits, runId: seen.runId ?? runIdOf(call, place) }
    return await runWithinBudget(services, { ...checked, grant: undefined })
  }
  const asksNobody = tool.policy.approval === 'never' && seen?.state !== 'parked'
  if (asksNobody) return await runWithinBudget(services, { ...checked, grant: undefined })
  const check = await checkApproval(services, checked)
  if (check.kind === 'changed') return { kind: 'lost' }
  if (check.kind === 'parked') return { ...check, runId: seen?.runId ?? runIdOf(call, place) }
  const grant = check.kind === 'granted' ? check.grant : undefined
  return await runWithinBudget(services, { ...checked, grant })
}

/**
 * Its worst case is set aside before it runs; whoever joins another run, or does not run after all, spends nothing. Of a
 * workflow every step spends for itself.
 */
function runWithinBudget(services: CallServices, granted: GrantedCall): Promise<RunResult> {
  const isWorkflow = granted.tool.workflow !== undefined
  const reserved = isWorkflow ? UNBUDGETED : services.budgets.reserve(granted.call.principal, granted.tool)
  if (reserved === UNBUDGETED) return runCall(services, { ...granted, reservation: UNBUDGETED })
  return runReserved(services, granted, reserved)
}

async function runReserved(
  services: CallServices,
  granted: GrantedCall,
  reserved: MaybePromise<Reservation>,
): Promise<RunResult> {
  const reservation = reserved instanceof Promise ? await reserved : reserved
  try {
    return await runCall(services, { ...granted, reservation })
  } finally {
    reservation.cancel()
  }
}

/** Waits for a decision as long as the caller wants to (`Prefer: wait`) and is there, if one more may wait. */
async function isDecided(
  { store, waits, limits }: CallServices,
  { principal, request }: IdentifiedCall,
  { tenant, id, record }: Pick<ApprovalRecord, 'tenant' | 'id' | 'record'>,
): Promise<boolean> {
  const { waitMs = 0, gone } = request
  const leave = waitMs > 0 ? limits.tryEnterWaiting(principal) : undefined
  if (leave === undefined) return false
  try {
    return await waits.until(record, { waitMs: limits.shortenWait(waitMs), gone }, async () => {
      const now = await store.approvals.find({ tenant, id })
      return now?.state !== 'pending' || request.leaving?.left?.aborted === true
    })
  } finally {
    leave()
  }
}

/** The same for a workflow that waits for a yes to one of its steps. */
async function isFree(services: CallServices, call: IdentifiedCall, { decides }: Blocked): Promise<boolean> {
  if (decides === undefined) return false
  const { tenant, record, approvalId } = decides
  return await isDecided(services, call, { tenant, record, id: approvalId })
}

/**
 * Rule 6: a request without a key that equals one of its principal's calls which waits for a yes, or has one that is
 * unused, is that call: clients that cannot send keys can still resume.
 */
async function resumeUnkeyed(services: CallServices, call: IdentifiedCall): Promise<IdentifiedCall> {
  const tool = services.registry.catalogFor(call.principal).resolve(call.request.tool)
  if (tool === undefined || !mayWait(tool)) return call
  const { tenant, principal, fingerprint } = adaptInput(services.store, call, tool)
  const { definitionHash } = tool
  const like = { tenant, principal: principal.id, fingerprint, definitionHash }
  const found = await services.store.approvals.findParked(like)
  if (found === undefined) return call
  return { ...call, record: found.record, callId: found.callId, keyed: true }
}

/** A workflow may also wait for a step of its own, whatever that one needs. */
function mayWait({ policy, workflow }: Tool): boolean {
  return policy.approval !== 'never' || workflow !== undefined
}

/** The call with its input as this tool takes it: what it is found under is what other protocols would send (rule 5). */
function adaptInput(store: Store, call: IdentifiedCall, tool: Tool): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  if (input === call.input) return call
  const inputJson = canonicalJson(input)
  const { userId, sessionId } = call.request
  const fingerprint = fingerprintOf(store, { base: call.base, userId, sessionId }, inputJson)
  return { ...call, input, inputJson, fingerprint }
}
