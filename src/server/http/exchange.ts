import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import type { Clock } from '#kernel/base/clock'
import { type ErrorCode, type FaultOptions, fault, type ToolError } from '#kernel/base/errors'
import type { ClientInfo } from '#kernel/base/hooks'
import type { JsonValue } from '#kernel/base/json'
import type { OutageLog } from '#kernel/base/logger'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import { CALL_HEADERS } from '#protocols/call-wire'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type ReplyStream } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import type { BrowserSessions } from '#server/console/sessions'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import {
  adoptTrace,
  callAttributes,
  formatTraceparent,
  type ObservedCall,
  openTrace,
  type SpanExporter,
  type TraceContext,
} from '#server/telemetry/tracing'
import type { HostGuard } from './host-guard.ts'
import type { BodyBudget } from './read-body.ts'
import { type FoundRoute, NO_PARAMETERS, type PathParameters, type Router } from './router.ts'

/** What every exchange of one server shares. */
export interface HttpServices {
  readonly router: Router
  readonly hostGuard: HostGuard
  readonly authenticator: Authenticator
  /** Knows what the session of a browser stands for. */
  readonly sessions: Pick<BrowserSessions, 'present' | 'isOperator'> | undefined
  readonly bodyLimitBytes: number
  readonly bodies: BodyBudget
  readonly log: ServerLog
  /** For what every request meets while the store is away. */
  readonly outage: OutageLog
  readonly requestLogLevel: 'debug' | 'info'
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans: SpanExporter | undefined
  /** The caller within a toolset; throws a fault where there is none of that name for it. */
  readonly enter: (principal: Principal, toolset: string) => Principal
  /** Hears of each request whose credential is missing or wrong. */
  readonly onUnauthenticated: ((headers: RequestHeaders, route: string) => void) | undefined
  /** Throws a fault to turn a client away. */
  readonly admit: ((client: ClientInfo) => void) | undefined
  /** Whether requests that a proxy passed on are refused. */
  refusesForwarded(): boolean
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor: ((path: string) => string) | undefined
  /** Whether replies ask clients to close their connection. */
  isClosing(): boolean
}

const UNKNOWN = 'unknown'

/**
 * One request and its reply. Protocols see it as an `HttpRequest`; query and signals are made only for those that look.
 * Caller and body are filled in on the way.
 */
export class Exchange implements HttpRequest {
  readonly raw: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  readonly path: string
  readonly params: PathParameters
  readonly headers: HttpRequest['headers']
  /** The pattern of the route, or `unknown`: what logs and metrics say instead of the path. */
  readonly route: string
  readonly trace: TraceContext
  /** Present while a log line or a span wants to know about the call. */
  readonly scope: RequestScope | undefined
  principal: Principal = ANONYMOUS
  body: JsonValue | undefined = undefined
  /** Why the credential was refused; `undefined` unless it was. */
  denial: string | undefined
  #traceparent: string | undefined
  #query: URLSearchParams | undefined
  #signal: AbortSignal | undefined
  #left: AbortSignal | undefined

  constructor(
    { spans, log, requestLogLevel, clock }: HttpServices,
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
    this.trace = openTrace(this.headers.traceparent, spans !== undefined)
    const isObserved = (spans !== undefined && this.trace.isSampled) || log.isLevelEnabled(requestLogLevel)
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
    adoptTrace(this.trace, traceId)
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

/** Node joins repeated headers, all but `set-cookie`, which no request has a use for. */
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

/** Sends the reply with the server's own headers added, and notes it in metrics, log and trace. */
export function closeExchange(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  const { raw, response, route, trace } = exchange
  const headers: string[] = []
  for (const name in reply.headers) headers.push(name, reply.headers[name] ?? '')
  if (reply.cookies !== undefined) for (const cookie of reply.cookies) headers.push('set-cookie', cookie)
  if (reply.status === 401) setHeader(headers, 'www-authenticate', challengeOf(services, exchange, reply))
  headers.push('traceparent', exchange.traceparent, 'x-content-type-options', 'nosniff')
  if (services.hostGuard.hasCors)
    headers.push(...corsHeaders(services.hostGuard.corsOrigin(exchange.headers.origin)))
  const { socket } = raw
  const { traceId } = trace
  const end = (err: unknown): void => {
    if (err !== undefined) services.log.error({ err, route, traceId }, 'a streamed reply broke off')
    // Its head left before the server began to close.
    if (services.isClosing()) socket.end()
  }
  writeReply(response, reply, headers, services.isClosing())?.then(end, end)
  services.metrics.requestAnswered(route, exchange.method, reply.status)
  if (exchange.scope !== undefined) observe(services, exchange, exchange.scope, reply.status)
}

/** A 401 says how to get in, whatever the protocol (OWP-13, RFC 9110 §11.6.1). */
function challengeOf(services: HttpServices, { path, headers, denial }: Exchange, reply: HttpReply): string {
  const challenge =
    services.challengeFor?.(path) ?? reply.headers['www-authenticate'] ?? 'Bearer realm="collet"'
  const hasCredential = [headers.authorization, ...API_KEY_HEADERS.map((name) => headers[name])].some(
    (value) => value !== undefined,
  )
  if (!hasCredential) return challenge
  // RFC 6750 §3: a credential was sent and refused, and why. The grammar excludes quotes and backslashes.
  const reason = denial?.split(/(?<=\.) /, 1)[0]?.replaceAll(/[^\x20-\x7e]|["\\]/g, "'")
  const error = reason === undefined ? [] : [`error_description="${reason}"`]
  const parts = [challenge, 'error="invalid_token"', ...error].join(', ')
  return challenge.includes('=') ? parts : parts.replace(', ', ' ')
}

function setHeader(headers: string[], name: string, value: string): void {
  const at = headers.findIndex((text, index) => index % 2 === 0 && text === name)
  if (at === -1) headers.push(name, value)
  else headers[at + 1] = value
}

/** Headers of every protocol, and those that each adds. */
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

/** Headers for a server with configured origins; `origin` is the one of this request, if it is one of them. */
export function corsHeaders(origin: string | undefined): readonly string[] {
  if (origin === undefined) return ['vary', 'origin']
  return ['vary', 'origin', 'access-control-allow-origin', origin, 'access-control-expose-headers', READABLE]
}

/** The answer to a browser that asks before it calls. */
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

interface RequestScope {
  readonly trace: Readonly<TraceContext>
  readonly startedMs: number
  call: ObservedCall | undefined
}

/** Entered only while spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()

/** One line per request, and one span per call. Patterns, codes and ids only; spans also have the call id and the run, to a bound. */
function observe(services: HttpServices, exchange: Exchange, scope: RequestScope, status: number): void {
  const { method, route, trace } = exchange
  const { clock, log, requestLogLevel, spans } = services
  const { call, startedMs } = scope
  const durationMs = clock.monotonicMs() - startedMs
  const { callId: _callId, runId: _runId, tenant: _tenant, principal: _principal, ...logged } = call ?? {}
  log[requestLogLevel]({ method, route, status, durationMs, traceId: trace.traceId, ...logged }, 'request')
  if (spans === undefined || !trace.isSampled || call === undefined) return
  spans.export({
    traceId: trace.traceId,
    spanId: trace.spanId,
    parentSpanId: trace.parentSpanId,
    name: `execute_tool ${call.tool}`,
    startedAtMs: clock.nowMs() - durationMs,
    durationMs,
    hasFailed: call.outcome !== 'ok',
    attributes: {
      ...callAttributes(call),
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': status,
    },
  })
}

/** How much of an unwanted body we go on reading, so that its sender gets to see our answer. */
const LINGER_BYTES = 16 * 1_024 * 1_024
/** How long we wait for more of it; the time limit of the whole request still holds. */
const LINGER_IDLE_MS = 500
/** Up to here Node skips an unread body and keeps the connection. */
const SKIPPED_BYTES = 64 * 1_024

/**
 * Sends a reply. Gives the end of a stream; everything else has left.
 * @param headers names and values, one after the other, as Node takes them unsorted and unchanged
 * @param isLast whether the connection closes after it
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
  const lingers = hasUnwantedBody(req)
  if (lingers && !isLast) headers.push('connection', 'close')
  writeHead(response, status, headers)
  if (lingers) endAfterBody(response, body)
  else response.end(req.method === 'HEAD' ? undefined : body)
  return undefined
}

function writeHead(response: ServerResponse, status: number, headers: string[]): void {
  try {
    response.writeHead(status, headers)
  } catch {
    // Text no header can carry, such as an echoed call id: it goes percent-encoded, for the reply matters more.
    response.writeHead(status, headers.map(toHeaderText))
  }
}

function toHeaderText(text: string): string {
  return /^[\t\x20-\x7e]*$/.test(text) ? text : encodeURI(text.toWellFormed())
}

/** A body that was not read to its end and is not small. */
function hasUnwantedBody(request: IncomingMessage): boolean {
  if (request.complete || request.readableEnded) return false
  return (
    request.headers['transfer-encoding'] !== undefined ||
    Number(request.headers['content-length'] ?? 0) > SKIPPED_BYTES
  )
}

/**
 * The whole reply leaves at once, the connection closes later: closing with unread bytes resets it, and the
 * reset can overtake the reply.
 */
function endAfterBody(response: ServerResponse, body: string | Uint8Array | undefined): void {
  const { req } = response
  let left = LINGER_BYTES
  const end = (): void => {
    clearTimeout(timer)
    req.off('data', onData).off('end', end).off('close', end)
    response.end()
  }
  const onData = (chunk: Buffer): void => {
    left -= chunk.length
    if (left <= 0) end()
    else timer.refresh()
  }
  const timer = setTimeout(end, LINGER_IDLE_MS)
  if (body !== undefined && req.method !== 'HEAD') response.write(body)
  else response.flushHeaders()
  req.on('data', onData).on('end', end).on('close', end)
  req.resume()
}

/** A reader that takes nothing for this long is taken for gone. */
const STALLED_MS = 60_000

/**
 * Writes a stream's pieces as its reader takes them: the next one is asked for when the last has left, so a reader
 * that never reads costs one piece of memory, and each piece leaves by itself (OTS-51). Rejects with what the
 * stream threw.
 */
export async function writeStream(
  response: ServerResponse,
  stream: ReplyStream,
  stalledMs = STALLED_MS,
): Promise<void> {
  const ended = new AbortController()
  const leave = (): void => ended.abort()
  // `on` and not `once`, which keeps two objects more for each of thousands of readers; aborting twice is once.
  response.on('close', leave)
  try {
    if (response.req.method !== 'HEAD') {
      response.flushHeaders()
      for await (const piece of stream(ended.signal)) {
        if (response.destroyed) break
        await writePiece(response, piece, stalledMs)
      }
    }
    response.end()
  } catch (error) {
    // Half a stream must not look like a whole one.
    response.destroy()
    throw error
  } finally {
    response.off('close', leave)
    leave()
  }
}

/** Resolves when the piece has left, or its reader is gone. */
function writePiece(response: ServerResponse, piece: string, stalledMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), stalledMs)
    const done = (): void => {
      clearTimeout(timer)
      response.off('close', done)
      resolve()
    }
    response.once('close', done)
    response.write(piece, done)
  })
}

/**
 * The HTTP status the server suggests for a failure outside a call; the protocol may know better. Failures of
 * a tool are answers, and after a run has begun no reply is a 5xx (rule 11).
 */
const SUGGESTED_STATUS = {
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

/** A fault whose HTTP status is more exact than its code: 404, 405, 413. */
export function httpFault(status: number, message: string, options: FaultOptions = {}): ToolError {
  return Object.assign(fault('request_invalid', message, options), { status })
}

export function statusOf(error: ToolError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : SUGGESTED_STATUS[error.code]
}

/** How the server's own routes refuse. */
export function refuseWithMessage(_request: unknown, error: ToolError, status: number): HttpReply {
  return messageReply(status, error.message)
}

/** The plain `{ "message": … }` body of everything that belongs to no protocol (OTC/T-26). */
export function messageReply(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, { message }, headers)
}

export function jsonReply(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  }
}
