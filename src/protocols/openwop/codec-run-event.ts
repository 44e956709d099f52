import type { ErrorCode } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { ApprovalDecided, InterruptResolved, RunEvent, ToolReturned } from '#core/runs/events'
import type { RunPage } from '#core/runs/runs'
import { encodeConsent } from './codec-consent.ts'
import { encodeInterrupt, interruptKey } from './codec-interrupt.ts'
import type { WireRunEvent } from './wire.ts'

/** Calls here come from no agent this server knows (OWP-50). */
const AGENT_ID = 'core.system'

const TYPES = {
  called: 'agent.toolCalled',
  returned: 'agent.toolReturned',
  'session.opened': 'tool.session.opened',
  'session.closed': 'tool.session.closed',
  'interrupt.requested': 'interrupt.requested',
  'node.suspended': 'node.suspended',
  'approval.granted': 'approval.granted',
  'approval.rejected': 'approval.rejected',
  'approval.overridden': 'approval.overridden',
  'interrupt.resolved': 'interrupt.resolved',
  'consent.requested': 'interrupt.requested',
  'consent.suspended': 'node.suspended',
  'consent.resolved': 'interrupt.resolved',
  'connector.authorized': 'connector.authorized',
  'connector.auth_expired': 'connector.auth_expired',
} as const satisfies Record<RunEvent['type'], WireRunEvent['type']>

/** The events of a page as they leave: ids and ends, nothing a caller or a tool said (OWP-43, OWP-52). */
export function encodeRunEvents(page: RunPage, runId: string): readonly WireRunEvent[] {
  return page.events.map((event) => ({
    eventId: `evt_${page.key}_${event.sequence}`,
    runId,
    type: TYPES[event.type],
    sequence: event.sequence,
    timestamp: new Date(event.atMs).toISOString(),
    ...('record' in event ? { nodeId: event.record } : {}),
    payload: payloadOf(event, page, runId),
  }))
}

function payloadOf(event: RunEvent, { principal }: RunPage, runId: string): JsonObject {
  switch (event.type) {
    case 'interrupt.requested':
      return encodeInterrupt(event, { runId, atMs: event.atMs })
    case 'node.suspended': {
      const { record, attempt, approval } = event
      const key = interruptKey(runId, record, attempt)
      return { nodeId: record, interruptId: `int_${approval}`, kind: 'approval', key }
    }
    case 'approval.granted':
    case 'approval.rejected':
    case 'approval.overridden':
      return decisionOf(event)
    case 'interrupt.resolved':
      return resolutionOf(event, runId, event.atMs)
    case 'consent.requested':
    case 'consent.suspended':
    case 'consent.resolved':
    case 'connector.authorized':
    case 'connector.auth_expired':
      return encodeConsent(event, runId)
    default:
      return callOrSession(event, principal)
  }
}

/** OWP-70. */
function decisionOf({ approval, by, reason, granted, required }: ApprovalDecided): JsonObject {
  return {
    gateId: `gate_${approval}`,
    principal: by,
    ...(reason === undefined ? {} : { reason }),
    ...(granted === undefined || required === undefined ? {} : { quorumProgress: { granted, required } }),
  }
}

/** OWP-71, OWP-72: without an approver nobody resolved it, and it counts as rejected. */
function resolutionOf(event: InterruptResolved, runId: string, atMs: number): JsonObject {
  const { record, approval, action, by, reason } = event
  const at = new Date(atMs).toISOString()
  const decidedBy = by === undefined ? {} : { decidedBy: by }
  const word = action === 'accept' ? 'accept' : 'reject'
  return {
    runId,
    nodeId: record,
    interruptId: `int_${approval}`,
    kind: 'approval',
    resumeValue: { action: word, ...decidedBy, decidedAt: at },
    outcome: OUTCOMES[action],
    ...(reason === undefined ? {} : { reason }),
    resolvedAt: at,
    ...(by === undefined ? {} : { resolvedBy: by }),
  }
}

const OUTCOMES = {
  accept: 'granted',
  reject: 'rejected',
  cancel: 'cancelled',
} as const satisfies Record<InterruptResolved['action'], string>

type CallOrSession = Extract<
  RunEvent,
  { readonly type: 'called' | 'returned' | 'session.opened' | 'session.closed' }
>

function callOrSession(event: CallOrSession, principal: string): JsonObject {
  if (event.type === 'session.opened') return { sessionId: event.sessionId, toolId: event.toolId }
  if (event.type === 'session.closed') {
    return { sessionId: event.sessionId, toolId: event.toolId, outcome: event.outcome }
  }
  const { callId, toolId, argsHash, transport, traceId } = event.call
  const names = { agentId: AGENT_ID, toolName: toolId, callId }
  const session = event.sessionId === undefined ? {} : { sessionId: event.sessionId }
  if (event.type === 'called') {
    return { ...names, argsHash, principal, transport, ...session, ...(traceId === '' ? {} : { traceId }) }
  }
  return { ...names, ...endOf(event), ...session }
}

/** C10: what a limit refused, by whatever name it has here. */
const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

/** OWP-53 and OWP-54: how it ended, in a code and never in the tool's words. */
function endOf({ code, durationMs }: ToolReturned): JsonObject {
  const took = durationMs === undefined ? {} : { durationMs }
  if (code === undefined) return { status: 'ok', ...took }
  return { status: statusOf(code), ...took, error: { code, message: `The call ended with ${code}.` } }
}

/** OWP-51, OWP-56, OWP-73. */
function statusOf(code: ErrorCode): 'error' | 'forbidden' | 'rate_limited' {
  if (LIMITED.has(code)) return 'rate_limited'
  return code === 'approval_rejected' || code === 'not_authorized' ? 'forbidden' : 'error'
}
