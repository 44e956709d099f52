import type { Clock } from '#core/ports/clock'
import type { NewCall, Store } from '#core/ports/store'
import { placeOf } from '#core/runs/own-runs'
import { ownPlace, ownRunId } from '#core/runs/run-id'
import { hasEffects, type Tool, transportOf } from '#core/tool'
import { argsHash } from './args-hash.ts'
import type { CallPlace } from './call-place.ts'
import type { CheckedCall } from './run-call.ts'

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
export function recordedPlace(
  store: Store,
  { call, place, seen }: Pick<CheckedCall, 'call' | 'place' | 'seen'>,
): CallPlace {
  if (seen === undefined) return place
  const { runId, run, record } = seen
  // A step has the place that its workflow gives it, and a workflow outside of a run its own.
  if (call.step !== undefined) return place
  if (runId !== undefined && runId !== ownRunId(record)) {
    return { ...place, place: placeOf(store, call.principal, runId) }
  }
  // One that was parked has a run with events of its own, from its first attempt on.
  const isOwn = run === record && (seen.state === 'parked' || seen.resumable)
  return { ...place, place: isOwn ? ownPlace(call.principal, record) : undefined }
}

/** Rule 8, and rule 31 for workflows. */
function rerunUntil(tool: Tool, atMs: number): number {
  if (tool.workflow !== undefined) return atMs + tool.policy.rerunWindowMs
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}
