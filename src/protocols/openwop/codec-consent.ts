import type { JsonObject } from '#core/json'
import type { RunEvent } from '#core/runs/events'

/** What a run tells of consents. */
export type ConsentEvent = Extract<
  RunEvent,
  {
    readonly type:
      | 'consent.requested'
      | 'consent.suspended'
      | 'consent.resolved'
      | 'connector.authorized'
      | 'connector.auth_expired'
  }
>

/** An interrupt like any other, but one that only a person at the provider resolves (OWP-45, §7.3). */
export function encodeConsent(event: ConsentEvent, runId: string): JsonObject {
  switch (event.type) {
    case 'connector.authorized':
      return { provider: event.provider, credentialRef: event.credentialRef, scopes: [...event.scopes] }
    case 'connector.auth_expired':
      return { provider: event.provider }
    case 'consent.requested':
      return encodeQuestion(event, runId)
    case 'consent.suspended': {
      const { interruptId, kind, key } = namesOf(event, runId)
      return { nodeId: event.record, interruptId, kind, key }
    }
    case 'consent.resolved':
      return encodeEnd(event, runId)
  }
}

function namesOf(
  { record, challenge }: { readonly record: string; readonly challenge: string },
  runId: string,
) {
  // Deterministic, so the same challenge never prompts twice (OWP-65).
  const key = `${runId}:${record}:${challenge}`
  return { interruptId: `int_${challenge}`, kind: 'approval', key } as const
}

/** Where to go is our own page: nothing of what the provider is asked with is here (OWP-78). */
function encodeQuestion(
  event: Extract<ConsentEvent, { readonly type: 'consent.requested' }>,
  runId: string,
): JsonObject {
  const { record, challenge, call, provider, scopes, url, timeoutMs, atMs } = event
  return {
    runId,
    nodeId: record,
    ...namesOf(event, runId),
    timeoutMs,
    requestedAt: new Date(atMs).toISOString(),
    data: {
      gateId: `gate_${challenge}`,
      reason: 'authorization-required',
      provider,
      scopes: [...scopes],
      url,
      artifactId: `call:${call.callId}`,
      artifactType: 'tool-call',
      title: `Authorize ${provider} for ${call.toolId}`,
    },
  }
}

function encodeEnd(
  event: Extract<ConsentEvent, { readonly type: 'consent.resolved' }>,
  runId: string,
): JsonObject {
  const { record, action, reason, atMs } = event
  const at = new Date(atMs).toISOString()
  const { interruptId, kind } = namesOf(event, runId)
  return {
    runId,
    nodeId: record,
    interruptId,
    kind,
    resumeValue: { action, decidedAt: at },
    outcome: action === 'accept' ? 'granted' : 'rejected',
    ...(reason === undefined ? {} : { reason }),
    resolvedAt: at,
  }
}
