import type { JsonObject, JsonValue } from '#core/json'
import {
  CALL_ID_HEADER,
  callPlaceHeaders,
  encodeRequirements,
  IDEMPOTENCY_KEY_HEADER,
  runOf,
} from '#protocols/call-headers'
import { readAnswer, readStatus } from '#protocols/opentool/codec-client-answer'
import type { FunctionCall } from '#protocols/opentool/codec-convert-to-json'
import { serverBaseUrl } from '#protocols/opentool/codec-document'
import { type CallFailureOptions, configFailure } from './call-failure.ts'
import type { ClientSettings } from './client-options.ts'
import { exchange, type HttpAnswer, type HttpSending, NoAnswer } from './http-exchange.ts'
import { failureOf, noAnswer } from './opentool-failure.ts'
import { sendWithRetries } from './send-with-retries.ts'
import { joinSignals } from './wait.ts'

export interface OpenToolCallOptions {
  /** Stops waiting. The server may still finish the call. */
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
  /** Servers of this package run a call with a known key once; others ignore it. */
  readonly idempotencyKey?: string | undefined
  /** The run to belong to, on servers of this package. */
  readonly runId?: string | undefined
  /** The session whose state to use. */
  readonly sessionId?: string | undefined
  /** Whom the call is for. Read by servers of this package, like the next two. */
  readonly userId?: string | undefined
  /** By authorization requirement id. */
  readonly tokens?: Readonly<Record<string, string>> | undefined
  /** By secret id. */
  readonly secrets?: Readonly<Record<string, string>> | undefined
}

/** A result and the id under which a server of this package keeps it. */
export interface CalledFunction {
  readonly result: JsonObject
  readonly callId: string | undefined
  readonly runId?: string
}

const HEADER_SAFE = /^[\x20-\x7e]*$/

/** Where the endpoints are (OTS-04, OTS-60). */
export function endpointsOf({ server }: ClientSettings): string {
  return serverBaseUrl({ url: server.base }) ?? server.base
}

/** `GET` of one endpoint; reading again changes nothing, so it may be repeated. */
export async function getEndpoint(
  settings: ClientSettings,
  path: '/version' | '/load',
  signal: AbortSignal | undefined,
): Promise<HttpAnswer> {
  const sending: HttpSending = {
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
    return await sendWithRetries(sending, rules)
  } catch (error) {
    if (error instanceof NoAnswer) throw noAnswer(error, `GET ${sending.url}`, {})
    throw error
  }
}

/** The body of a successful answer to `GET`; anything else is a failure. */
export function bodyOf({ status, body }: HttpAnswer): JsonValue | undefined {
  const refusal = readStatus(status, body)
  if (refusal === undefined) return body
  throw failureOf(refusal, { status })
}

/** `POST /call`, once: nobody can know whether a lost call ran (OTS-62, OTS-66). */
export async function postCall(
  settings: ClientSettings,
  call: FunctionCall,
  options: OpenToolCallOptions,
): Promise<CalledFunction> {
  const sending = callSending(settings, '/call', call, options)
  const facts = factsOf(call, options.idempotencyKey)
  const limits = {
    ...settings,
    signal: joinSignals(settings.signal, options.signal),
    timeoutMs: options.timeoutMs ?? settings.timeoutMs,
  }
  let answer: HttpAnswer
  try {
    answer = await exchange(sending, limits)
  } catch (error) {
    if (error instanceof NoAnswer)
      throw noAnswer(error, `The call to ${sending.url}`, { ...facts, isCall: true })
    throw error
  }
  const { status, body, headers } = answer
  const read = readAnswer(status, body, call.id)
  const callId = decoded(headers.get(CALL_ID_HEADER)) ?? options.idempotencyKey
  if (read.ok) return { result: read.result, callId, ...runOf(headers) }
  throw failureOf(read.exception, { ...factsOf(call, callId), ...runOf(headers), status })
}

/** What every failure of a call says about it. */
export function factsOf({ name }: FunctionCall, callId: string | undefined): CallFailureOptions {
  return { toolId: name, ...(callId === undefined ? {} : { callId }) }
}

/** The request of `/call` and `/streamCall` (OTS-62). */
export function callSending(
  settings: ClientSettings,
  path: '/call' | '/streamCall',
  call: FunctionCall,
  options: OpenToolCallOptions,
): HttpSending & { readonly body: string } {
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
    throw configFailure('On OpenTool a call id travels in a header: use printable ASCII only.')
  }
  return {
    ...(idempotencyKey === undefined ? {} : { [IDEMPOTENCY_KEY_HEADER]: idempotencyKey }),
    ...callPlaceHeaders({ runId, sessionId }),
    ...encodeRequirements({ userId, tokens, secrets }),
  }
}

function decoded(callId: string | null): string | undefined {
  if (callId === null) return undefined
  try {
    return decodeURIComponent(callId)
  } catch {
    return callId
  }
}
