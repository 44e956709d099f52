import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticator } from '#auth/authenticator'
import type { JsonValue } from '#core/json'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { ClientInfo, Clock } from '#core/runtime'
import { CALL_HEADERS } from '#protocols/call-wire'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import {
  adoptTrace,
  formatTraceparent,
  openTrace,
  type SpanExporter,
  type TraceContext,
} from '#server/telemetry/tracing'
import type { HostGuard } from './host-guard.ts'
import type { BodyBudget } from './read-body.ts'
import { type FoundRoute, NO_PARAMETERS, type PathParameters, type Router } from './router.ts'
import { writeReply } from './write-reply.ts'

/** What every exchange of one server shares. */
export interface HttpServices {
  readonly router: Router
  readonly hostGuard: HostGuard
  readonly authenticator: Authenticator
  readonly bodyLimitBytes: number
  readonly bodies: BodyBudget
  readonly log: ServerLog
  readonly requestLogLevel: 'debug' | 'info'
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans: SpanExporter | undefined
  /** Throws a fault to turn a client away. */
  readonly admit: ((client: ClientInfo) => void) | undefined
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor: ((path: string, hasToken: boolean) => string) | undefined
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
    return formatTraceparent(this.trace)
  }

  adoptTrace(traceId: string): void {
    adoptTrace(this.trace, traceId)
  }

  get signal(): AbortSignal {
    this.#signal ??= endOf(this.response)
    return this.#signal
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
  for (const name of Object.keys(reply.headers)) headers.push(name, reply.headers[name] ?? '')
  if (reply.status === 401) setHeader(headers, 'www-authenticate', challengeOf(services, exchange, reply))
  headers.push('traceparent', formatTraceparent(trace), 'x-content-type-options', 'nosniff')
  if (services.hostGuard.hasCors)
    headers.push(...corsHeaders(services.hostGuard.corsOrigin(exchange.headers.origin)))
  writeReply(response, reply, headers, services.isClosing())
    ?.catch((err: unknown) =>
      services.log.error({ err, route, traceId: trace.traceId }, 'a streamed reply broke off'),
    )
    // Its head left before the server began to close.
    .finally(() => services.isClosing() && raw.socket.end())
  services.metrics.requestAnswered(route, exchange.method, reply.status)
  if (exchange.scope !== undefined) observe(services, exchange, exchange.scope, reply.status)
}

/** A 401 says how to get in, whatever the protocol (OWP-13, RFC 9110 §11.6.1). */
function challengeOf(services: HttpServices, { path, headers }: Exchange, reply: HttpReply): string {
  return (
    services.challengeFor?.(path, headers.authorization !== undefined) ??
    reply.headers['www-authenticate'] ??
    'Bearer realm="collet"'
  )
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

/** What a request's log line and span say about the call inside it. Ids, and nothing of the content. */
interface ObservedCall {
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  readonly callId: string
  readonly runId: string | undefined
  /** The caller's own trace id, when it differs from the request's. */
  readonly callerTraceId: string | undefined
}

interface RequestScope {
  readonly trace: Readonly<TraceContext>
  readonly startedMs: number
  call: ObservedCall | undefined
}

/** Entered only while spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()

/** One line per request, and one span per call. Patterns, codes and ids only, the ids to a bound: callers may have made them. */
function observe(services: HttpServices, exchange: Exchange, scope: RequestScope, status: number): void {
  const { method, route, trace } = exchange
  const { clock, log, requestLogLevel, spans } = services
  const { call, startedMs } = scope
  const durationMs = clock.monotonicMs() - startedMs
  log[requestLogLevel]({ method, route, status, durationMs, traceId: trace.traceId, ...call }, 'request')
  if (spans === undefined || !trace.isSampled || call === undefined) return
  spans.export({
    traceId: trace.traceId,
    spanId: trace.spanId,
    parentSpanId: trace.parentSpanId,
    name: `call ${call.tool}`,
    startedAtMs: clock.nowMs() - durationMs,
    durationMs,
    hasFailed: call.outcome !== 'ok',
    attributes: {
      'collet.tool': call.tool,
      'collet.outcome': call.outcome,
      'collet.replayed': call.isReplay,
      'collet.call_id': call.callId,
      ...(call.runId === undefined ? {} : { 'collet.run_id': call.runId }),
      ...(call.callerTraceId === undefined ? {} : { 'collet.trace_id': call.callerTraceId }),
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': status,
    },
  })
}
