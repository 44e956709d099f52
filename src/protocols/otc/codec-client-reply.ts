import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { ServerWire } from './codec-client.ts'

/*
 * Reads the answers of OTC servers in every published dialect: values, refusals, tool errors and challenges. The client package
 * and the OTC source use it.
 * Invariant: every answer becomes a value, one of the failure classes or `unreadable`; bodies that are not JSON are never shown.
 */

type CallReading =
  | {
      readonly kind: 'value'
      readonly value: JsonValue
      readonly callId?: string
      readonly durationMs?: number
    }
  | { readonly kind: 'failure'; readonly failure: WireFailure }
  /** The status is 2xx, but the body is not a call response in any dialect. */
  | { readonly kind: 'unreadable' }

export function readCallReply(
  status: number,
  body: JsonValue | undefined,
  wire: Pick<ServerWire, 'dialect'> & RefusalHints,
): CallReading {
  if (status < 200 || status > 299) return { kind: 'failure', failure: readRefusal(status, body, wire) }
  const reply = isJsonObject(body) ? replyIn(body) : undefined
  if (reply === undefined) return { kind: 'unreadable' }
  const inner = 'value' in reply || 'error' in reply || !isJsonObject(reply.output) ? reply : reply.output
  const meta = readMeta(reply)
  const error = isJsonObject(inner.error) ? inner.error : undefined
  // In the uts dialect the value itself may be a challenge (OTC/C-27).
  const own = wire.dialect === 'uts' && isJsonObject(inner.value) ? inner.value : {}
  const authorization = inner.requires_authorization ?? (own.auth_required === true ? own : undefined)
  if (typeof authorization === 'object' && authorization !== null) {
    const missing = { authorization: readChallenges(authorization) }
    return { kind: 'failure', failure: { ...readToolError(error ?? {}, missing), ...meta } }
  }
  if (reply.success === true) return { kind: 'value', value: inner.value ?? inner.artifact ?? null, ...meta }
  if (reply.success !== false && error === undefined) return { kind: 'unreadable' }
  return { kind: 'failure', failure: { ...readToolError(error ?? {}), ...meta } }
}

/**
 * True if a 404 or 405 means that the path does not exist. A 404 that names a tool comes from a server that has the path but not the
 * tool (OTC/C-01).
 */
export function isRouteMiss(status: number, body: JsonValue | undefined, toolId: string): boolean {
  if (status === 405) return true
  if (status !== 404) return false
  const message = readMessage(body) ?? ''
  const [base = toolId] = toolId.split('@')
  return !/\btool\b/i.test(message) && !message.includes(base)
}

/** The reply: `result`, otherwise `response`, otherwise the body itself if it has `success` (OTC/C-03). */
function replyIn(body: JsonObject): JsonObject | undefined {
  if (isJsonObject(body.result)) return body.result
  if (isJsonObject(body.response)) return body.response
  return 'success' in body ? body : undefined
}

/** Reads the call id, from `call_id` or else `execution_id`, and the duration (OTC/C-04). */
function readMeta(reply: JsonObject): { readonly callId?: string; readonly durationMs?: number } {
  const callId = reply.call_id ?? reply.execution_id
  return {
    ...(typeof callId === 'string' ? { callId } : {}),
    ...(typeof reply.duration === 'number' ? { durationMs: reply.duration } : {}),
  }
}

/** Why a call returned no value; each class has its own next step for the caller (OTC §3.2 item 4). */
export const FAILURE_CLASSES = [
  /** The tool ran and failed. */
  'tool',
  /** The input does not match the tool's schema; nothing ran. */
  'validation',
  /** The server refused the call; nothing ran. */
  'server',
  /** The server does not accept the API key or token. */
  'unauthenticated',
  /** The user has to authorize the tool first: see `challenges`. */
  'authorization_required',
  /** An approver has to approve the call first: see `challenges`. */
  'approval_required',
  /** A secret or the user id is missing: see `missing`. */
  'requirements',
  /** The client is set up or used wrongly; nothing was sent. */
  'config',
  /** No usable answer: the call may or may not have run. */
  'transport',
] as const
export type FailureClass = (typeof FAILURE_CLASSES)[number]

/** A URL that a person has to open before the call can run. */
export interface RemoteChallenge {
  readonly id?: string
  /** Absolute `http` or `https` address to show to the user. */
  readonly url: string
  readonly checkUrl?: string
  /** The provider that the challenge is for, if the server names it. */
  readonly provider?: string
  readonly scopes?: readonly string[]
}

export interface RemoteMissing {
  readonly authorization?: readonly RemoteChallenge[]
  readonly approval?: readonly RemoteChallenge[]
  readonly secrets?: readonly string[]
  readonly userId?: true
}

/** A failure that a server reports, with camel-case members. */
export interface WireFailure {
  readonly class: FailureClass
  readonly message: string
  readonly developerMessage?: string
  readonly canRetry: boolean
  readonly retryAfterMs?: number
  readonly additionalPromptContent?: string
  readonly parameterErrors?: Readonly<Record<string, string>>
  readonly missing?: RemoteMissing
  readonly callId?: string
  readonly durationMs?: number
}

interface RefusalHints {
  /** `Collet-Error-Code`, which only this package's server sends. */
  readonly errorCode?: string | null
}

/** Reads an answer that is not 2xx. Bodies that are not JSON are never used: a proxy or another site may have written them. */
export function readRefusal(
  status: number,
  body: JsonValue | undefined,
  hints: RefusalHints = {},
): WireFailure {
  const members = isJsonObject(body) ? body : {}
  const missing = readMissing(members.missing_requirements, members.challenges)
  const kind =
    missing === undefined || status === 401 ? classOfStatus(status, hints) : classOfMissing(missing)
  return {
    ...readErrorMembers(members, readMessage(body) ?? MESSAGES[kind](status)),
    class: kind,
    ...(missing === undefined ? {} : { missing }),
    ...(typeof members.call_id === 'string' ? { callId: members.call_id } : {}),
  }
}

/** A tool's own error, from `error` of a 200 (OTC-84); missing requirements inside it take precedence (OTC/C-27). */
export function readToolError(error: JsonObject, outside?: RemoteMissing): WireFailure {
  const missing = outside ?? readMissing(error.missing_requirements, error.challenges)
  const kind = missing === undefined ? 'tool' : classOfMissing(missing)
  return {
    ...readErrorMembers(error, readMessage(error) ?? MESSAGES[kind](200)),
    class: kind,
    ...(missing === undefined ? {} : { missing }),
  }
}

/** Reads `message`, otherwise `detail`, otherwise `error` (OTC/C-23). */
function readMessage(body: JsonValue | undefined): string | undefined {
  if (!isJsonObject(body)) return undefined
  return sentence(body.message) ?? sentence(body.detail) ?? sentence(body.error)
}

/** Maximum number of challenges per answer, so that polling them stays cheap. */
const MAX_CHALLENGES = 20

/** Reads challenges in any of their spellings; addresses that are not http(s) are never shown (OTC-76, OTC/T-30). */
function readChallenges(value: JsonValue | undefined, subjects?: JsonValue): readonly RemoteChallenge[] {
  const entries = Array.isArray(value) ? value.slice(0, MAX_CHALLENGES) : [value]
  return entries.flatMap((entry) => {
    if (!isJsonObject(entry)) return []
    const url = webAddress(entry.url ?? entry.authorization_url ?? entry.auth_url)
    if (url === undefined) return []
    const named = entry.id ?? entry.authorization_id ?? entry.auth_id
    const id = typeof named === 'string' ? named : undefined
    return [{ ...defined({ id, url, checkUrl: webAddress(entry.check_url) }), ...subjectOf(id, subjects) }]
  })
}

/** Looks up the provider and scopes of a challenge in the separate map. */
function subjectOf(
  id: string | undefined,
  subjects: JsonValue | undefined,
): Pick<RemoteChallenge, 'provider' | 'scopes'> {
  if (id === undefined || !isJsonObject(subjects) || !Object.hasOwn(subjects, id)) return {}
  const subject = subjects[id]
  if (!isJsonObject(subject) || typeof subject.provider !== 'string') return {}
  const scopes = Array.isArray(subject.scopes) ? subject.scopes : []
  return {
    provider: subject.provider,
    scopes: scopes.filter((scope): scope is string => typeof scope === 'string'),
  }
}

function readMissing(
  value: JsonValue | undefined,
  subjects: JsonValue | undefined,
): RemoteMissing | undefined {
  if (!isJsonObject(value)) return undefined
  const { authorization, approval, secrets } = value
  return {
    ...(isPresent(authorization) ? { authorization: readChallenges(authorization, subjects) } : {}),
    ...(isPresent(approval) ? { approval: readChallenges(approval) } : {}),
    ...(isPresent(secrets) ? { secrets: secretIds(secrets) } : {}),
    ...(isPresent(value.user_id) ? { userId: true } : {}),
  }
}

function classOfMissing(missing: RemoteMissing): FailureClass {
  if (missing.authorization !== undefined) return 'authorization_required'
  return missing.approval === undefined ? 'requirements' : 'approval_required'
}

function classOfStatus(status: number, { errorCode }: RefusalHints): FailureClass {
  if (status === 401) return 'unauthenticated'
  if (status === 422) return 'validation'
  // The standard has no status for a required approval, and without an approval URL there is no `missing_requirements` either.
  if (status === 400 && errorCode === 'approval_required') return 'approval_required'
  return status >= 500 || status < 400 ? 'transport' : 'server'
}

const MESSAGES = {
  tool: () => 'The tool failed and returned no reason.',
  validation: () => 'The input does not match what the tool expects.',
  server: (status) => `The server refused the call with status ${status} and returned no reason.`,
  unauthenticated: () => 'The server did not accept the credentials; check the API key or token.',
  authorization_required: () => 'The tool needs an authorization that has not been given yet.',
  approval_required: () => 'The call needs an approval that has not been given yet.',
  requirements: () => 'The call lacks a secret or a user id that the tool needs.',
  config: () => 'The client is not set up for this call.',
  transport: (status) => `The server answered with status ${status} and returned no reason.`,
} satisfies Record<FailureClass, (status: number) => string>

function readErrorMembers(members: JsonObject, message: string): Omit<WireFailure, 'class'> {
  const { developer_message: forDeveloper, additional_prompt_content: prompt, retry_after_ms: wait } = members
  return {
    message,
    canRetry: members.can_retry === true,
    ...(typeof forDeveloper === 'string' ? { developerMessage: forDeveloper } : {}),
    ...(typeof prompt === 'string' && prompt !== '' ? { additionalPromptContent: prompt } : {}),
    ...(typeof wait === 'number' && wait >= 0 ? { retryAfterMs: wait } : {}),
    ...(isJsonObject(members.parameter_errors)
      ? { parameterErrors: stringMembers(members.parameter_errors) }
      : {}),
  }
}

/** Converts other values to JSON text, because the schema does not say that they are strings (OTC/C-30). */
function stringMembers(value: JsonObject): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === 'string' ? member : JSON.stringify(member),
    ]),
  )
}

/** Reads a string, an object with a message, or FastAPI's list of strings or `{msg}` objects. */
function sentence(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value
  if (isJsonObject(value)) return sentence(value.message ?? value.msg)
  if (!Array.isArray(value)) return undefined
  const parts = value.flatMap((item: JsonValue) => sentence(item) ?? [])
  return parts.length === 0 ? undefined : parts.join('; ')
}

function secretIds(value: JsonValue): readonly string[] {
  const entries: readonly JsonValue[] = Array.isArray(value) ? value : []
  const ids = entries.map((entry) => (isJsonObject(entry) ? entry.id : entry))
  return ids.filter((id) => typeof id === 'string')
}

function isPresent(value: JsonValue | undefined): value is JsonValue {
  return value !== undefined && value !== null && value !== false
}

function webAddress(value: JsonValue | undefined): string | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined
  const { protocol, href } = new URL(value)
  return protocol === 'https:' || protocol === 'http:' ? href : undefined
}
