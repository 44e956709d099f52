import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import type { IncomingMessage as NodeRequest, ServerResponse as NodeResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, storeFault, ToolError } from '#kernel/base/errors'
import type { ClientInfo } from '#kernel/base/hooks'
import type { JsonValue } from '#kernel/base/json'
import { OutageLog } from '#kernel/base/logger'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import { TOOLSET_HEADER } from '#protocols/call-wire'
import type { HttpReply } from '#protocols/http-exchange'
import { ACTING_AS } from '#server/admin/access'
import { type BrowserSessions, callerForOperator, refuseRunAs } from '#server/console/sessions'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import type { SpanExporter } from '#server/telemetry/tracing'
import type { ServedCertificate } from './certificate.ts'
import {
  closeExchange,
  Exchange,
  type HttpServices,
  httpFault,
  messageReply,
  preflightReply,
  requestScope,
  statusOf,
} from './exchange.ts'
import { HostGuard, refuseForwarded } from './host-guard.ts'
import {
  createListener,
  type HttpListener,
  listenError,
  portOptions,
  reachableName,
  takePort,
} from './listener.ts'
import { IncomingMessage, ServerResponse } from './node-http.ts'
import { BodyBudget, type BodyShare, readFormBody, readJsonBody } from './read-body.ts'
import { allowedMethods, isWellEncoded, pathOf, Router, type ServerRoute } from './router.ts'

interface HttpTimeouts {
  /** For all headers of a request to arrive. */
  readonly headersMs: number
  /** For a whole request to arrive. */
  readonly requestMs: number
  /** For some more of a body to arrive. */
  readonly bodyLookMs: number
  /** For an idle connection. */
  readonly keepAliveMs: number
  /** For running requests to finish once the server closes. */
  readonly closeMs: number
}

export type PortSharing = 'first' | 'joining'

export interface HttpAppOptions {
  readonly routes: readonly ServerRoute[]
  readonly authenticator: Authenticator
  /** Present where browsers sign in. */
  readonly sessions?: Pick<BrowserSessions, 'present' | 'isOperator'>
  readonly settings: Settings['server']
  readonly log: ServerLog
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans?: SpanExporter | undefined
  /** Level of the one line per request; default `debug`. */
  readonly requestLogLevel?: 'debug' | 'info'
  /** Turns clients away by throwing a fault: allow-lists and rate limits go here (OTC-114). */
  readonly admit?: ((client: ClientInfo) => void) | undefined
  /** Whether requests that a proxy passed on are refused; asked with each request. Default: they are taken. */
  readonly refusesForwarded?: () => boolean
  /** The caller within a toolset; throws a fault where there is none of that name for it. Default: there are none. */
  readonly enter?: (principal: Principal, toolset: string) => Principal
  /** Hears of each request whose credential is missing or wrong, with the pattern of its route. */
  readonly onUnauthenticated?: (headers: RequestHeaders, route: string) => void
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor?: ((path: string) => string) | undefined
  readonly timeouts?: Partial<HttpTimeouts>
  /** What it is reached by https with; without one it speaks http. */
  readonly certificate?: ServedCertificate | undefined
  /** Whether other processes of this server take the same port; `first` = none has yet. Default alone. */
  readonly sharing?: PortSharing | undefined
  /** Bytes of request bodies in memory at once; default as many as come. */
  readonly maxBodyBytes?: number | undefined
}

export interface HttpApp {
  /** Answers one request that somebody else's listener took: both are Node's own, which a declaration for everybody cannot say. */
  handle(request: object, response: object): void
  /** Starts to listen; gives the URL. Rejects with a text that says what to do. */
  listen(): Promise<string>
  /** From now on each reply asks its client to open another connection for the next request. */
  retire(): void
  /** Stops listening, lets running requests finish within `closeMs`, then cuts what is left. */
  close(): Promise<void>
}

const TIMEOUTS: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  bodyLookMs: 5_000,
  keepAliveMs: 72_000,
  closeMs: 10_000,
}

/** Every protocol's routes on one port. Node speaks HTTP/1.1 and keeps connections; routing, bodies, refusals and replies are ours. */
export function createHttpApp(options: HttpAppOptions): HttpApp {
  const { settings, certificate } = options
  const { host, port } = settings
  const scheme = certificate === undefined ? 'http' : 'https'
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  let hostGuard = new HostGuard({ ...settings, scheme })
  let isClosing = false
  const services: HttpServices = {
    router: new Router(options.routes),
    get hostGuard() {
      return hostGuard
    },
    authenticator: options.authenticator,
    sessions: options.sessions,
    bodyLimitBytes: settings.bodyLimitBytes,
    bodies: new BodyBudget({
      most: options.maxBodyBytes ?? Number.POSITIVE_INFINITY,
      longestBody: settings.bodyLimitBytes,
      lookMs: timeouts.bodyLookMs,
      onRefused: (name) => options.metrics.limitRefused(name),
    }),
    log: options.log,
    outage: new OutageLog(options.log, options.clock),
    requestLogLevel: options.requestLogLevel ?? 'debug',
    metrics: options.metrics,
    clock: options.clock,
    spans: options.spans,
    enter: options.enter ?? noToolsets,
    onUnauthenticated: options.onUnauthenticated,
    admit: options.admit,
    refusesForwarded: options.refusesForwarded ?? (() => false),
    challengeFor: options.challengeFor,
    isClosing: () => isClosing,
  }
  const handle: HttpApp['handle'] = (request, response) => {
    if (!(request instanceof IncomingMessage && response instanceof ServerResponse))
      throw new TypeError('Expected the request and the response of node:http.')
    void serveRequest(services, request, response)
  }
  const servers: HttpListener[] = []
  const sockets = new Set<Socket>()
  /** One for all of them. */
  function forget(this: Socket): void {
    sockets.delete(this)
  }

  const listenOn = async (name: string, wantedPort: number): Promise<AddressInfo> => {
    const server = createListener({ timeouts, certificate }, handle)
    servers.push(server)
    server.maxConnections = settings.maxConnections
    // Of a connection by https both are told: what arrives, and what is in it once both ends have agreed.
    for (const event of ['connection', 'secureConnection'])
      server.on(event, (socket: Socket) => {
        sockets.add(socket)
        socket.on('close', forget)
      })
    server.listen({ host: name, port: wantedPort, ...portOptions(options.sharing !== undefined) })
    await once(server, 'listening')
    const bound = server.address()
    if (bound === null || typeof bound === 'string')
      throw new Error('A TCP listener has an address and a port.')
    return bound
  }

  /** Clients take either address of the name, so both are served where the machine has both. */
  const listenOnOthers = async ({ address, port: bound }: AddressInfo): Promise<void> => {
    const all = await lookup(host, { all: true }).catch(() => [])
    const others = all.filter((other) => other.address !== address)
    await Promise.allSettled(others.map((other) => listenOn(other.address, bound)))
  }

  const bind = async () => {
    if (options.sharing === 'first') await takePort(host, port)
    return await listenOn(host, port)
  }

  return {
    handle,
    async listen() {
      const bound = await bind().catch((cause: unknown) => {
        throw listenError(settings, cause)
      })
      if (host === 'localhost') await listenOnOthers(bound)
      hostGuard = new HostGuard({ ...settings, scheme, port: bound.port })
      return `${scheme}://${reachableName(host)}:${bound.port}`
    },
    retire() {
      isClosing = true
    },
    async close() {
      isClosing = true
      // Node counts a connection that has sent nothing yet as busy.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      const cut = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, timeouts.closeMs)
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
      clearTimeout(cut)
    },
  }
}

/** The way of a request: route, host guard, caller, body, handler, reply (rule 1, OTC/T-12). Never rejects. */
async function serveRequest(services: HttpServices, raw: NodeRequest, response: NodeResponse): Promise<void> {
  const path = pathOf(raw.url ?? '')
  const found = services.router.find(raw.method ?? '', path)
  const exchange = new Exchange(services, raw, response, path, found)
  const share = services.bodies.open()
  let reply: HttpReply
  try {
    checkClient(services, exchange)
    if (found === undefined) reply = await answerUnknown(services, exchange)
    else {
      const { route } = found
      const caller = findPrincipal(services, route, exchange)
      noteCaller(services, route, exchange, caller instanceof Promise ? await caller : caller)
      const body = readBody(services, route, exchange, share)
      exchange.body = body instanceof Promise ? await body : body
      reply = await handle(route, exchange)
    }
  } catch (error) {
    reply = refuse(services, found?.route ?? services.router.ownerOf(path), exchange, error)
  }
  share.free()
  send(services, exchange, reply)
}

function noteCaller(
  services: HttpServices,
  route: ServerRoute,
  exchange: Exchange,
  principal: Principal,
): void {
  if (route.authenticate === undefined) {
    exchange.principal = route.access === 'open' ? principal : withinAsked(services, exchange, principal)
    return
  }
  exchange.principal = principal
  // Operators have several credentials at hand, so the answer says which one was used.
  exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
}

/** The toolset of the path or of the header bounds whatever the request then asks for. */
function withinAsked(
  { enter }: HttpServices,
  { params, headers }: Exchange,
  principal: Principal,
): Principal {
  const named = headers[TOOLSET_HEADER]
  const toolset = params.toolset ?? named
  if (toolset === undefined) return principal
  if (named !== undefined && named !== toolset)
    throw httpFault(
      400,
      `The path names the toolset "${toolset}" and the header ${TOOLSET_HEADER} another one.`,
    )
  return enter(principal, toolset)
}

function noToolsets(): never {
  throw httpFault(404, 'There are no toolsets here.')
}

function readBody(
  services: HttpServices,
  route: ServerRoute,
  exchange: Exchange,
  share: BodyShare,
): MaybePromise<JsonValue | undefined> {
  if (route.body === 'never') return undefined
  const read = route.body === 'form' ? readFormBody : readJsonBody
  return read(exchange.raw, services.bodyLimitBytes, share.of(exchange.principal))
}

function handle(route: ServerRoute, exchange: Exchange): MaybePromise<HttpReply> {
  const { scope } = exchange
  return scope === undefined ? route.handle(exchange) : requestScope.run(scope, () => route.handle(exchange))
}

/** `Host`, `Origin` and proxies (rule 28), then whatever the operator adds (OTC-114). Throws a fault. */
function checkClient(services: HttpServices, { raw, route, headers }: Exchange): void {
  services.hostGuard.check(headers.host, headers.origin)
  if (services.refusesForwarded()) refuseForwarded(headers)
  services.admit?.({ address: raw.socket.remoteAddress ?? '', route, headers })
}

function findPrincipal(
  services: HttpServices,
  route: ServerRoute,
  { headers }: Exchange,
): MaybePromise<Principal> {
  const isOpen = route.authenticate === undefined && route.access === 'open'
  return isOpen ? ANONYMOUS : authenticate(services, headers, route)
}

type RouteAccess = Pick<ServerRoute, 'authenticate' | 'takesRunAs'>

/** Who sends these headers: a browser stands for the person who signed in with it. A route for operators authenticates on its own. */
function authenticate(
  services: HttpServices,
  headers: RequestHeaders,
  route: RouteAccess = {},
): MaybePromise<Principal> {
  const { authenticator, sessions } = services
  if (headers.cookie !== undefined && sessions !== undefined)
    return authenticateBrowser(services, sessions, headers, route)
  refuseRunAs(headers)
  return route.authenticate === undefined ? authenticator.authenticate(headers) : route.authenticate(headers)
}

async function authenticateBrowser(
  { authenticator }: HttpServices,
  sessions: Pick<BrowserSessions, 'present' | 'isOperator'>,
  headers: RequestHeaders,
  { authenticate: own, takesRunAs }: RouteAccess,
): Promise<Principal> {
  const isOperator = own === undefined && (await sessions.isOperator(headers))
  if (!isOperator || takesRunAs !== true) refuseRunAs(headers)
  if (isOperator) return await callerForOperator(authenticator, headers)
  const presented = await sessions.present({ headers })
  return await (own === undefined ? authenticator.authenticate(presented) : own(presented))
}

/** 404 for a path that is not ours, 308 for one with a trailing slash, 405 with `Allow`, and OPTIONS with CORS preflights (OTC/T-26). */
async function answerUnknown(services: HttpServices, exchange: Exchange): Promise<HttpReply> {
  const { router, hostGuard } = services
  const { method, path, headers } = exchange
  const here = router.at(path)
  const [first] = here
  const allow = allowedMethods(here)
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && hostGuard.corsOrigin(headers.origin) !== undefined)
    return preflightReply(allow)
  // Only a caller that the owner of the path knows learns what is here and what is not (OTS-48).
  if (router.ownerOf(path)?.access === 'authenticated') await authenticate(services, headers)
  const moved = first === undefined ? pathWithoutSlash(services, exchange) : undefined
  if (moved !== undefined) return { status: 308, headers: { location: moved }, body: undefined }
  if (first === undefined)
    throw isWellEncoded(path) ? httpFault(404, 'There is nothing at this path.') : malformedPath()
  if (method === 'OPTIONS') return { status: 204, headers: { allow: `${allow}, OPTIONS` }, body: undefined }
  const error = httpFault(405, `This path does not take ${method}; use ${allow}.`)
  const reply = refuse(services, first, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

/** Where a path with a slash too many leads; `undefined` when nothing is there either. */
function pathWithoutSlash({ router }: HttpServices, { path, raw }: Exchange): string | undefined {
  if (!path.endsWith('/')) return undefined
  const shorter = path.slice(0, -1)
  const query = (raw.url ?? '').slice(path.length)
  return router.at(shorter).length === 0 ? undefined : `${shorter}${query}`
}

function malformedPath(): ToolError {
  return httpFault(400, 'The path has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".')
}

/** A refusal in the route's own protocol, or a plain one. */
function refuse(
  services: HttpServices,
  route: ServerRoute | undefined,
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const shown = error instanceof ToolError ? error : faultOf(services, exchange, error)
  const status = statusOf(shown)
  if (shown.code === 'unauthenticated') {
    exchange.denial = shown.message
    services.onUnauthenticated?.(exchange.headers, exchange.route)
  }
  try {
    if (route !== undefined) return withRetryAfter(route.refuse(exchange, shown, status), shown)
  } catch (err) {
    unexpected(services, exchange, err)
  }
  return withRetryAfter(messageReply(status, shown.message), shown)
}

/** Whoever should come again is told when, also where the route has no word for it. */
function withRetryAfter(reply: HttpReply, { retryAfterMs }: ToolError): HttpReply {
  if (retryAfterMs === undefined || reply.headers['retry-after'] !== undefined) return reply
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(seconds) } }
}

/** A reply that cannot be written breaks the connection, so that its client does not wait for it. */
function send(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  try {
    closeExchange(services, exchange, reply)
  } catch (err) {
    unexpected(services, exchange, err)
    exchange.response.destroy()
  }
}

/** A store that cannot be used asks callers to come again; everything else is a fault of ours. */
function faultOf(services: HttpServices, exchange: Exchange, error: unknown): ToolError {
  const away = storeFault(error)
  if (away === undefined) return unexpected(services, exchange, error)
  const { route, trace } = exchange
  services.outage.report(
    { err: error, route, traceId: trace.traceId },
    'the store failed while answering a request',
  )
  return away
}

/** Logged with its stack; the caller learns nothing but what to do next (OTC/T-20, OTC/T-26). */
function unexpected(services: HttpServices, { route, trace }: Exchange, err: unknown): ToolError {
  services.log.error({ err, route, traceId: trace.traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}
