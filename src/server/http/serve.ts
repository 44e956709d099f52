import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import { fault, ToolError } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { HttpReply } from '#protocols/http-exchange'
import { ACTING_AS } from '#server/admin/access'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import { formatTraceparent, openTrace, type SpanExporter, type TraceContext } from '#server/telemetry/tracing'
import type { HostGuard } from './host-guard.ts'
import { type BodyBudget, readJsonBody } from './read-body.ts'
import {
  httpFault,
  messageReply,
  type PathParameters,
  pathOf,
  plainHeaders,
  RequestView,
  type RoutePath,
  type ServerRoute,
  statusOf,
} from './request.ts'
import { writeReply } from './write-reply.ts'

interface RouteEntry {
  readonly route: ServerRoute
  readonly path: RoutePath
}

const MALFORMED_PATH = 'The path has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".'

/** 404 for a path that is not ours, 405 with `Allow` for a method that is not, and CORS preflights (T-26). */
export function serveUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  void serveOutside(services, entries, exchange, () => answerUnknown(services, entries, exchange))
}

export function serveMalformedPath(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  void serveOutside(services, entries, exchange, async () => {
    await checkOwner(services, entries, exchange)
    throw httpFault(400, MALFORMED_PATH)
  })
}

async function serveOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  answer: () => Promise<HttpReply>,
): Promise<void> {
  let reply: HttpReply
  try {
    checkVisitor(services, exchange)
    reply = await answer()
  } catch (error) {
    reply = refuseOutside(services, entries, exchange, error)
  }
  sendReply(services, exchange, reply)
}

/** In the shape of the protocol that owns the path, or plain. */
function refuseOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const owner = findOwner(entries, exchange)
  if (owner !== undefined) return refuse(services, owner, {}, exchange, error)
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  return messageReply(statusOf(shown), shown.message)
}

async function answerUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<HttpReply> {
  const { raw, path } = exchange
  const here = entries.filter((entry) => entry.path.match(path) !== undefined)
  const [first] = here
  const allow = methodsOf(here)
  const isPreflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && services.frontDoor.corsOrigin(raw.headers.origin) !== undefined)
    return preflightReply(allow)
  await checkOwner(services, entries, exchange)
  if (first === undefined) throw httpFault(404, 'There is nothing at this path.')
  const error = httpFault(405, `This path does not take ${raw.method}; use ${allow}.`)
  const reply = refuse(services, first.route, {}, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

/** Throws unless the caller may know what is here and what is not (OTS-48). */
async function checkOwner(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<void> {
  if (findOwner(entries, exchange)?.access !== 'authenticated') return
  await services.authenticator.authenticate(plainHeaders(exchange.raw.headers))
}

function findOwner(entries: readonly RouteEntry[], { path }: Exchange): ServerRoute | undefined {
  return entries.find(({ route: { owns } }) => owns !== undefined && isBelow(owns, path))?.route
}

function isBelow(owned: string, path: string): boolean {
  return path === owned || path.startsWith(`${owned}/`)
}

function methodsOf(entries: readonly RouteEntry[]): string {
  const methods = entries.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
  return [...new Set(methods)].sort().join(', ')
}

/** The way of a request: host guard, caller, body, route, reply (rule 1, T-12). */
export async function serveRequest(
  services: HttpServices,
  route: ServerRoute,
  params: PathParameters,
  exchange: Exchange,
): Promise<void> {
  let reply: HttpReply
  const held = services.bodies.open()
  try {
    checkVisitor(services, exchange)
    const caller = findPrincipal(services, route, exchange.raw)
    const principal = caller instanceof Promise ? await caller : caller
    // Operators have several credentials at hand, so they are told which one spoke.
    if (route.authenticate !== undefined)
      exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
    const body =
      route.body === 'never'
        ? undefined
        : await readJsonBody(exchange.raw, services.bodyLimitBytes, held.of(principal))
    reply = await handle(route, exchange, viewOf(exchange, params, principal, body))
  } catch (error) {
    reply = refuse(services, route, params, exchange, error)
  }
  held.free()
  sendReply(services, exchange, reply)
}

/** A reply that cannot be written breaks the connection, so that nobody waits for it. */
function sendReply(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  try {
    closeExchange(services, exchange, reply)
  } catch (err) {
    unexpected(services, exchange, err)
    exchange.response.destroy()
  }
}

/** A refusal in the route's own protocol. */
function refuse(
  services: HttpServices,
  route: ServerRoute,
  params: PathParameters,
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  try {
    return route.refuse(viewOf(exchange, params, ANONYMOUS, undefined), shown, statusOf(shown))
  } catch (err) {
    unexpected(services, exchange, err)
    return messageReply(statusOf(shown), shown.message)
  }
}

/** Logged with its stack; the caller learns nothing but what to do next (T-20, T-26). */
function unexpected(services: HttpServices, exchange: Exchange, err: unknown): ToolError {
  const { route, trace } = exchange
  services.log.error({ err, route, traceId: trace.traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}

function findPrincipal(
  services: HttpServices,
  route: ServerRoute,
  raw: IncomingMessage,
): MaybePromise<Principal> {
  if (route.authenticate !== undefined) return route.authenticate(plainHeaders(raw.headers))
  if (route.access === 'open') return ANONYMOUS
  return services.authenticator.authenticate(plainHeaders(raw.headers))
}

function handle(route: ServerRoute, exchange: Exchange, view: RequestView): MaybePromise<HttpReply> {
  return exchange.scope === undefined
    ? route.handle(view)
    : requestScope.run(exchange.scope, () => route.handle(view))
}

function viewOf(
  exchange: Exchange,
  params: PathParameters,
  principal: Principal,
  body: RequestView['body'],
): RequestView {
  const { raw, response, path, trace } = exchange
  return new RequestView(raw, { response, path, params, trace, principal, body })
}

/** Who knocks, for allow-lists and rate limits (OTC-114). */
export interface ClientInfo {
  readonly address: string
  /** The route's pattern, or `unknown`. */
  readonly route: string
  readonly headers: RequestHeaders
}

/** What every exchange of one server shares. */
export interface HttpServices {
  readonly frontDoor: HostGuard
  readonly authenticator: Authenticator
  readonly bodyLimitBytes: number
  readonly bodies: BodyBudget
  readonly log: ServerLog
  readonly requestLogLevel: 'debug' | 'info'
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans: SpanExporter | undefined
  /** Throws a fault to turn a visitor away. */
  readonly admit: ((visitor: ClientInfo) => void) | undefined
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor: ((path: string, hasToken: boolean) => string) | undefined
  /** Whether replies ask clients to close their connection. */
  isClosing(): boolean
}

/** One request and what is known of it from the start. */
interface Exchange {
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
function checkVisitor(services: HttpServices, { raw, route }: Exchange): void {
  const { host, origin } = raw.headers
  services.frontDoor.check(host, origin)
  if (services.admit === undefined) return
  services.admit({ address: raw.socket.remoteAddress ?? '', route, headers: plainHeaders(raw.headers) })
}

/** Sends the reply, and tells metrics, log and trace. */
function closeExchange(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
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

/** Entered only while somebody listens: spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()

const READABLE =
  'collet-call-id, collet-content-trust, collet-error-code, collet-run, etag, openwop-idempotent-replay, oxp-version, retry-after, traceparent, www-authenticate, x-should-retry'
const SENDABLE =
  'authorization, collet-authorization, collet-run, collet-secret, collet-session, collet-user, content-type, idempotency-key, if-none-match, last-event-id, otc-api-key, oxp-api-key, oxp-version, traceparent, tracestate, x-api-key'

/** Headers for a server with configured origins; `origin` is the one of this request, if it is one of them. */
export function corsHeaders(origin: string | undefined): readonly string[] {
  if (origin === undefined) return ['vary', 'origin']
  return ['vary', 'origin', 'access-control-allow-origin', origin, 'access-control-expose-headers', READABLE]
}

/** The answer to a browser that asks before it calls. */
function preflightReply(allow: string): HttpReply {
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
