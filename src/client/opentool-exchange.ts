import { FAILURE_CODES, REFUSAL_CODES } from '#kernel/base/errors'
import { defined, isJsonObject, type JsonValue } from '#kernel/base/json'
import {
  CALL_ID_HEADER,
  callScopeHeaders,
  decodeHeaderId,
  encodeRequirements,
  IDEMPOTENCY_KEY_HEADER,
  isReplay,
  runOf,
} from '#protocols/call-wire'
import {
  type ExceptionName,
  NO_ACCESS,
  type ReadException,
  readAnswer,
  readStatus,
} from '#protocols/opentool/codec-client-answer'
import { serverBaseUrl } from '#protocols/opentool/codec-document'
import type { FunctionCall } from '#protocols/opentool/codec-to-json-schema'
import {
  type FailureClass,
  readRefusal,
  readToolError,
  type WireFailure,
} from '#protocols/otc/codec-client-reply'
import type { CallOptions } from './call.ts'
import { CallFailure, type CallFailureOptions, configFailure } from './failure.ts'
import {
  exchange,
  type HttpAnswer,
  type HttpRequest,
  joinSignals,
  NoAnswer,
  type NoAnswerReason,
} from './http.ts'
import type { ClientSettings } from './options.ts'
import { noAnswerFailure, sendWithRetries } from './retries.ts'

/**
 * Requests to an OpenTool server and their failures. `opentool.ts` uses it for sessions, calls and streams.
 * Invariant: every failure has a class of `CallFailure` and, if the specification names one, an `OpenToolException`
 * as its cause (OTS-64).
 */

export interface OpenToolCallOptions
  extends Pick<CallOptions, 'signal' | 'timeoutMs' | 'runId' | 'sessionId' | 'userId'> {
  /** Collet servers run a call with a known key only once; other servers ignore the key. */
  readonly idempotencyKey?: string | undefined
  /** Tokens by authorization requirement id. Only Collet servers read tokens, secrets and the user id. */
  readonly tokens?: Readonly<Record<string, string>> | undefined
  /** Secrets by secret id. */
  readonly secrets?: Readonly<Record<string, string>> | undefined
}

const HEADER_SAFE = /^[\x20-\x7e]*$/

/** Base address of the endpoints (OTS-04, OTS-60). */
export function endpointsOf({ server }: ClientSettings): string {
  return serverBaseUrl({ url: server.base }) ?? server.base
}

/** Sends `GET` to one endpoint. Reading changes nothing, so the request may be repeated. */
export async function getEndpoint(
  settings: ClientSettings,
  path: '/version' | '/load',
  signal: AbortSignal | undefined,
): Promise<HttpAnswer> {
  const request: HttpRequest = {
    method: 'GET',
    url: endpointsOf(settings) + path,
    headers: settings.credentials.bearer,
  }
  const rules = {
    settings,
    signal: joinSignals(settings.signal, signal),
    dedupes: true,
    progress: { resent: 0 },
  }
  try {
    return await sendWithRetries(request, rules)
  } catch (error) {
    if (error instanceof NoAnswer) throw noAnswer(error, `GET ${request.url}`, {})
    throw error
  }
}

/** The body of a successful `GET`; any other answer is a failure. */
export function bodyOf({ status, body }: HttpAnswer): JsonValue | undefined {
  const refusal = readStatus(status, body)
  if (refusal === undefined) return body
  throw failureOf(refusal, { status })
}

/**
 * Sends `POST /call` only once, because after a lost answer it is not known whether the call ran (OTS-62, OTS-66). The result
 * includes the call id under which a Collet server recorded it.
 */
export async function postCall(settings: ClientSettings, call: FunctionCall, options: OpenToolCallOptions) {
  const request = callRequest(settings, '/call', call, options)
  const facts = factsOf(call, options.idempotencyKey)
  const limits = {
    ...settings,
    signal: joinSignals(settings.signal, options.signal),
    timeoutMs: options.timeoutMs ?? settings.timeoutMs,
  }
  let answer: HttpAnswer
  try {
    answer = await exchange(request, limits)
  } catch (error) {
    if (error instanceof NoAnswer)
      throw noAnswer(error, `The call to ${request.url}`, { ...facts, isCall: true })
    throw error
  }
  const { status, body, headers } = answer
  const read = readAnswer(status, body, call.id)
  const sentId = headers.get(CALL_ID_HEADER)
  const callId = sentId === null ? options.idempotencyKey : decodeHeaderId(sentId)
  if (read.ok) return { result: read.result, callId, replayed: isReplay(headers), ...runOf(headers) }
  throw failureOf(read.exception, { ...factsOf(call, callId), ...runOf(headers), status })
}

/** Members that every failure of a call includes. */
export function factsOf({ name }: FunctionCall, callId: string | undefined): CallFailureOptions {
  return defined({ toolId: name, callId })
}

/** The request for `/call` and `/streamCall` (OTS-62). */
export function callRequest(
  settings: ClientSettings,
  path: '/call' | '/streamCall',
  call: FunctionCall,
  options: OpenToolCallOptions,
): HttpRequest & { readonly body: string } {
  const { id, name, arguments: params } = call
  const extra = callHeaders(settings, options)
  return {
    method: 'POST',
    url: endpointsOf(settings) + path,
    headers: async () => ({ ...(await settings.credentials.bearer()), ...extra }),
    body: JSON.stringify({ jsonrpc: '2.0', method: name, params, id }),
  }
}

function callHeaders(
  { server }: ClientSettings,
  { idempotencyKey, runId, sessionId, userId, tokens, secrets }: OpenToolCallOptions,
): Readonly<Record<string, string>> {
  const hasCredentials = Object.keys({ ...tokens, ...secrets }).length > 0
  if (hasCredentials && !server.mayCarryCredentials) {
    throw configFailure(
      `Tokens and secrets are not sent to ${server.origin} over plain http; use its https address.`,
    )
  }
  if (idempotencyKey !== undefined && !HEADER_SAFE.test(idempotencyKey)) {
    throw configFailure('With OpenTool a call id is sent in a header: use printable ASCII only.')
  }
  return {
    ...(idempotencyKey === undefined ? {} : { [IDEMPOTENCY_KEY_HEADER]: idempotencyKey }),
    ...callScopeHeaders({ runId, sessionId }),
    ...encodeRequirements({ userId, tokens, secrets }),
  }
}

const FAILURES: ReadonlySet<string> = new Set(FAILURE_CODES)
const REFUSALS: ReadonlySet<string> = new Set(REFUSAL_CODES)

const UNKNOWN_OUTCOME = 'It is not known whether the call ran; check before you repeat it.'

/** The failure for an answer without a result. */
export function failureOf(read: ReadException, facts: CallFailureOptions): CallFailure {
  const wire = toWireFailure(read, facts.status ?? 0)
  const message = wire.class === 'transport' ? `${wire.message} ${UNKNOWN_OUTCOME}` : wire.message
  const cause = new OpenToolException(read)
  return new CallFailure(wire.class, message, {
    ...facts,
    ...wire,
    ...defined({ code: codeOf(read) }),
    cause,
  })
}

/** The failure for a missing answer. It has an exception name only if the specification defines one (OTS-64). */
export function noAnswer(
  error: NoAnswer,
  action: string,
  facts: CallFailureOptions & { readonly isCall?: boolean },
): CallFailure {
  const { isCall = false, ...options } = facts
  const { message } = noAnswerFailure(error, action, isCall ? { advice: UNKNOWN_OUTCOME } : {})
  const read = EXCEPTION_OF[error.reason]
  const cause = read === undefined ? error.cause : new OpenToolException(read(message), error.cause ?? error)
  return new CallFailure('transport', message, { ...options, cause })
}

const EXCEPTION_OF = {
  network: () => NO_ACCESS,
  timeout: () => NO_ACCESS,
  aborted: undefined,
  too_large: callException,
  too_much: callException,
  redirect: callException,
} satisfies Record<NoAnswerReason, ((message: string) => ReadException) | undefined>

function callException(message: string): ReadException {
  return { name: 'OpenToolServerCallException', code: 500, message }
}

/** The stable code that Collet servers send next to the number. */
function codeOf({ data }: ReadException): string | undefined {
  const code = isJsonObject(data) ? data.code : undefined
  return typeof code === 'string' ? code : undefined
}

function toWireFailure(read: ReadException, status: number): WireFailure {
  const { message, data } = read
  const code = codeOf(read)
  if (isJsonObject(data) && code !== undefined) {
    const body = { ...data, message }
    if (FAILURES.has(code)) return readToolError(body)
    if (REFUSALS.has(code)) return refusalOf(code, readRefusal(code === 'input_invalid' ? 422 : 400, body))
  }
  return { class: classOf(read, status), message, canRetry: false }
}

/** Nothing ran. A server that states a retry time expects the same call again. */
function refusalOf(code: string, wire: WireFailure): WireFailure {
  if (code === 'approval_required') return { ...wire, class: 'approval_required' }
  return wire.retryAfterMs === undefined ? wire : { ...wire, canRetry: true }
}

/** The class for servers that send only a number (OTS-40, OTS-41). */
function classOf({ name, code }: ReadException, status: number): FailureClass {
  switch (name) {
    case 'OpenToolServerUnauthorizedException':
      return 'unauthenticated'
    case 'OpenToolServerNoAccessException':
      return 'server'
    case 'ResponseNullException':
    case 'ErrorNullException':
      return 'transport'
    case 'OpenToolServerCallException':
      if (status >= 500) return 'transport'
      if (code === -32_602 || (code === 400 && status < 300)) return 'validation'
      if (code === 405 || status >= 400 || (code <= -32_600 && code >= -32_700)) return 'server'
      return code === status ? 'transport' : 'tool'
  }
}

/** A failure as the OpenTool client specification names it; the cause of a `CallFailure`. */
export class OpenToolException extends Error {
  override readonly name: ExceptionName
  readonly code: number
  readonly data: JsonValue | undefined

  constructor({ name, code, message, data }: ReadException, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = name
    this.code = code
    this.data = data
  }

  toJson(): { readonly code: number; readonly message: string } {
    return { code: this.code, message: this.message }
  }
}

/** The specification's name, code and text of a failure; `undefined` if it has none, as for an abort. */
export function exceptionOf(failure: unknown): OpenToolException | undefined {
  return failure instanceof CallFailure && failure.cause instanceof OpenToolException
    ? failure.cause
    : undefined
}
