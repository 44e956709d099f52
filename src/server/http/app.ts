import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Authenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { fault, StoreError, ToolError } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { ClientInfo, Clock } from '#core/runtime'
import type { HttpReply } from '#protocols/http-exchange'
import { ACTING_AS } from '#server/admin/access'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import type { SpanExporter } from '#server/telemetry/tracing'
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
import { HostGuard } from './host-guard.ts'
import { BodyBudget, type BodyShare, readJsonBody } from './read-body.ts'
import { allowedMethods, isWellEncoded, pathOf, Router, type ServerRoute } from './router.ts'

export interface HttpAppOptions {
  readonly routes: readonly ServerRoute[]
  readonly authenticator: Authenticator
  readonly settings: Settings['server']
  readonly log: ServerLog
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans?: SpanExporter | undefined
  /** Level of the one line per request; default `debug`. */
  readonly requestLogLevel?: 'debug' | 'info'
  /** Turns clients away by throwing a fault: allow-lists and rate limits go here (OTC-114). */
  readonly admit?: ((client: ClientInfo) => void) | undefined
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor?: ((path: string, hasToken: boolean) => string) | undefined
  readonly timeouts?: Partial<HttpTimeouts>
  /** Whether other processes of this server take the same port; `first` = none has yet. Default alone. */
  readonly sharing?: PortSharing | undefined
  /** Bytes of request bodies in memory at once; default as many as come. */
  readonly mostBodyBytes?: number | undefined
}

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

export interface HttpApp {
  /** Starts to listen; gives the URL. Rejects with a text that says what to do. */
  listen(): Promise<string>
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
  const { settings } = options
  const { host, port } = settings
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  let hostGuard = new HostGuard(settings)
  let isClosing = false
  const services: HttpServices = {
    router: new Router(options.routes),
    get hostGuard() {
      return hostGuard
    },
    authenticator: options.authenticator,
    bodyLimitBytes: settings.bodyLimitBytes,
    bodies: new BodyBudget({
      most: options.mostBodyBytes ?? Number.POSITIVE_INFINITY,
      longestBody: settings.bodyLimitBytes,
      lookMs: timeouts.bodyLookMs,
      onRefused: (name) => options.metrics.limitRefused(name),
    }),
    log: options.log,
    requestLogLevel: options.requestLogLevel ?? 'debug',
    metrics: options.metrics,
    clock: options.clock,
    spans: options.spans,
    admit: options.admit,
    challengeFor: options.challengeFor,
    isClosing: () => isClosing,
  }
  const servers: Server[] = []
  const sockets = new Set<Socket>()

  const listenOn = async (name: string, wantedPort: number): Promise<AddressInfo> => {
    const server = createListener(services, timeouts)
    servers.push(server)
    server.maxConnections = settings.maxConnections
    server.on('connection', (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    server.listen({ host: name, port: wantedPort, ...portOptions(options.sharing) })
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

  return {
    async listen() {
      const bound = await takePort(options.sharing, host, port)
        .then(() => listenOn(host, port))
        .catch((cause: unknown) => {
          throw listenError(settings, cause)
        })
      if (host === 'localhost') await listenOnOthers(bound)
      hostGuard = new HostGuard({ ...settings, port: bound.port })
      return `http://${reachableName(host)}:${bound.port}`
    },
    async close() {
      isClosing = true
      // Node counts a connection that has sent nothing yet as busy.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      const cut = setTimeout(() => {
        for (const server of servers) server.closeAllConnections()
      }, timeouts.closeMs)
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
      clearTimeout(cut)
    },
  }
}

/** Where each process can have a listener of its own for one port; elsewhere the first process hands connections out. */
const CAN_REUSE_PORTS: ReadonlySet<string> = new Set(['linux', 'freebsd', 'sunos', 'aix'])

/**
 * The system spreads connections over the listeners. A worker that dies takes only its own connections with it, at once; one that was
 * handed to it by another process would hang.
 */
function portOptions(sharing: PortSharing | undefined): { readonly reusePort?: true } {
  return sharing !== undefined && CAN_REUSE_PORTS.has(process.platform) ? { reusePort: true } : {}
}

/** A port that another server shares with its workers can be taken too: the first worker looks whether it is free. */
async function takePort(sharing: PortSharing | undefined, host: string, port: number): Promise<void> {
  if (sharing !== 'first' || port === 0) return
  const probe = createServer()
  probe.listen({ host, port, exclusive: true })
  await once(probe, 'listening')
  await new Promise((resolve) => probe.close(resolve))
}

function createListener(services: HttpServices, timeouts: HttpTimeouts): Server {
  const server = createServer(
    {
      requestTimeout: timeouts.requestMs,
      headersTimeout: timeouts.headersMs,
      keepAliveTimeout: timeouts.keepAliveMs,
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs),
      // A second Host or Authorization must not hide behind the first.
      joinDuplicateHeaders: true,
      // The host guard says what is missing.
      requireHostHeader: false,
    },
    (request, response) => void serveRequest(services, request, response),
  )
  return server.on('clientError', refuseBrokenRequest)
}

/** A name under which a listener on a wildcard address can be reached from here. */
function reachableName(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

interface BrokenRequest {
  readonly status: number
  readonly message: string
}

const MALFORMED: BrokenRequest = { status: 400, message: 'The request is not well-formed HTTP/1.1.' }

const KNOWN: ReadonlyMap<string, BrokenRequest> = new Map([
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    { status: 408, message: 'The request did not arrive in time; send it again.' },
  ],
  ['HPE_HEADER_OVERFLOW', { status: 431, message: 'The request headers are too large.' }],
  [
    'HPE_INVALID_EOF_STATE',
    { status: 400, message: 'The request ended too early: the body is shorter than its Content-Length.' },
  ],
])

const waiting = new WeakSet<Socket>()

/**
 * Answers bytes that are no HTTP request. While an earlier request of the same connection still runs, the
 * refusal waits for that reply: a client would take it for the answer to its call.
 */
function refuseBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const running = runningResponseOf(socket)
  if (running === undefined) {
    socket.end(render(KNOWN.get(error.code ?? '') ?? MALFORMED), () => socket.destroy())
    return
  }
  // Node reports the same broken stream with every further chunk.
  if (waiting.has(socket)) return
  waiting.add(socket)
  running.once('close', () => {
    waiting.delete(socket)
    refuseBrokenRequest(error, socket)
  })
}

/** The response a complete request is still waiting for. Node keeps it on the socket, under this name. */
function runningResponseOf(socket: Socket): ServerResponse | undefined {
  const response: unknown = Reflect.get(socket, '_httpMessage')
  if (!(response instanceof ServerResponse) || response.writableFinished) return undefined
  return response.req.complete || response.headersSent ? response : undefined
}

function render({ status, message }: BrokenRequest): string {
  const body = JSON.stringify({ message })
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    '',
    body,
  ].join('\r\n')
}

type Explain = (host: string, port: number) => string

const EXPLANATIONS: ReadonlyMap<unknown, Explain> = new Map<unknown, Explain>([
  [
    'EADDRINUSE',
    (host, port) =>
      `Port ${port} on ${host} is already in use. Stop the process that uses it, or choose another port with --port.`,
  ],
  [
    'EACCES',
    (_host, port) => `Port ${port} may not be used by this user. Choose a port of 1024 or more with --port.`,
  ],
  ['EADDRNOTAVAIL', notHere],
  ['ENOTFOUND', notHere],
])

/** Why a server cannot listen, and what to do about it. */
export function listenError({ host, port }: Settings['server'], cause: unknown): Error {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  const explanation = EXPLANATIONS.get(code) ?? (() => `Cannot listen on ${host}, port ${port}.`)
  return new Error(explanation(host, port), { cause })
}

function notHere(host: string): string {
  return `"${host}" is not an address of this machine. Give one with --host, such as 127.0.0.1.`
}

/** The way of a request: route, host guard, caller, body, handler, reply (rule 1, OTC/T-12). Never rejects. */
async function serveRequest(
  services: HttpServices,
  raw: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = pathOf(raw.url ?? '')
  const found = services.router.find(raw.method ?? '', path)
  const exchange = new Exchange(services, raw, response, path, found)
  const share = services.bodies.open()
  let reply: HttpReply
  try {
    checkClient(services, exchange)
    reply =
      found === undefined
        ? await answerUnknown(services, exchange)
        : await answer(services, found.route, exchange, share)
  } catch (error) {
    reply = refuse(services, found?.route ?? services.router.ownerOf(path), exchange, error)
  }
  share.free()
  send(services, exchange, reply)
}

async function answer(
  services: HttpServices,
  route: ServerRoute,
  exchange: Exchange,
  share: BodyShare,
): Promise<HttpReply> {
  const caller = findPrincipal(services, route, exchange)
  const principal = caller instanceof Promise ? await caller : caller
  exchange.principal = principal
  // Operators have several credentials at hand, so the answer says which one was used.
  if (route.authenticate !== undefined)
    exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
  if (route.body === 'json') {
    const body = readJsonBody(exchange.raw, services.bodyLimitBytes, share.of(principal))
    exchange.body = body instanceof Promise ? await body : body
  }
  // A promise that is given back unawaited costs two more, and a turn each.
  return await (exchange.scope === undefined
    ? route.handle(exchange)
    : requestScope.run(exchange.scope, () => route.handle(exchange)))
}

/** `Host` and `Origin` (rule 28), then whatever the operator adds (OTC-114). Throws a fault. */
function checkClient(services: HttpServices, { raw, route, headers }: Exchange): void {
  services.hostGuard.check(headers.host, headers.origin)
  services.admit?.({ address: raw.socket.remoteAddress ?? '', route, headers })
}

function findPrincipal(
  services: HttpServices,
  route: ServerRoute,
  { headers }: Exchange,
): MaybePromise<Principal> {
  if (route.authenticate !== undefined) return route.authenticate(headers)
  return route.access === 'open' ? ANONYMOUS : services.authenticator.authenticate(headers)
}

/** 404 for a path that is not ours, 405 with `Allow` for a method that is not, and CORS preflights (OTC/T-26). */
async function answerUnknown(services: HttpServices, exchange: Exchange): Promise<HttpReply> {
  const { router, hostGuard, authenticator } = services
  const { method, path, headers } = exchange
  const here = router.at(path)
  const [first] = here
  const allow = allowedMethods(here)
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && hostGuard.corsOrigin(headers.origin) !== undefined)
    return preflightReply(allow)
  // Only a caller that the owner of the path knows learns what is here and what is not (OTS-48).
  if (router.ownerOf(path)?.access === 'authenticated') await authenticator.authenticate(headers)
  if (first === undefined)
    throw isWellEncoded(path) ? httpFault(404, 'There is nothing at this path.') : malformedPath()
  const error = httpFault(405, `This path does not take ${method}; use ${allow}.`)
  const reply = refuse(services, first, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
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
  try {
    if (route !== undefined) return route.refuse(exchange, shown, status)
  } catch (err) {
    unexpected(services, exchange, err)
  }
  return messageReply(status, shown.message)
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

/** A store that is away or full is no fault of ours: the caller comes again. What cannot be read is for the operator (rule 14). */
function faultOf(services: HttpServices, exchange: Exchange, error: unknown): ToolError {
  if (!(error instanceof StoreError) || error.code === 'unreadable') {
    return unexpected(services, exchange, error)
  }
  const { route, trace } = exchange
  services.log.error(
    { err: error, route, traceId: trace.traceId },
    'the store failed while answering a request',
  )
  const what =
    error.code === 'unknown'
      ? 'It is not known whether this request took effect; look before you repeat it.'
      : 'Nothing was changed; try again shortly.'
  return fault('not_ready', `The server cannot use its store right now. ${what}`, { retryAfterMs: 2_000 })
}

/** Logged with its stack; the caller learns nothing but what to do next (OTC/T-20, OTC/T-26). */
function unexpected(services: HttpServices, { route, trace }: Exchange, err: unknown): ToolError {
  services.log.error({ err, route, traceId: trace.traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}
