import type { Clock } from '#core/ports/clock'
import type { NewCall, Store } from '#core/ports/store'
import { placeOf } from '#core/runs/own-runs'
import { ownRunId } from '#core/runs/run-id'
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
  }
}

/** A call stays in the run it was first recorded in, whatever its next attempt names. */
export function recordedPlace(
  store: Store,
  { call, place, seen }: Pick<CheckedCall, 'call' | 'place' | 'seen'>,
): CallPlace {
  if (seen === undefined) return place
  const { runId, run, record, tenant, principal } = seen
  if (runId !== undefined) return { ...place, place: placeOf(store, call.principal, runId) }
  // One that was parked has a run with events of its own, from its first attempt on.
  const own =
    run === record && seen.state === 'parked'
      ? { tenant, principal, runId: ownRunId(record), run }
      : undefined
  return { ...place, place: own }
}

/** Rule 8. */
function rerunUntil(tool: Tool, atMs: number): number {
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}
