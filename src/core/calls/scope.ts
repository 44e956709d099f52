import { fault, type ToolError } from '#core/errors'
import { ownRunId } from '#core/ids'
import type { CallSession, NewCall, RunScope, Store } from '#core/ports/store'
import { implicitRun, namedRun, namedScope } from '#core/runs/runs'
import { heldElsewhere, isHeldElsewhere, type LiveSession, sessionEnded } from '#core/runs/sessions'
import type { Clock } from '#core/runtime'
import { hasEffects, type Tool, transportOf } from '#core/tool'
import type { CallServices } from './gateway.ts'
import { argsHash, type IdentifiedCall } from './identity.ts'
import type { CheckedCall } from './run.ts'

/** A call as it is first written. */
export function toNewCall(clock: Clock, { call, tool, scope }: CheckedCall): NewCall {
  const atMs = clock.nowMs()
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal.id,
    callId: call.callId,
    toolId: tool.catalogId,
    transport: transportOf(tool),
    argsHash: argsHash(call),
    place: scope.run,
    session: scope.session,
    traceId: call.request.traceId ?? '',
    protocol: call.request.protocol,
    userId: call.request.userId,
    fingerprint: call.fingerprint,
    tool: tool.id,
    definitionHash: tool.definitionHash,
    tier: tool.policy.safetyTier,
    replay: tool.policy.replay,
    // Rule 30: what ran in a session is never run again.
    rerunUntilMs: scope.session === undefined ? rerunUntil(tool, atMs) : 0,
    inputJson: call.inputJson,
    atMs,
    ...(call.step === undefined ? {} : { step: { parent: call.step.parent, root: call.step.root } }),
    ...(tool.workflow === undefined ? {} : { resumable: true }),
  }
}

/** A call stays in the run it was first recorded in, whatever its next attempt names. */
export function recordedScope(
  store: Store,
  { call, scope, previous }: Pick<CheckedCall, 'call' | 'scope' | 'previous'>,
): CallScope {
  if (previous === undefined) return scope
  const { runId, run, record } = previous
  // A step has the run that its workflow gives it, and a workflow outside of a run its own.
  if (call.step !== undefined) return scope
  if (runId !== undefined && runId !== ownRunId(record)) {
    return { ...scope, run: namedScope(store, call.principal, runId) }
  }
  // One that was parked has a run with events of its own, from its first attempt on.
  const isOwn = run === record && (previous.state === 'parked' || previous.resumable)
  return { ...scope, run: isOwn ? implicitRun(call.principal, record) : undefined }
}

/** Rule 8, and rule 31 for workflows. */
function rerunUntil(tool: Tool, atMs: number): number {
  if (tool.workflow !== undefined) return atMs + tool.policy.rerunWindowMs
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}

/** Where an attempt belongs: its run, if it was told one, and the session it runs in. */
export interface CallScope {
  readonly run: RunScope | undefined
  readonly session: CallSession | undefined
  /** The named session, whose state it uses. */
  readonly live: LiveSession | undefined
}

const ALONE: CallScope = { run: undefined, session: undefined, live: undefined }

/**
 * A stateful tool runs in a session: the one its caller named, or one of its own (rule 30). Where state is optional a
 * call outside of sessions is like any other, but in a run that its caller watches its use is bracketed (openwop §7.3).
 */
export async function resolveScope(
  services: CallServices,
  { call, tool, previous }: Pick<CheckedCall, 'call' | 'tool' | 'previous'>,
): Promise<CallScope> {
  const { runId, sessionId } = call.request
  const hasOwn = tool.session !== undefined && (!tool.session.isOptional || runId !== undefined)
  const isPlain = !hasOwn && tool.workflow === undefined && call.step === undefined
  if (runId === undefined && sessionId === undefined && isPlain) return ALONE
  if (sessionId !== undefined) return await scopeInSession(services, { call, tool, sessionId })
  const run = await runOf(services, call, tool)
  if (!hasOwn) return { ...ALONE, run }
  // The bracket of an attempt that waits for a yes is open already (OWP-45).
  if (previous?.state === 'parked' && previous.sessionId !== undefined) {
    return { run, session: { sessionId: previous.sessionId, isOwn: true }, live: undefined }
  }
  const session = { sessionId: `ses_${services.sessions.newId()}`, isOwn: true }
  return { run, session, live: undefined }
}

/** Steps are told in the run of their workflow, which has one with events from the beginning (rule 31). */
async function runOf(
  { store }: CallServices,
  call: IdentifiedCall,
  { workflow }: Tool,
): Promise<RunScope | undefined> {
  if (call.step !== undefined) return call.step.run
  const { runId } = call.request
  if (runId !== undefined) return await namedRun(store, call.principal, runId)
  return workflow === undefined ? undefined : implicitRun(call.principal, call.record)
}

async function scopeInSession(
  services: CallServices,
  asked: { readonly call: IdentifiedCall; readonly tool: Tool; readonly sessionId: string },
): Promise<CallScope> {
  const { call, tool, sessionId } = asked
  const { runId, userId } = call.request
  const live = services.sessions.find(call.principal, userId, sessionId)
  if (live === undefined) throw await sessionNotFound(services, call, sessionId)
  if (live.tool.id !== tool.id) {
    throw fault('request_invalid', `This session is one of ${live.tool.id}; ${tool.id} cannot use it.`)
  }
  if (runId !== undefined && runId !== live.run.runId) {
    throw fault('request_invalid', `This session belongs to run '${live.run.runId}', not '${runId}'.`)
  }
  return { run: live.run, session: { sessionId, isOwn: false }, live }
}

/** Others' sessions, closed ones and such as never were look the same; one that another process holds may come back. */
async function sessionNotFound(
  { store }: CallServices,
  { principal }: IdentifiedCall,
  sessionId: string,
): Promise<ToolError> {
  return (await isHeldElsewhere(store, principal, sessionId)) ? heldElsewhere() : sessionEnded()
}
