import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import type { Clock } from '#core/runtime'
import type { HttpReply } from '#protocols/http-exchange'
import { corsHeaders } from './cors.ts'
import type { FrontDoor } from './front-door.ts'
import type { HeldBytes } from './held-bytes.ts'
import type { ServerLog } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { RequestScope } from './request-scope.ts'
import { plainHeaders } from './request-view.ts'
import { pathOf } from './route-path.ts'
import { formatTraceparent, openTrace, type TraceContext } from './trace-context.ts'
import type { SpanExporter } from './tracing.ts'
import { writeReply } from './write-reply.ts'

/** Who knocks, for allow-lists and rate limits (OTC-114). */
export interface Visitor {
  readonly address: string
  /** The route's pattern, or `unknown`. */
  readonly route: string
  readonly headers: RequestHeaders
}

/** What every exchange of one server shares. */
export interface HttpServices {
  readonly frontDoor: FrontDoor
  readonly authenticator: Authenticator
  readonly bodyLimitBytes: number
  readonly bodies: HeldBytes
  readonly log: ServerLog
  readonly requestLogLevel: 'debug' | 'info'
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans: SpanExporter | undefined
  /** Throws a fault to turn a visitor away. */
  readonly admit: ((visitor: Visitor) => void) | undefined
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor: ((path: string, hasToken: boolean) => string) | undefined
  /** Whether replies ask clients to close their connection. */
  isClosing(): boolean
}

/** One request and what is known of it from the start. */
export interface Exchange {
  readonly raw: IncomingMessage
  readonly response: ServerResponse
  readonly path: string
  /** The pattern of the route, or `unknown`: what logs and metrics say instead of the path. */
  readonly route: string
  readonly trace: TraceContext
  /** Present while a log line or a span wants to know about the call. */
  readonly scope: RequestScope | undefined
}

export function openExchange(
  services: HttpServices,
  route: string,
  raw: IncomingMessage,
  response: ServerResponse,
): Exchange {
  const { spans, log, requestLogLevel, clock } = services
  const { traceparent } = plainHeaders(raw.headers)
  const trace = openTrace(traceparent, spans !== undefined)
  const isObserved = (spans !== undefined && trace.isSampled) || log.isLevelEnabled(requestLogLevel)
  return {
    raw,
    response,
    path: pathOf(raw.url ?? ''),
    route,
    trace,
    scope: isObserved ? { trace, startedMs: clock.monotonicMs(), call: undefined } : undefined,
  }
}

/** `Host` and `Origin` (rule 28), then whatever the operator adds. Throws a fault. */
export function checkVisitor(services: HttpServices, { raw, route }: Exchange): void {
  const { host, origin } = raw.headers
  services.frontDoor.check(host, origin)
  if (services.admit === undefined) return
  services.admit({ address: raw.socket.remoteAddress ?? '', route, headers: plainHeaders(raw.headers) })
}

/** Sends the reply, and tells metrics, log and trace. */
export function closeExchange(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  const { raw, response, route, trace } = exchange
  const sent = reply.status === 401 ? challenged(services, exchange, reply) : reply
  const added = ['traceparent', formatTraceparent(trace), 'x-content-type-options', 'nosniff']
  if (services.frontDoor.hasCors)
    added.push(...corsHeaders(services.frontDoor.corsOrigin(raw.headers.origin)))
  if (services.isClosing()) added.push('connection', 'close')
  writeReply(response, sent, added)
    ?.catch((err: unknown) =>
      services.log.error({ err, route, traceId: trace.traceId }, 'a streamed reply broke off'),
    )
    // Its head left before anybody knew that we close.
    .finally(() => services.isClosing() && raw.socket.end())
  services.metrics.requestAnswered(route, raw.method ?? '', reply.status)
  if (exchange.scope !== undefined) observe(services, exchange, exchange.scope, reply.status)
}

/** A 401 says how to get in, whatever the protocol (OWP-13, RFC 9110 §11.6.1). */
function challenged(services: HttpServices, { path, raw }: Exchange, reply: HttpReply): HttpReply {
  const hasToken = raw.headers.authorization !== undefined
  const challenge =
    services.challengeFor?.(path, hasToken) ?? reply.headers['www-authenticate'] ?? 'Bearer realm="collet"'
  return { ...reply, headers: { ...reply.headers, 'www-authenticate': challenge } }
}

/** One line per request, and one span per call. Patterns, codes and ids only, the ids to a bound: callers may have made them. */
function observe(services: HttpServices, exchange: Exchange, scope: RequestScope, status: number): void {
  const { raw, route, trace } = exchange
  const { clock, log, requestLogLevel, spans } = services
  const { call, startedMs } = scope
  const method = raw.method ?? ''
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
