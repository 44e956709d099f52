import type { ApprovalRecord } from '#kernel/approval/approval'
import { approvalRequired } from '#kernel/approval/approvals'
import { fault, isToolError } from '#kernel/base/errors'
import { runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import { hasUntrustedOutput, type Tool } from '#kernel/tool/tool'
import { type ApprovalNeeds, checkApproval, type Grant } from './approval.ts'
import type { CallReply, CallRequest } from './call.ts'
import type { CallRecord } from './call-record.ts'
import { refusalOutcome } from './execute.ts'
import type { KernelOptions } from './gateway.ts'
import {
  type Answer,
  adaptInput,
  type IdentifiedCall,
  identifyCall,
  keyConflict,
  type LookUpNeeds,
  lookUp,
  type StartingCalls,
} from './look-up.ts'
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
import { hasLeft } from './running.ts'
import type { CallStages, Reservation } from './stages.ts'
import type { StepOrigin } from './step-origin.ts'
import { type Blocker, type BlockerNeeds, findBlocker } from './suspend.ts'

/**
 * The ladder of a call, from its look-up to its recorded outcome (rule 1). Every protocol, workflow steps and in-process code
 * go through `callTool`. Stages throw `ToolError`; only `callTool` catches them. An outcome already recorded under the key is
 * returned without any further check.
 */

/** The dependencies of the stages and of the ladder itself. */
export type CallNeeds = LookUpNeeds &
  ScopeNeeds &
  ApprovalNeeds &
  BlockerNeeds &
  RunNeeds &
  CallStages &
  Pick<KernelOptions, 'newCallId'> & { readonly starting: StartingCalls }

/** Maximum number of look-ups of a call whose claim other processes keep winning. */
const MAX_ROUNDS = 5

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
      if (found?.kind === 'answer') return replyOf(call, found)
      if (found?.kind === 'other') return await refuseOther(needs, call)
      const previous = found?.previous
      const run = await (call.keyed
        ? startOrWait(needs, { call, previous, mayWait: round === 0 })
        : startCall(needs, { call, previous, isFirst: true }))
      if (run.kind === 'answer') return replyOf(call, run)
      if (run.kind === 'parked' && !(await isDecided(needs, call, run.approval))) {
        return refuse(needs, call, approvalRequired(run.approval, await needs.approvalsUrl()), run.runId)
      }
      if (run.kind === 'waiting' && !(await isDecided(needs, call, run.blocker.approval))) {
        return refuse(needs, call, run.blocker.error, run.runId)
      }
    }
    throw fault('overloaded', 'This call id is being used by several requests at once. Try again shortly.', {
      retryAfterMs: 1_000,
    })
  } catch (error) {
    return refuse(needs, call, error, isToolError(error) ? error.details.runId : undefined)
  }
}

/** The reply; output from third-party tools is marked as untrusted, also on replays (OWP-58). */
function replyOf({ callId }: IdentifiedCall, { outcome, runId, tool, toolId, replayed }: Answer): CallReply {
  const reply = { callId, outcome, runId, replayed, tool }
  return hasUntrustedOutput(toolId) ? { ...reply, untrusted: true } : reply
}

function refuse(
  needs: CallNeeds,
  { callId }: IdentifiedCall,
  error: unknown,
  runId: string | undefined,
): CallReply {
  const reply = { callId, outcome: refusalOutcome(needs, error), replayed: false }
  return runId === undefined ? reply : { ...reply, runId }
}

/**
 * Rule 1: the key belongs to another request. Any other error in this request is reported first. Nothing is run or recorded
 * for it.
 */
async function refuseOther(needs: CallNeeds, call: IdentifiedCall): Promise<never> {
  needs.health.checkReady()
  await needs.limits.checkCaller(call.principal)
  const tool = resolveTool(needs.registry, call, undefined)
  await validateInput(tool, adaptInput(needs.store, call, tool).input)
  throw keyConflict()
}

interface StartOptions {
  readonly call: IdentifiedCall
  readonly previous: CallRecord | undefined
  /** Whether the call may wait for another request with its key. */
  readonly mayWait: boolean
}

/** Rule 1 for simultaneous requests: a request that a limit refuses waits for the first request with its key, if there is one. */
async function startOrWait(
  needs: CallNeeds,
  { call, previous, mayWait }: StartOptions,
): Promise<StartResult> {
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

type StartResult =
  | RunResult
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord; readonly runId: string }

/**
 * Walks the ladder for a call without a final outcome, then runs it. Most stages return synchronously, and their results are
 * not awaited, because each `await` costs a promise and a turn of the event loop.
 */
async function startCall(
  needs: CallNeeds,
  { call, previous, isFirst }: Omit<StartOptions, 'mayWait'> & { readonly isFirst: boolean },
): Promise<StartResult> {
  needs.health.checkReady()
  // A step is part of a call that was already admitted.
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
    const checking = needsCredentials(tool, call.request)
      ? needs.credentials.check({ tool, call: adapted, scope })
      : adapted
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

/** False for most calls: their tools declare no credentials, and they neither send any nor name a user. */
function needsCredentials({ requirements }: Tool, { userId, tokens, secrets }: CallRequest): boolean {
  return requirements !== undefined || userId !== undefined || tokens.size > 0 || secrets.size > 0
}

/** Most tools need no approval: their calls do not wait here, not even for a turn of the event loop. */
function runIfApproved(needs: CallNeeds, checked: CheckedCall): Promise<StartResult> {
  const { tool, previous } = checked
  if (previous?.waitsFor !== undefined) return runIfFree(needs, checked, previous)
  const needsNoApproval = tool.policy.approval === 'never' && previous?.state !== 'parked'
  return needsNoApproval ? runWithinBudget(needs, checked) : runIfGranted(needs, checked)
}

async function runIfFree(needs: CallNeeds, checked: CheckedCall, previous: CallRecord): Promise<StartResult> {
  const { call, tool, scope } = checked
  const blocker = await findBlocker(needs, previous, tool.name)
  if (blocker === undefined) return await runWithinBudget(needs, checked)
  return { kind: 'waiting', blocker, runId: previous.runId ?? runIdOf(call, scope) }
}

async function runIfGranted(needs: CallNeeds, checked: CheckedCall): Promise<StartResult> {
  const { call, scope, previous } = checked
  const check = await checkApproval(needs, checked)
  if (check.kind === 'changed') return { kind: 'lost' }
  if (check.kind === 'parked') return { ...check, runId: previous?.runId ?? runIdOf(call, scope) }
  return await runWithinBudget(needs, checked, check.grant)
}

/**
 * The maximum cost of a run is reserved before the run starts; a request that joins another run, or does not run,
 * spends nothing. Each step of a workflow reserves its own budget.
 */
function runWithinBudget(needs: CallNeeds, checked: CheckedCall, grant?: Grant): Promise<RunResult> {
  const { call, tool } = checked
  const reserved = tool.workflow === undefined ? needs.limits.reserve(call.principal, tool) : undefined
  if (reserved === undefined) return runCall(needs, checked, { grant, reservation: undefined })
  return runReserved(needs, checked, grant, reserved)
}

async function runReserved(
  needs: CallNeeds,
  checked: CheckedCall,
  grant: Grant | undefined,
  reserved: MaybePromise<Reservation>,
): Promise<RunResult> {
  const reservation = await reserved
  try {
    return await runCall(needs, checked, { grant, reservation })
  } finally {
    reservation.cancel()
  }
}

/**
 * Waits for a decision about a call or one of its steps, for as long as the caller requested (`Prefer: wait`) and stays
 * connected, if the limits allow another waiting request.
 */
async function isDecided(
  { store, waits, limits }: CallNeeds,
  { principal, request }: IdentifiedCall,
  approval: Blocker['approval'],
): Promise<boolean> {
  const { waitMs = 0, gone } = request
  const leave = approval !== undefined && waitMs > 0 ? limits.tryEnterWaiting(principal) : undefined
  if (approval === undefined || leave === undefined) return false
  try {
    return await waits.until(approval.record, { waitMs: limits.shortenWait(waitMs), gone }, async () => {
      const current = await store.approvals.find(approval)
      return current?.state !== 'pending' || hasLeft(request.leaving)
    })
  } finally {
    leave()
  }
}

/**
 * Rule 6: a request without a key resumes an equal call of the same principal that is parked or has an unused approval.
 * Clients that cannot send keys can resume calls this way.
 */
async function resumeUnkeyed(needs: CallNeeds, call: IdentifiedCall): Promise<IdentifiedCall> {
  const tool = needs.registry.catalogFor(call.principal).resolve(call.request.tool)
  // A workflow that needs no approval itself may be parked because one of its steps needs one.
  if (tool === undefined || (tool.policy.approval === 'never' && tool.workflow === undefined)) return call
  const { tenant, principal, fingerprint } = adaptInput(needs.store, call, tool)
  const { definitionHash } = tool
  const criteria = { tenant, principal: principal.id, fingerprint, definitionHash }
  const found = await needs.store.approvals.findParked(criteria)
  if (found === undefined) return call
  call.request.onAdopted?.(found.callId)
  return { ...call, record: found.record, callId: found.callId, keyed: true }
}
