import { fault, type ToolError } from '#core/errors'
import { implicitRun, ownRunId } from '#core/ids'
import type { CallSession, NewCall, RunScope, Store } from '#core/ports/store'
import { namedRun, placeOf } from '#core/runs/runs'
import { heldElsewhere, isHeldElsewhere, type LiveSession, sessionEnded } from '#core/runs/sessions'
import type { Clock } from '#core/runtime'
import { hasEffects, type Tool, transportOf } from '#core/tool'
import type { CallServices } from './gateway.ts'
import { argsHash, type IdentifiedCall } from './identity.ts'
import type { CheckedCall } from './run.ts'

/** A call as it is first written. */
export function toNewCall(clock: Clock, { call, tool, place }: CheckedCall): NewCall {
  const atMs = clock.nowMs()
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal.id,
    callId: call.callId,
    toolId: tool.catalogId,
    transport: transportOf(tool),
    argsHash: argsHash(call),
    place: place.place,
    session: place.session,
    traceId: call.request.traceId ?? '',
    protocol: call.request.protocol,
    userId: call.request.userId,
    fingerprint: call.fingerprint,
    tool: tool.id,
    definitionHash: tool.definitionHash,
    tier: tool.policy.safetyTier,
    replay: tool.policy.replay,
    // Rule 30: what ran in a session is never run again.
    rerunUntilMs: place.session === undefined ? rerunUntil(tool, atMs) : 0,
    inputJson: call.inputJson,
    atMs,
    ...(call.step === undefined ? {} : { step: { parent: call.step.parent, root: call.step.root } }),
    ...(tool.workflow === undefined ? {} : { resumable: true }),
  }
}

/** A call stays in the run it was first recorded in, whatever its next attempt names. */
export function recordedScope(
  store: Store,
  { call, place, seen }: Pick<CheckedCall, 'call' | 'place' | 'seen'>,
): CallScope {
  if (seen === undefined) return place
  const { runId, run, record } = seen
  // A step has the place that its workflow gives it, and a workflow outside of a run its own.
  if (call.step !== undefined) return place
  if (runId !== undefined && runId !== ownRunId(record)) {
    return { ...place, place: placeOf(store, call.principal, runId) }
  }
  // One that was parked has a run with events of its own, from its first attempt on.
  const isOwn = run === record && (seen.state === 'parked' || seen.resumable)
  return { ...place, place: isOwn ? implicitRun(call.principal, record) : undefined }
}

/** Rule 8, and rule 31 for workflows. */
function rerunUntil(tool: Tool, atMs: number): number {
  if (tool.workflow !== undefined) return atMs + tool.policy.rerunWindowMs
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}

/** Where an attempt belongs: its run, if it was told one, and the session it runs in. */
export interface CallScope {
  readonly place: RunScope | undefined
  readonly session: CallSession | undefined
  /** The named session, whose state it uses. */
  readonly live: LiveSession | undefined
}

const ALONE: CallScope = { place: undefined, session: undefined, live: undefined }

/**
 * A stateful tool runs in a session: the one its caller named, or one of its own (rule 30). Where state is optional a
 * call outside of sessions is like any other, but in a run that its caller watches its use is bracketed (openwop §7.3).
 */
export async function resolveScope(
  services: CallServices,
  { call, tool, seen }: Pick<CheckedCall, 'call' | 'tool' | 'seen'>,
): Promise<CallScope> {
  const { runId, sessionId } = call.request
  const hasOwn = tool.session !== undefined && (!tool.session.isOptional || runId !== undefined)
  const isPlain = !hasOwn && tool.workflow === undefined && call.step === undefined
  if (runId === undefined && sessionId === undefined && isPlain) return ALONE
  if (sessionId !== undefined) return await placeInSession(services, { call, tool, sessionId })
  const place = await runPlace(services, call, tool)
  if (!hasOwn) return { ...ALONE, place }
  // The bracket of an attempt that waits for a yes is open already (OWP-45).
  if (seen?.state === 'parked' && seen.sessionId !== undefined) {
    return { place, session: { sessionId: seen.sessionId, isOwn: true }, live: undefined }
  }
  const session = { sessionId: `ses_${services.sessions.newId()}`, isOwn: true }
  return { place, session, live: undefined }
}

/** Steps are told in the run of their workflow, which has one with events from the beginning (rule 31). */
async function runPlace(
  { store }: CallServices,
  call: IdentifiedCall,
  { workflow }: Tool,
): Promise<RunScope | undefined> {
  if (call.step !== undefined) return call.step.place
  const { runId } = call.request
  if (runId !== undefined) return await namedRun(store, call.principal, runId)
  return workflow === undefined ? undefined : implicitRun(call.principal, call.record)
}

/** What a caller may call the run of this attempt. */
export function runIdOf(call: IdentifiedCall, { place }: Pick<CallScope, 'place'>): string {
  return place?.runId ?? ownRunId(call.record)
}

async function placeInSession(
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
  if (runId !== undefined && runId !== live.place.runId) {
    throw fault('request_invalid', `This session belongs to run '${live.place.runId}', not '${runId}'.`)
  }
  return { place: live.place, session: { sessionId, isOwn: false }, live }
}

/** Others' sessions, closed ones and such as never were look the same; one that another process holds may come back. */
async function sessionNotFound(
  { store }: CallServices,
  { principal }: IdentifiedCall,
  sessionId: string,
): Promise<ToolError> {
  return (await isHeldElsewhere(store, principal, sessionId)) ? heldElsewhere() : sessionEnded()
}
