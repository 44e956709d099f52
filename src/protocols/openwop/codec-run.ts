import { type ErrorCode, fault, type ToolError } from '#kernel/base/errors'
import { checkRunId } from '#kernel/base/ids'
import { hasControlCharacter, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { SessionRequest } from '#kernel/call/stages'
import type { ApprovalDecided, InterruptResolved, RunEvent, ToolReturned } from '#kernel/run/events'
import type { RunPage } from '#kernel/run/runs'
import { encodeInterrupt, interruptKey } from './codec-interrupt.ts'
import type { WireRunEvent } from './wire.ts'

/*
 * Decodes session and event requests, and encodes a run's events for openwop.
 * Used by `run-routes.ts`.
 * Invariant: events contain ids, hashes and codes, never text of a caller or of a tool (OWP-43, OWP-52).
 */

const MAX_USER_ID_LENGTH = 1_024
const MEMBERS = ['toolId', 'runId', 'userId'] as const

/** The body of `POST /v1/sessions`; closed, so that a misspelt member is not silently ignored. */
export function decodeSessionRequest(body: JsonValue | undefined): SessionRequest {
  if (!isJsonObject(body))
    throw invalid('The body must be an object such as { "toolId": "openwop:Notebook.Run" }.')
  const unknown = Object.keys(body).find((name) => !MEMBERS.some((known) => known === name))
  if (unknown !== undefined) {
    throw invalid(`"${unknown}" is not a known member. Known members: ${MEMBERS.join(', ')}.`)
  }
  const toolId = readText(body, 'toolId')
  const runId = readText(body, 'runId')
  const userId = readText(body, 'userId')
  if (userId !== undefined) checkUserId(userId)
  if (toolId === undefined) throw invalid('"toolId" is missing; GET /v1/tools lists yours.')
  return {
    toolId,
    ...(runId === undefined ? {} : { runId: checkRunId(runId) }),
    ...(userId === undefined ? {} : { userId }),
  }
}

/** Refuses user ids that no call could name. */
function checkUserId(userId: string): void {
  if (userId !== '' && userId.length <= MAX_USER_ID_LENGTH && !hasControlCharacter(userId)) return
  throw invalid(`"userId" must have 1 to ${MAX_USER_ID_LENGTH} characters, none of them a control character.`)
}

function readText(body: JsonObject, name: (typeof MEMBERS)[number]): string | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined
  if (value === undefined || typeof value === 'string') return value
  throw invalid(`"${name}" must be text.`)
}

function invalid(message: string): ToolError {
  return fault('request_invalid', message)
}

const WHOLE = /^-1$|^[0-9]{1,15}$/
const MAX_WAIT_S = 60

/** The sequence of the last event that a reader has; -1 for none. */
export function decodeLastSequence(name: string, text: string | undefined): number {
  if (text === undefined || text.trim() === '') return -1
  if (WHOLE.test(text.trim())) return Number(text)
  throw fault('request_invalid', `"${name}" must be the sequence of the last event you have, such as 3.`)
}

/** How long a poll may wait, in milliseconds; without `timeout` it answers at once (OWP-98). */
export function decodeTimeout(text: string | null): number {
  if (text === null) return 0
  const seconds = /^[0-9]{1,2}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_WAIT_S) return seconds * 1_000
  throw fault('request_invalid', `"timeout" must be a whole number of seconds from 1 to ${MAX_WAIT_S}.`)
}

/** Calls come from no agent that this server knows (OWP-50). */
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

/** Encodes the events of a page: ids and outcomes, no text of a caller or of a tool (OWP-43, OWP-52). */
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

/** Payload of a decision (OWP-70). */
function decisionOf({ approval, by, reason, granted, required }: ApprovalDecided): JsonObject {
  return {
    gateId: `gate_${approval}`,
    principal: by,
    ...(reason === undefined ? {} : { reason }),
    ...(granted === undefined || required === undefined ? {} : { quorumProgress: { granted, required } }),
  }
}

/** OWP-71, OWP-72: an interrupt that no approver resolved counts as rejected. */
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

/** Error codes that openwop reports as a limit (OWP/C10). */
const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

/** OWP-53 and OWP-54: the outcome as a code, never as the tool's text. */
function endOf({ code, durationMs }: ToolReturned): JsonObject {
  const took = durationMs === undefined ? {} : { durationMs }
  if (code === undefined) return { status: 'ok', ...took }
  return { status: statusOf(code), ...took, error: { code, message: `The call ended with ${code}.` } }
}

/** Status by error code (OWP-51, OWP-56, OWP-73). */
function statusOf(code: ErrorCode): 'error' | 'forbidden' | 'rate_limited' {
  if (LIMITED.has(code)) return 'rate_limited'
  return code === 'approval_rejected' || code === 'not_authorized' ? 'forbidden' : 'error'
}

type ConsentEvent = Extract<
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

/** Encoded as an interrupt, but one that only a user at the provider resolves (OWP-45, OWP §7.3). */
function encodeConsent(event: ConsentEvent, runId: string): JsonObject {
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
  // Deterministic, so that one challenge never prompts twice (OWP-65).
  const key = `${runId}:${record}:${challenge}`
  return { interruptId: `int_${challenge}`, kind: 'approval', key } as const
}

/** The URL is our own page, so no parameter of the authorization request is exposed (OWP-78). */
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
