import { approvalRequired } from '#kernel/approval/approvals'
import { fault, isToolError } from '#kernel/base/errors'
import { runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { ApprovalRecord } from '#kernel/ports/approval-store'
import type { CallRecord, MaybePromise } from '#kernel/ports/store'
import { hasUntrustedOutput, type Tool } from '#kernel/tool/tool'
import { type ApprovalNeeds, checkApproval, type Grant } from './approval.ts'
import { type CallReply, type CallRequest, hasLeft } from './call.ts'
import { refusalOutcome } from './execute.ts'
import { adaptInput, type IdentifiedCall, identifyCall } from './identity.ts'
import { type Found, keyConflict, type LookUpNeeds, lookUp, type StartingCalls } from './look-up.ts'
import {
  type CheckedCall,
  checkExactInput,
  resolveScope,
  resolveTool,
  type ScopeNeeds,
  unstarted,
  validateInput,
} from './resolve.ts'
import { type RunNeeds, type RunResult, runCall } from './run.ts'
import { type CallStages, type Reservation, UNRESERVED } from './stages.ts'
import type { StepOrigin } from './step-origin.ts'
import { type Blocked, type BlockedNeeds, isStillBlocked } from './suspend.ts'

/** What the story takes: what its stages need, each of which says so itself, and what it uses between them. */
export type CallNeeds = LookUpNeeds &
  ScopeNeeds &
  ApprovalNeeds &
  BlockedNeeds &
  RunNeeds &
  CallStages & {
    readonly starting: StartingCalls
    /** UUID v4 (OTC/T-24). */
    newCallId(): string
  }

/** How often a call that lost its claim to another process looks again before it gives up. */
const MAX_ROUNDS = 5

/**
 * The story of a call, top to bottom (rule 1). Stages throw `ToolError`; this is the one place that catches
 * them. A call is a record first: what is found under its key is answered, and nothing is checked again.
 */
export async function callTool(
  needs: CallNeeds,
  principal: Principal,
  request: CallRequest,
  step?: StepOrigin,
): Promise<CallReply> {
  const freshId = () => request.freshId ?? needs.newCallId()
  let call = identifyCall(needs, { principal, request, freshId, step })
  try {
    checkExactInput(request.input)
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      if (!call.keyed && needs.registry.hasWaiting) call = await resumeUnkeyed(needs, call)
      const found = call.keyed ? await lookUp(needs, call) : undefined
      if (found?.kind === 'answer') return replyOf(call, found, true)
      if (found?.kind === 'other') return await refuseOther(needs, call)
      const previous = found?.previous
      const run = await (call.keyed
        ? startOrWait(needs, { call, previous, mayWait: round === 0 })
        : startCall(needs, { call, previous, isFirst: true }))
      if (run.kind === 'answer') return replyOf(call, run, run.joined)
      if (run.kind === 'parked' && !(await isDecided(needs, call, run.approval))) {
        const outcome = refusalOutcome(needs, approvalRequired(run.approval, await needs.approvalsUrl()))
        return { callId: call.callId, outcome, runId: run.runId, replayed: false }
      }
      if (run.kind === 'waiting' && !(await isFree(needs, call, run.waits))) {
        const outcome = refusalOutcome(needs, run.waits.error)
        return { callId: call.callId, outcome, runId: run.runId, replayed: false }
      }
    }
    throw fault('overloaded', 'This call id is being used by several requests at once. Try again shortly.', {
      retryAfterMs: 1_000,
    })
  } catch (error) {
    const runId = isToolError(error) ? error.details.runId : undefined
    const outcome = refusalOutcome(needs, error)
    return { callId: call.callId, outcome, ...(runId === undefined ? {} : { runId }), replayed: false }
  }
}

/** What a tool of others gave is marked, on replays too (OWP-58). */
function replyOf(
  { callId }: IdentifiedCall,
  { outcome, runId, tool, toolId }: Omit<Found & { kind: 'answer' }, 'kind'>,
  replayed: boolean,
): CallReply {
  const reply = { callId, outcome, runId, replayed, tool }
  return hasUntrustedOutput(toolId) ? { ...reply, untrusted: true } : reply
}

/**
 * Rule 1: the key is another request's. The caller hears that last: anything else that is wrong with this request is
 * answered as ever, and nothing of it runs or is recorded.
 */
async function refuseOther(needs: CallNeeds, call: IdentifiedCall): Promise<never> {
  needs.health.checkReady()
  await needs.limits.checkCaller(call.principal)
  const tool = resolveTool(needs.registry, call, undefined)
  await validateInput(tool, adaptInput(needs.store, call, tool).input)
  throw keyConflict()
}

interface Start {
  readonly call: IdentifiedCall
  readonly previous: CallRecord | undefined
  /** Whether it may wait for another request with its key. */
  readonly mayWait: boolean
}

/** Rule 1 for requests that arrive together: one that a limit refuses while the first is on its way waits for the first. */
async function startOrWait(needs: CallNeeds, { call, previous, mayWait }: Start): Promise<Started> {
  const own = needs.starting.begin(call.record)
  try {
    return await startCall(needs, { call, previous, isFirst: own !== undefined })
  } catch (error) {
    const first = own === undefined && mayWait && isLimit(error) ? needs.starting.get(call.record) : undefined
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

/**
 * Nothing final is recorded under this key: walk the ladder, then run. Most stages know their answer at once, and then nothing is
 * waited for: every `await` is a promise more and a turn later.
 */
async function startCall(
  needs: CallNeeds,
  { call, previous, isFirst }: Omit<Start, 'mayWait'> & { readonly isFirst: boolean },
): Promise<Started> {
  needs.health.checkReady()
  // A step is part of a call that was let in.
  const admitted = call.step === undefined ? needs.limits.checkCaller(call.principal) : undefined
  if (admitted !== undefined) await admitted
  const tool = resolveTool(needs.registry, call, previous)
  const resolving = resolveScope(needs, { call, tool, previous })
  const scope = resolving instanceof Promise ? await resolving : resolving
  try {
    const allowed = needs.limits.checkTool(call.principal, tool)
    if (allowed !== undefined) await allowed
    const adapted = adaptInput(needs.store, call, tool)
    const validating = validateInput(tool, adapted.input)
    const input = validating instanceof Promise ? await validating : validating
    const checking = needs.credentials.check({ tool, call: adapted, scope })
    const withCredentials = checking instanceof Promise ? await checking : checking
    return await runIfApproved(needs, { call: withCredentials, tool, scope, input, previous })
  } catch (error) {
    if (previous === undefined && isFirst && call.step === undefined)
      await needs.limits.noteRefusal(
        { ...unstarted(call, tool, scope), sessionId: scope.live?.sessionId },
        error,
      )
    throw error
  }
}

/** Most tools ask nobody: their calls do not wait here, not even for a turn of the event loop. */
function runIfApproved(needs: CallNeeds, checked: CheckedCall): Promise<Started> {
  const { tool, previous } = checked
  if (previous?.waitsFor !== undefined) return runIfFree(needs, checked, previous)
  const asksNobody = tool.policy.approval === 'never' && previous?.state !== 'parked'
  return asksNobody ? runWithinBudget(needs, checked) : runIfGranted(needs, checked)
}

async function runIfFree(needs: CallNeeds, checked: CheckedCall, previous: CallRecord): Promise<Started> {
  const { call, tool, scope } = checked
  const waits = await isStillBlocked(needs, previous, tool.name)
  if (waits === undefined) return await runWithinBudget(needs, checked)
  return { kind: 'waiting', waits, runId: previous.runId ?? runIdOf(call, scope) }
}

async function runIfGranted(needs: CallNeeds, checked: CheckedCall): Promise<Started> {
  const { call, scope, previous } = checked
  const check = await checkApproval(needs, checked)
  if (check.kind === 'changed') return { kind: 'lost' }
  if (check.kind === 'parked') return { ...check, runId: previous?.runId ?? runIdOf(call, scope) }
  return await runWithinBudget(needs, checked, check.kind === 'granted' ? check.grant : undefined)
}

/**
 * Its worst case is set aside before it runs; a request that joins another run, or does not run after all, spends nothing.
 * Of a workflow every step spends for itself.
 */
function runWithinBudget(needs: CallNeeds, checked: CheckedCall, grant?: Grant): Promise<RunResult> {
  const { call, tool } = checked
  const isWorkflow = tool.workflow !== undefined
  const reserved = isWorkflow ? UNRESERVED : needs.limits.reserve(call.principal, tool)
  if (reserved === UNRESERVED) return runCall(needs, checked, { grant, reservation: UNRESERVED })
  return runReserved(needs, checked, grant, reserved)
}

async function runReserved(
  needs: CallNeeds,
  checked: CheckedCall,
  grant: Grant | undefined,
  reserved: MaybePromise<Reservation>,
): Promise<RunResult> {
  const reservation = reserved instanceof Promise ? await reserved : reserved
  try {
    return await runCall(needs, checked, { grant, reservation })
  } finally {
    reservation.cancel()
  }
}

/** Waits for a decision as long as the caller wants to (`Prefer: wait`) and is there, if one more may wait. */
async function isDecided(
  { store, waits, limits }: CallNeeds,
  { principal, request }: IdentifiedCall,
  { tenant, id, record }: Pick<ApprovalRecord, 'tenant' | 'id' | 'record'>,
): Promise<boolean> {
  const { waitMs = 0, gone } = request
  const leave = waitMs > 0 ? limits.tryEnterWaiting(principal) : undefined
  if (leave === undefined) return false
  try {
    return await waits.until(record, { waitMs: limits.shortenWait(waitMs), gone }, async () => {
      const now = await store.approvals.find({ tenant, id })
      return now?.state !== 'pending' || hasLeft(request.leaving)
    })
  } finally {
    leave()
  }
}

/** The same for a workflow that waits for approval to one of its steps. */
async function isFree(needs: CallNeeds, call: IdentifiedCall, { decides }: Blocked): Promise<boolean> {
  if (decides === undefined) return false
  const { tenant, record, approvalId } = decides
  return await isDecided(needs, call, { tenant, record, id: approvalId })
}

/**
 * Rule 6: a request without a key that equals one of its principal's calls which waits for approval, or has one that is
 * unused, is that call: clients that cannot send keys can still resume.
 */
async function resumeUnkeyed(needs: CallNeeds, call: IdentifiedCall): Promise<IdentifiedCall> {
  const tool = needs.registry.catalogFor(call.principal).resolve(call.request.tool)
  if (tool === undefined || !mayWait(tool)) return call
  const { tenant, principal, fingerprint } = adaptInput(needs.store, call, tool)
  const { definitionHash } = tool
  const like = { tenant, principal: principal.id, fingerprint, definitionHash }
  const found = await needs.store.approvals.findParked(like)
  if (found === undefined) return call
  return { ...call, record: found.record, callId: found.callId, keyed: true }
}

/** A workflow may also wait for a step of its own, whatever that one needs. */
function mayWait({ policy, workflow }: Tool): boolean {
  return policy.approval !== 'never' || workflow !== undefined
}
