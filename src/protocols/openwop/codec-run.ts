import { type ErrorCode, fault, type ToolError } from '#kernel/base/errors'
import { checkRunId } from '#kernel/base/ids'
import {
  defined,
  hasControlCharacter,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import type { SessionRequest } from '#kernel/call/stages'
import type { ApprovalDecided, InterruptResolved, RunEvent } from '#kernel/run/events'
import type { RunPage } from '#kernel/run/runs'
import { encodeInterrupt, interruptKey } from './codec-interrupt.ts'
import { RUN_EVENT_TYPES, type WireRunEvent } from './wire.ts'

/*
 * Decodes session and event requests, and encodes a run's events for openwop. Used by `run-routes.ts`.
 * Invariant: events contain ids, hashes and codes, never text from a caller or a tool (OWP-43, OWP-52).
 */

const MAX_USER_ID_LENGTH = 1_024
const MEMBERS = ['toolId', 'runId', 'userId'] as const

/** Reads the body of `POST /v1/sessions`. Refuses unknown members, so that a misspelt one is not silently ignored. */
export function decodeSessionRequest(body: JsonValue | undefined): SessionRequest {
  if (!isJsonObject(body))
    throw invalid('The body must be an object such as { "toolId": "openwop:Notebook.Run" }.')
  const unknown = Object.keys(body).find((name) => !MEMBERS.some((known) => known === name))
  if (unknown !== undefined) {
    throw invalid(`"${unknown}" is not a known member. Known members: ${MEMBERS.join(', ')}.`)
  }
  const [toolId, runId, userId] = MEMBERS.map((name) => readText(body, name))
  if (userId !== undefined) checkUserId(userId)
  if (toolId === undefined) throw invalid('"toolId" is missing; GET /v1/tools lists yours.')
  return defined({ toolId, runId: runId === undefined ? undefined : checkRunId(runId), userId })
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

/** Reads the sequence number of the last event that a reader has; -1 if it has none. */
export function decodeLastSequence(name: string, text: string | undefined): number {
  if (text === undefined || text.trim() === '') return -1
  if (WHOLE.test(text.trim())) return Number(text)
  throw invalid(`"${name}" must be the sequence of the last event you have, such as 3.`)
}

/** How long a poll may wait, in milliseconds; without `timeout` it answers at once (OWP-98). */
export function decodeTimeout(text: string | null): number {
  if (text === null) return 0
  const seconds = /^[0-9]{1,2}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_WAIT_S) return seconds * 1_000
  throw invalid(`"timeout" must be a whole number of seconds from 1 to ${MAX_WAIT_S}.`)
}

/** The agent of all calls, because this server does not know the agents that make them (OWP-50). */
const AGENT_ID = 'core.system'

/** Encodes the events of a page with ids and outcomes, and without texts from a caller or a tool (OWP-43, OWP-52). */
export function encodeRunEvents(page: RunPage, runId: string): readonly WireRunEvent[] {
  return page.events.map((event) => ({
    eventId: `evt_${page.key}_${event.sequence}`,
    runId,
    type: RUN_EVENT_TYPES[event.type],
    sequence: event.sequence,
    timestamp: new Date(event.atMs).toISOString(),
    ...('record' in event ? { nodeId: event.record } : {}),
    payload: payloadOf(event, page, runId),
  }))
}

function payloadOf(event: RunEvent, { principal }: RunPage, runId: string): JsonObject {
  switch (event.type) {
    case 'called': {
      const { argsHash, transport, traceId } = event.call
      const trace = traceId === '' ? {} : { traceId }
      return { ...namesOf(event), argsHash, principal, transport, ...sessionOf(event), ...trace }
    }
    case 'returned':
      return { ...namesOf(event), ...endOf(event), ...sessionOf(event) }
    case 'session.opened':
      return { sessionId: event.sessionId, toolId: event.toolId }
    case 'session.closed':
      return { sessionId: event.sessionId, toolId: event.toolId, outcome: event.outcome }
    case 'interrupt.requested':
      return encodeInterrupt(event, { runId, atMs: event.atMs })
    case 'node.suspended': {
      const { record, attempt, approval } = event
      return { nodeId: record, ...interruptNames(approval), key: interruptKey(runId, record, attempt) }
    }
    case 'approval.granted':
    case 'approval.rejected':
    case 'approval.overridden':
      return decisionOf(event)
    case 'interrupt.resolved':
      return resolutionOf(event, event.approval, runId)
    case 'consent.requested':
      return encodeConsent(event, runId)
    case 'consent.suspended': {
      const { record, challenge } = event
      return { nodeId: record, ...interruptNames(challenge), key: consentKey(runId, record, challenge) }
    }
    case 'consent.resolved':
      return resolutionOf(event, event.challenge, runId)
    case 'connector.authorized':
      return { provider: event.provider, credentialRef: event.credentialRef, scopes: [...event.scopes] }
    case 'connector.auth_expired':
      return { provider: event.provider }
  }
}

function namesOf({ call: { toolId, callId } }: EventOf<'called' | 'returned'>) {
  return { agentId: AGENT_ID, toolName: toolId, callId }
}

function sessionOf({ sessionId }: EventOf<'called' | 'returned'>) {
  return sessionId === undefined ? {} : { sessionId }
}

/** Error codes that openwop reports as a limit (OWP/C10). */
const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

/** Encodes the outcome as a code, never as the tool's text (OWP-53, OWP-54). */
function endOf({ code, durationMs }: EventOf<'returned'>): JsonObject {
  const took = durationMs === undefined ? {} : { durationMs }
  if (code === undefined) return { status: 'ok', ...took }
  return { status: statusOf(code), ...took, error: { code, message: `The call ended with ${code}.` } }
}

/** Status by error code (OWP-51, OWP-56, OWP-73). */
function statusOf(code: ErrorCode): 'error' | 'forbidden' | 'rate_limited' {
  if (LIMITED.has(code)) return 'rate_limited'
  return code === 'approval_rejected' || code === 'not_authorized' ? 'forbidden' : 'error'
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

/** Payload of a resolution; an interrupt that no approver resolved counts as rejected (OWP-71, OWP-72). */
function resolutionOf(
  event: EventOf<'interrupt.resolved' | 'consent.resolved'>,
  id: string,
  runId: string,
): JsonObject {
  const { record, action, reason, atMs } = event
  const at = new Date(atMs).toISOString()
  const by = 'by' in event ? event.by : undefined
  const word = action === 'accept' ? 'accept' : 'reject'
  return {
    runId,
    nodeId: record,
    ...interruptNames(id),
    resumeValue: defined({ action: word, decidedBy: by, decidedAt: at }),
    outcome: OUTCOMES[action],
    ...defined({ reason, resolvedAt: at, resolvedBy: by }),
  }
}

const OUTCOMES = {
  accept: 'granted',
  reject: 'rejected',
  cancel: 'cancelled',
} as const satisfies Record<InterruptResolved['action'], string>

function interruptNames(id: string) {
  return { interruptId: `int_${id}`, kind: 'approval' } as const
}

/** The key of a consent, which is deterministic, so that one challenge never prompts twice (OWP-65). */
function consentKey(runId: string, record: string, challenge: string): string {
  return `${runId}:${record}:${challenge}`
}

/**
 * A consent as an interrupt that only a user at the provider can resolve (OWP-45, OWP §7.3). The URL is this server's own page, so
 * no parameter of the authorization request is exposed (OWP-78).
 */
function encodeConsent(event: EventOf<'consent.requested'>, runId: string): JsonObject {
  const { record, challenge, call, provider, scopes, url, timeoutMs, atMs } = event
  return {
    runId,
    nodeId: record,
    ...interruptNames(challenge),
    key: consentKey(runId, record, challenge),
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

type EventOf<Type extends RunEvent['type']> = Extract<RunEvent, { readonly type: Type }>
