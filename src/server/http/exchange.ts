/**
 * One HTTP request and its reply. `app.ts` opens an `Exchange` for each request, fills in caller and body, and closes it with the
 * reply of a route. Protocols see it as an `HttpRequest`. This module also has the replies that several routes share.
 * Invariant: each reply carries the trace of its request, and is counted exactly once.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { type ErrorCode, type FaultOptions, fault, type ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { OutageLog } from '#kernel/base/logger'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import { CALL_HEADERS } from '#protocols/call-wire'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import {
  continueTrace,
  formatTraceparent,
  isTraceId,
  type NamedTrace,
  openTrace,
  readTraceExtras,
  type TraceContext,
  type TraceExtras,
} from '#protocols/trace-context'
import { type RequestScope, reportRequest } from '#server/telemetry/tracing'
import type { HttpAppOptions } from './app.ts'
import type { HostGuard } from './host-guard.ts'
import type { BodyBudget } from './read-body.ts'
import { type FoundRoute, NO_PARAMETERS, type PathParameters, type Router } from './router.ts'
import { endAfterBody, writeStream } from './slow-replies.ts'

/** The services that all exchanges of one listener share. */
export interface HttpServices extends HttpAppOptions {
  readonly router: Router
  readonly bodies: BodyBudget
  /** Logs store failures, once per outage. */
  readonly outage: OutageLog
  /** The host guard, which is replaced once the port is known. */
  hostGuard: HostGuard
  /** Whether replies ask clients to close their connection. */
  isClosing: boolean
}

/** The scope of the current request; entered only if spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()

const UNKNOWN = 'unknown'

/** One request and its reply. Query and signals are created only if a route reads them. */
export class Exchange implements HttpRequest {
  readonly raw: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  readonly path: string
  readonly params: PathParameters
  readonly headers: HttpRequest['headers']
  /** The pattern of the route, or `unknown`; logs and metrics use it instead of the path. */
  readonly route: string
  readonly trace: TraceContext
  /** Present if a log line or a span is written for this request. */
  readonly scope: RequestScope | undefined
  principal: Principal = ANONYMOUS
  body: JsonValue | undefined = undefined
  /** Why the credential was refused; `undefined` unless it was. */
  denial: string | undefined
  #traceparent: string | undefined
  /** Where the trace was read: the headers, or members of the message. */
  #named: NamedTrace
  #query: URLSearchParams | undefined
  #signal: AbortSignal | undefined
  #left: AbortSignal | undefined

  constructor(
    { spans, log, clock }: HttpServices,
    raw: IncomingMessage,
    response: ServerResponse,
    path: string,
    found: FoundRoute | undefined,
  ) {
    this.raw = raw
    this.response = response
    this.method = raw.method ?? ''
    this.path = path
    this.params = found?.params ?? NO_PARAMETERS
    this.headers = plainHeaders(raw.headers)
    this.route = found?.route.path ?? UNKNOWN
    this.#named = this.headers
    this.trace = openTrace(this.headers.traceparent, spans !== undefined)
    const isObserved = (spans !== undefined && this.trace.isSampled) || log.writes.debug
    this.scope = isObserved
      ? { trace: this.trace, startedMs: clock.monotonicMs(), call: undefined }
      : undefined
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams((this.raw.url ?? '').slice(this.path.length))
    return this.#query
  }

  get traceId(): string {
    return this.trace.traceId
  }

  get traceparent(): string {
    this.#traceparent ??= formatTraceparent(this.trace)
    return this.#traceparent
  }

  adoptTrace(traceId: string): void {
    // A `traceparent` header takes precedence.
    if (this.trace.parentSpanId !== undefined || !isTraceId(traceId)) return
    this.trace.traceId = traceId
    this.#traceparent = undefined
  }

  get traceExtras(): TraceExtras | undefined {
    return readTraceExtras(this.#named, this.trace)
  }

  continueTrace(named: NamedTrace): void {
    if (!continueTrace(this.trace, named)) return
    this.#named = named
    this.#traceparent = undefined
  }

  get signal(): AbortSignal {
    this.#signal ??= endOf(this.response)
    return this.#signal
  }

  get isGone(): boolean {
    return this.response.destroyed && !this.response.writableFinished
  }

  get left(): AbortSignal {
    this.#left ??= leavingOf(this.response)
    return this.#left
  }
}

/** Node joins repeated headers except `set-cookie`, which requests do not use. */
function plainHeaders(headers: IncomingHttpHeaders): HttpRequest['headers'] {
  if (isPlain(headers)) return headers
  const { 'set-cookie': _unused, ...rest } = headers
  return isPlain(rest) ? rest : {}
}

function isPlain(headers: IncomingHttpHeaders): headers is Record<string, string | undefined> {
  return headers['set-cookie'] === undefined
}

function endOf(response: ServerResponse): AbortSignal {
  if (response.closed) return AbortSignal.abort()
  const end = new AbortController()
  response.once('close', () => end.abort())
  return end.signal
}

function leavingOf(response: ServerResponse): AbortSignal {
  const leaving = new AbortController()
  if (response.destroyed) leaving.abort()
  response.once('close', () => {
    if (!response.writableFinished) leaving.abort()
  })
  return leaving.signal
}

/** Sends the reply with the headers of the server, and records it in metrics, log and trace. */
export function closeExchange(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  const { raw, response, route, trace } = exchange
  const headers: string[] = []
  const own = reply.status === 401 ? withChallenge(services, exchange, reply) : reply.headers
  for (const name in own) headers.push(name, own[name] ?? '')
  if (reply.cookies !== undefined) for (const cookie of reply.cookies) headers.push('set-cookie', cookie)
  headers.push('traceparent', exchange.traceparent, 'x-content-type-options', 'nosniff')
  if (services.hostGuard.hasCors)
    headers.push(...corsHeaders(services.hostGuard.corsOrigin(exchange.headers.origin)))
  const { socket } = raw
  const { traceId } = trace
  const end = (err: unknown): void => {
    if (err !== undefined) services.log.error({ err, route, traceId }, 'a streamed reply failed')
    // The head of a stream may have been sent before the server began to close.
    if (services.isClosing) socket.end()
  }
  writeReply(response, reply, headers, services.isClosing)?.then(end, end)
  services.metrics.requestAnswered(route, exchange.method, reply.status)
  if (exchange.scope !== undefined) reportRequest(services, exchange, exchange.scope, reply.status)
}

/** Every 401 states how to authenticate, in every protocol (OWP-13, RFC 9110 §11.6.1). */
function withChallenge(
  services: HttpServices,
  { path, headers, denial }: Exchange,
  reply: HttpReply,
): HttpReply['headers'] {
  const challenge =
    services.challengeFor?.(path) ?? reply.headers['www-authenticate'] ?? 'Bearer realm="collet"'
  const hasCredential = [headers.authorization, ...API_KEY_HEADERS.map((name) => headers[name])].some(
    (value) => value !== undefined,
  )
  if (!hasCredential) return { ...reply.headers, 'www-authenticate': challenge }
  // RFC 6750 §3: the refusal of a credential names its reason. The grammar excludes quotes and backslashes.
  const reason = denial?.split(/(?<=\.) /, 1)[0]?.replaceAll(/[^\x20-\x7e]|["\\]/g, "'")
  const error = reason === undefined ? [] : [`error_description="${reason}"`]
  const parts = [challenge, 'error="invalid_token"', ...error].join(', ')
  return { ...reply.headers, 'www-authenticate': challenge.includes('=') ? parts : parts.replace(', ', ' ') }
}

/** Response headers that scripts may read: those of every protocol, and those that individual protocols add. */
const READABLE = headerList(
  CALL_HEADERS.read,
  ['etag', 'retry-after', 'traceparent', 'www-authenticate'],
  ...Object.values(PROTOCOLS).map(({ headers }) => headers.read),
)
const SENDABLE = headerList(
  CALL_HEADERS.sent,
  ['authorization', ...API_KEY_HEADERS, 'content-type', 'if-none-match', 'traceparent', 'tracestate'],
  ...Object.values(PROTOCOLS).map(({ headers }) => headers.sent),
)

function headerList(...names: readonly (readonly string[])[]): string {
  return names.flat().toSorted().join(', ')
}

/** Headers of a server with configured origins; `origin` is that of the request if it is configured. */
export function corsHeaders(origin: string | undefined): readonly string[] {
  if (origin === undefined) return ['vary', 'origin']
  return ['vary', 'origin', 'access-control-allow-origin', origin, 'access-control-expose-headers', READABLE]
}

/** The answer to a CORS preflight. */
export function preflightReply(allow: string): HttpReply {
  return {
    status: 204,
    headers: {
      'access-control-allow-methods': allow,
      'access-control-allow-headers': SENDABLE,
      'access-control-max-age': '600',
    },
    body: undefined,
  }
}

/** Up to this size Node skips an unread body and keeps the connection. */
const SKIPPED_BYTES = 64 * 1_024

/**
 * Sends a reply. Returns a promise that ends with the stream, or `undefined` if the reply is not a stream.
 * @param headers names and values in turn; Node sends such a list in this order and without changes
 * @param isLast whether the connection closes after the reply
 */
function writeReply(
  response: ServerResponse,
  { status, body }: HttpReply,
  headers: string[],
  isLast: boolean,
): Promise<void> | undefined {
  const { req } = response
  if (isLast) headers.push('connection', 'close')
  if (typeof body === 'function') {
    writeHead(response, status, headers)
    return writeStream(response, body)
  }
  if (status !== 204 && status !== 304)
    headers.push('content-length', String(body === undefined ? 0 : Buffer.byteLength(body)))
  const hasUnreadBody = hasUnwantedBody(req)
  if (hasUnreadBody && !isLast) headers.push('connection', 'close')
  writeHead(response, status, headers)
  if (hasUnreadBody) endAfterBody(response, body)
  else response.end(req.method === 'HEAD' ? undefined : body)
  return undefined
}

function writeHead(response: ServerResponse, status: number, headers: string[]): void {
  try {
    response.writeHead(status, headers)
  } catch {
    // An echoed call id may contain text that no header can carry; the text is percent-encoded, so that the reply still arrives.
    response.writeHead(status, headers.map(toHeaderText))
  }
}

function toHeaderText(text: string): string {
  return /^[\t\x20-\x7e]*$/.test(text) ? text : encodeURI(text.toWellFormed())
}

/** Whether the request has a body that was not read to its end and is not small. */
function hasUnwantedBody(request: IncomingMessage): boolean {
  if (request.complete || request.readableEnded) return false
  return (
    request.headers['transfer-encoding'] !== undefined ||
    Number(request.headers['content-length'] ?? 0) > SKIPPED_BYTES
  )
}

/**
 * Default HTTP status of a failure; a protocol may use another. Failures of a tool are answers with
 * status 200, and after a run has begun no reply is a 5xx (rule 11).
 */
const DEFAULT_STATUS = {
  unauthenticated: 401,
  request_invalid: 400,
  version_unsupported: 400,
  key_conflict: 400,
  call_not_found: 404,
  tool_not_found: 404,
  session_not_found: 404,
  run_not_found: 404,
  not_authorized: 403,
  input_invalid: 422,
  requirement_missing: 400,
  approval_required: 400,
  approval_rejected: 400,
  rate_limited: 429,
  budget_exceeded: 429,
  overloaded: 503,
  not_ready: 503,
  // An unexpected fault before the run (OTC/T-26, OTC-64).
  internal: 400,
  tool_failed: 200,
  tool_timeout: 200,
  cancelled: 200,
  upstream_failed: 200,
  egress_denied: 200,
  output_invalid: 200,
  result_too_large: 200,
  ambiguous: 200,
  outcome_unknown: 200,
  result_expired: 200,
  session_lost: 200,
  workflow_diverged: 200,
} as const satisfies Record<ErrorCode, number>

/** A fault with its own HTTP status, which is more precise than that of its code: 404, 405, 413. */
export function httpFault(status: number, message: string, options: FaultOptions = {}): ToolError {
  return Object.assign(fault('request_invalid', message, options), { status })
}

export function statusOf(error: ToolError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : DEFAULT_STATUS[error.code]
}

/** Members of a route that needs no credential, reads no body and belongs to no protocol. */
export const OPEN_ROUTE = { access: 'open', body: 'never', refuse: refuseWithMessage } as const

/** `refuse` of routes that belong to no protocol. */
export function refuseWithMessage(_request: unknown, error: ToolError, status: number): HttpReply {
  return messageReply(status, error.message)
}

/** The `{ "message": … }` body of replies that belong to no protocol (OTC/T-26). */
export function messageReply(status: number, message: string, headers?: HttpReply['headers']): HttpReply {
  return jsonReply(status, { message }, headers)
}

export function jsonReply(status: number, body: object, headers?: HttpReply['headers']): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  }
}
