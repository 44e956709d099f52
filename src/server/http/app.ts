/**
 * The HTTP listener of a server: all routes on one port. Node parses HTTP/1.1 and manages connections; routing, authentication,
 * bodies, refusals and replies are done here, in the order of `serveRequest`. The composition root opens one for the server, one
 * for `/metrics` on a separate port, and one for the approval pages of `collet mcp`.
 * Invariant: every request gets exactly one reply, and no error leaves `serveRequest`.
 */

import { lookup } from 'node:dns/promises'
import type { IncomingMessage as NodeRequest, ServerResponse as NodeResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, storeFault, ToolError } from '#kernel/base/errors'
import type { Hooks } from '#kernel/base/hooks'
import { OutageLog } from '#kernel/base/logger'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import { TOOLSET_HEADER } from '#protocols/call-wire'
import type { HttpReply } from '#protocols/http-exchange'
import { ACTING_AS } from '#server/admin/access'
import {
  type BrowserSessions,
  callerForOperator,
  RUN_AS_HEADER,
  runAsRefusal,
} from '#server/console/sessions'
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
  bind,
  checkPortIsFree,
  createListener,
  type HttpListener,
  listenError,
  portOptions,
  reachableName,
} from './listener.ts'
import { IncomingMessage, ServerResponse } from './node-http.ts'
import { BodyBudget, BodyShare, readBody } from './read-body.ts'
import { allowedMethods, pathOf, percentDecoded, Router, type ServerRoute } from './router.ts'

const TIMEOUTS = {
  /** Time in which all headers of a request must arrive. */
  headersMs: 10_000,
  /** Time in which a whole request must arrive. */
  requestMs: 30_000,
  /** Interval between two checks that a body is still arriving. */
  bodyCheckMs: 5_000,
  /** Time after which an idle connection is closed. */
  keepAliveMs: 72_000,
  /** Time for running requests to finish once the server closes. */
  closeMs: 10_000,
}

export type PortSharing = 'first' | 'joining'

export interface HttpAppOptions {
  readonly routes: readonly ServerRoute[]
  readonly authenticator: Authenticator
  /** Finds the credential behind the session cookie of a browser; absent if browsers cannot sign in. */
  readonly sessions?: Pick<BrowserSessions, 'present' | 'isOperator'> | undefined
  readonly log: ServerLog
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans?: SpanExporter | undefined
  /** Binds a caller to a toolset; throws a fault if the toolset does not exist for it. Default: there are no toolsets. */
  readonly enter?: (principal: Principal, toolset: string) => Principal
  /** Called for each request whose credential is missing or wrong, with the pattern of its route. */
  readonly onUnauthenticated?: (headers: RequestHeaders, route: string) => void
  /** Returns why a client is refused: allow-lists and rate limits of the operator (OTC-114). */
  readonly admit?: Hooks['admit'] | undefined
  /** When requests that a proxy forwarded are refused; `open` = while callers need no credential. Default never. */
  readonly refusesForwarded?: 'always' | 'open' | undefined
  /** `WWW-Authenticate` of a 401 at this path, in place of the protocol's own. */
  readonly challengeFor?: ((path: string) => string) | undefined
  readonly settings: Settings['server']
  readonly timeouts?: Partial<typeof TIMEOUTS>
  /** Present if the listener uses TLS. */
  readonly certificate?: ServedCertificate | undefined
  /** Present if other processes of this server listen on the same port; `first` opens it. */
  readonly sharing?: PortSharing | undefined
  /** Bytes of request bodies in memory at once; default unlimited. */
  readonly maxBodyBytes?: number | undefined
}

export interface HttpApp {
  /**
   * Answers one request that another listener received. Both arguments are objects of `node:http`, whose types the declarations
   * of this package do not use.
   */
  handle(request: object, response: object): void
  /** Starts to listen and returns the URL. Rejects with an error that names the next step. */
  listen(): Promise<string>
  /** From now on each reply asks its client to open a new connection for the next request. */
  retire(): void
  /** Stops listening, lets running requests finish within `closeMs`, then closes all connections. */
  close(): Promise<void>
}

export function createHttpApp(options: HttpAppOptions): HttpApp {
  const { settings, certificate } = options
  const { host, port } = settings
  const scheme = certificate === undefined ? 'http' : 'https'
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  const services: HttpServices = {
    ...options,
    router: new Router(options.routes),
    hostGuard: new HostGuard({ ...settings, scheme }),
    bodies: new BodyBudget({
      maxBytes: options.maxBodyBytes ?? Number.POSITIVE_INFINITY,
      maxBodyBytes: settings.bodyLimitBytes,
      checkMs: timeouts.bodyCheckMs,
      onRefused: options.metrics.limitRefused,
    }),
    outage: new OutageLog(options.log, options.clock),
    isClosing: false,
  }
  const handle: HttpApp['handle'] = (request, response) => {
    if (!(request instanceof IncomingMessage && response instanceof ServerResponse))
      throw new TypeError('Expected the request and the response of node:http.')
    void serveRequest(services, request, response)
  }
  const servers: HttpListener[] = []
  const sockets = new Set<Socket>()
  // One function serves all sockets.
  function forget(this: Socket): void {
    sockets.delete(this)
  }

  const listenOn = async (name: string, wantedPort: number): Promise<AddressInfo> => {
    const server = createListener({ timeouts, certificate }, handle)
    servers.push(server)
    server.maxConnections = settings.maxConnections
    // A TLS connection has two sockets: the raw one, and after the handshake the secure one.
    for (const event of ['connection', 'secureConnection'])
      server.on(event, (socket: Socket) => {
        sockets.add(socket)
        socket.on('close', forget)
      })
    return await bind(server, { host: name, port: wantedPort, ...portOptions(options.sharing !== undefined) })
  }

  /** Clients may use either address of `localhost`, so both are served if the machine has both. */
  const listenOnOthers = async ({ address, port: bound }: AddressInfo): Promise<void> => {
    const all = await lookup(host, { all: true }).catch(() => [])
    const others = all.filter((other) => other.address !== address)
    await Promise.allSettled(others.map((other) => listenOn(other.address, bound)))
  }

  const listenOnPort = async (): Promise<AddressInfo> => {
    if (options.sharing === 'first') await checkPortIsFree(host, port)
    return await listenOn(host, port)
  }

  return {
    handle,
    async listen() {
      const bound = await listenOnPort().catch((cause: unknown) => {
        throw listenError(settings, cause)
      })
      if (host === 'localhost') await listenOnOthers(bound)
      services.hostGuard = new HostGuard({ ...settings, scheme, port: bound.port })
      return `${scheme}://${reachableName(host)}:${bound.port}`
    },
    retire() {
      services.isClosing = true
    },
    async close() {
      services.isClosing = true
      // Node counts a connection that has sent nothing yet as busy.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      const deadline = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, timeouts.closeMs)
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
      clearTimeout(deadline)
    },
  }
}

/** Route, host guard, caller, body, handler, reply: in this order (rule 1, OTC/T-12). Never rejects. */
async function serveRequest(services: HttpServices, raw: NodeRequest, response: NodeResponse): Promise<void> {
  const path = pathOf(raw.url ?? '')
  const found = services.router.find(raw.method ?? '', path)
  const exchange = new Exchange(services, raw, response, path, found)
  const share = new BodyShare(services.bodies)
  let reply: HttpReply
  try {
    checkClient(services, exchange)
    if (found === undefined) reply = await answerUnknown(services, exchange)
    else {
      const { route } = found
      const isOpen = route.authenticate === undefined && route.access === 'open'
      const caller = isOpen ? ANONYMOUS : authenticate(services, exchange.headers, route)
      setCaller(services, route, exchange, caller instanceof Promise ? await caller : caller)
      if (route.body !== 'never') {
        const body = readBody(
          raw,
          route.body,
          services.settings.bodyLimitBytes,
          share.forPrincipal(exchange.principal),
        )
        exchange.body = body instanceof Promise ? await body : body
      }
      reply = await handle(route, exchange)
    }
  } catch (error) {
    reply = refuse(services, found?.route ?? services.router.ownerOf(path), exchange, error)
  }
  share.free()
  try {
    closeExchange(services, exchange, reply)
  } catch (err) {
    unexpected(services, exchange, err)
    // The connection is closed, so that its client does not wait for a reply that cannot be written.
    response.destroy()
  }
}

function setCaller(
  services: HttpServices,
  route: ServerRoute,
  exchange: Exchange,
  principal: Principal,
): void {
  if (route.authenticate === undefined) {
    exchange.principal = route.access === 'open' ? principal : inToolset(services, exchange, principal)
    return
  }
  exchange.principal = principal
  // Operators have several credentials, so the reply names the one that was used.
  exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
}

/** Limits the caller to the toolset that the path or the header names. */
function inToolset({ enter }: HttpServices, { params, headers }: Exchange, principal: Principal): Principal {
  const named = headers[TOOLSET_HEADER]
  const toolset = params.toolset ?? named
  if (toolset === undefined) return principal
  if (named !== undefined && named !== toolset)
    throw httpFault(
      400,
      `The path names the toolset "${toolset}" and the header ${TOOLSET_HEADER} another one.`,
    )
  if (enter === undefined) throw httpFault(404, 'There are no toolsets here.')
  return enter(principal, toolset)
}

function handle(route: ServerRoute, exchange: Exchange): MaybePromise<HttpReply> {
  const { scope } = exchange
  return scope === undefined ? route.handle(exchange) : requestScope.run(scope, () => route.handle(exchange))
}

/** Checks `Host`, `Origin` and proxies (rule 28), then runs the operator's own checks (OTC-114). Throws a fault. */
function checkClient(services: HttpServices, { raw, route, headers }: Exchange): void {
  services.hostGuard.check(headers.host, headers.origin)
  const { refusesForwarded: refused, authenticator } = services
  if (refused === 'always' || (refused === 'open' && !authenticator.isConfigured)) refuseForwarded(headers)
  const refusal = services.admit?.({ address: raw.socket.remoteAddress ?? '', route, headers })
  if (refusal !== undefined) throw fault('not_authorized', refusal)
}

type RouteAccess = Pick<ServerRoute, 'authenticate' | 'takesRunAs'>

/** The principal of a request. A session cookie represents the credential of its user; routes for operators have their own check. */
function authenticate(
  services: HttpServices,
  headers: RequestHeaders,
  route: RouteAccess = {},
): MaybePromise<Principal> {
  const { authenticator, sessions } = services
  if (headers.cookie !== undefined && sessions !== undefined)
    return authenticateBrowser(services, sessions, headers, route)
  if (headers[RUN_AS_HEADER] !== undefined) throw runAsRefusal()
  return route.authenticate === undefined ? authenticator.authenticate(headers) : route.authenticate(headers)
}

async function authenticateBrowser(
  { authenticator }: HttpServices,
  sessions: NonNullable<HttpServices['sessions']>,
  headers: RequestHeaders,
  { authenticate: own, takesRunAs }: RouteAccess,
): Promise<Principal> {
  const isOperator = own === undefined && (await sessions.isOperator(headers))
  if (headers[RUN_AS_HEADER] !== undefined && !(isOperator && takesRunAs === true)) throw runAsRefusal()
  if (isOperator) return await callerForOperator(authenticator, headers)
  const presented = await sessions.present({ headers })
  return await (own === undefined ? authenticator.authenticate(presented) : own(presented))
}

/** Answers a request that matches no route: 404, 308 for a trailing slash, 405 with `Allow`, OPTIONS and CORS preflights (OTC/T-26). */
async function answerUnknown(services: HttpServices, exchange: Exchange): Promise<HttpReply> {
  const { router, hostGuard } = services
  const { method, path, headers } = exchange
  const routesHere = router.at(path)
  const [first] = routesHere
  const allow = allowedMethods(routesHere)
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && hostGuard.corsOrigin(headers.origin) !== undefined)
    return preflightReply(allow)
  // Only an authenticated caller learns which paths exist below a path of a protocol (OTS-48).
  if (router.ownerOf(path)?.access === 'authenticated') await authenticate(services, headers)
  const moved = first === undefined ? pathWithoutSlash(services, exchange) : undefined
  if (moved !== undefined) return { status: 308, headers: { location: moved }, body: undefined }
  if (first === undefined)
    throw percentDecoded(path) === undefined
      ? httpFault(400, 'The path has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".')
      : httpFault(404, 'There is nothing at this path.')
  if (method === 'OPTIONS') return { status: 204, headers: { allow: `${allow}, OPTIONS` }, body: undefined }
  const error = httpFault(405, `This path does not accept ${method}; use ${allow}.`)
  const reply = refuse(services, first, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

/** The target for a path with a trailing slash; `undefined` if no route is there either. */
function pathWithoutSlash({ router }: HttpServices, { path, raw }: Exchange): string | undefined {
  if (!path.endsWith('/')) return undefined
  const shorter = path.slice(0, -1)
  const query = (raw.url ?? '').slice(path.length)
  return router.at(shorter).length === 0 ? undefined : `${shorter}${query}`
}

/** Renders a refusal in the route's format, or as a plain message. */
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

/** Adds `Retry-After` to the reply if the error has a delay and the route does not set the header. */
function withRetryAfter(reply: HttpReply, { retryAfterMs }: ToolError): HttpReply {
  if (retryAfterMs === undefined || reply.headers['retry-after'] !== undefined) return reply
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(seconds) } }
}

/** A store failure asks the caller to retry; every other error is a fault of the server. */
function faultOf(services: HttpServices, exchange: Exchange, error: unknown): ToolError {
  const storeError = storeFault(error)
  if (storeError === undefined) return unexpected(services, exchange, error)
  const { route, traceId } = exchange
  services.outage.report({ err: error, route, traceId }, 'the store failed while answering a request')
  return storeError
}

/** Logs the error with its stack; the caller learns only what to do next (OTC/T-20, OTC/T-26). */
function unexpected(services: HttpServices, { route, traceId }: Exchange, err: unknown): ToolError {
  services.log.error({ err, route, traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}
