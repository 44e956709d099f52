import type { Outcome } from '#core/call'
import type { Attempt, NewCall, RefusedCall } from '#core/ports/store'

/** A call as the pipeline would write it, for store tests. */
export function sampleCall(changes: Partial<NewCall> = {}): NewCall {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Doorbell.Ring',
    transport: 'native',
    argsHash: '0'.repeat(64),
    place: undefined,
    session: undefined,
    traceId: 'trace-1',
    protocol: 'otc',
    userId: undefined,
    fingerprint: 'fingerprint-1',
    tool: 'Doorbell.Ring@0.1.0',
    definitionHash: 'definition-1',
    tier: 'write',
    replay: 'non-deterministic',
    rerunUntilMs: 0,
    inputJson: '{"doorbell_id":"doorbell42"}',
    atMs: 1_000,
    ...changes,
  }
}

/** A call that a limit refused, in a run. */
export function sampleRefusal(
  changes: Partial<RefusedCall> & { readonly place: RefusedCall['place'] },
): RefusedCall {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Doorbell.Ring',
    transport: 'native',
    argsHash: '0'.repeat(64),
    sessionId: undefined,
    traceId: 'trace-1',
    userId: undefined,
    tool: 'Doorbell.Ring@0.1.0',
    code: 'rate_limited',
    atMs: 1_000,
    ...changes,
  }
}

export function attemptAt(call: NewCall, attempt: number): Attempt {
  const { tenant, record, principal, tool, place, session } = call
  const ownRun = session === undefined && attempt === 1 ? undefined : record
  return { tenant, record, principal, tool, attempt, run: place?.run ?? ownRun, session }
}

export function success(valueJson: string): Outcome {
  return { ok: true, valueJson, durationMs: 1.5 }
}

export function failure(canRetry: boolean): Outcome {
  return {
    ok: false,
    error: { code: 'tool_failed', message: 'The bell is broken.', canRetry },
    durationMs: 2,
  }
}
