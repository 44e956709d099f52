import { ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, fastify } from 'fastify'
import type { Authenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import type { Clock } from '#core/runtime'
import type { ServerLog } from '#server/telemetry/log'
import type { Metrics } from '#server/telemetry/metrics'
import type { SpanExporter } from '#server/telemetry/tracing'
import { HostGuard } from './host-guard.ts'
import { BodyBudget } from './read-body.ts'
import { RoutePath, type ServerRoute } from './request.ts'
import {
  type ClientInfo,
  type HttpServices,
  openExchange,
  serveMalformedPath,
  serveRequest,
  serveUnknown,
} from './serve.ts'

export interface HttpAppOptions {
  readonly routes: readonly ServerRoute[]
  readonly authenticator: Authenticator
  readonly settings: Settings['server']
  readonly log: ServerLog
  readonly metrics: Metrics
  readonly clock: Clock
  readonly spans?: SpanExporter
  /** Level of the one line per request; default `debug`. */
  readonly requestLogLevel?: 'debug' | 'info'
  /** Turns visitors away by throwing a fault: the place for allow-lists and rate limits (OTC-114). */
  readonly admit?: (visitor: ClientInfo) => void
  /** `WWW-Authenticate` of a 401 at this path, instead of the protocol's own. */
  readonly challengeFor?: (path: string, hasToken: boolean) => string
  readonly timeouts?: Partial<HttpTimeouts>
  /** Bytes of request bodies held at once; default as many as come. */
  readonly mostBodyBytes?: number
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
/** As long as a whole request head may be: a long id is an unknown one, not a malformed path. */
const LONGEST_PARAMETER = 16_384
const METHODS_WITH_BODY = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY']
const UNKNOWN = 'unknown'
const NO_QUERY = Object.freeze({})

/** Every protocol's routes on one port. Fastify routes and keeps connections; bodies, refusals and replies are ours. */
export function createHttpApp(options: HttpAppOptions): HttpApp {
  const { settings } = options
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  let frontDoor = new HostGuard(settings)
  let isClosing = false
  const services: HttpServices = {
    get frontDoor() {
      return frontDoor
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
  const app = createRouter(services, options.routes, timeouts)
  app.server.maxConnections = settings.maxConnections
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return {
    async listen() {
      const { host, port } = settings
      try {
        await app.listen({ host, port })
      } catch (cause) {
        await app.close()
        throw listenError(settings, cause)
      }
      const address = app.server.address()
      const bound = address === null || typeof address === 'string' ? port : address.port
      frontDoor = new HostGuard({ ...settings, port: bound })
      return `http://${reachableName(host)}:${bound}`
    },
    async close() {
      isClosing = true
      // Node counts a connection that has sent nothing yet as busy.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      const cut = setTimeout(() => app.server.closeAllConnections(), timeouts.closeMs)
      await app.close()
      clearTimeout(cut)
    },
  }
}

function createRouter(
  services: HttpServices,
  routes: readonly ServerRoute[],
  timeouts: HttpTimeouts,
): FastifyInstance {
  const entries = routes.map((route) => ({ route, path: new RoutePath(route.path) }))
  const app = fastify({
    logger: false,
    exposeHeadRoutes: false,
    // Requests that arrive while we close are answered like any other, by routes that know whether we are ready.
    return503OnClosing: false,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    http: {
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs),
      // A second Host or Authorization must not hide behind the first.
      joinDuplicateHeaders: true,
      // The host guard says what is missing.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength: LONGEST_PARAMETER, querystringParser: () => NO_QUERY },
    clientErrorHandler: refuseBrokenRequest,
    frameworkErrors: (_error, request, reply) => {
      reply.hijack()
      serveMalformedPath(services, entries, openExchange(services, UNKNOWN, request.raw, reply.raw))
    },
  })
  // No method has a body as far as Fastify knows: it must not parse, limit or refuse what we read ourselves.
  for (const method of METHODS_WITH_BODY)
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  for (const { route, path } of entries) {
    app.route({
      method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
      url: route.path,
      handler(request, reply) {
        reply.hijack()
        const exchange = openExchange(services, route.path, request.raw, reply.raw)
        const params = path.match(exchange.path)
        if (params === undefined) serveUnknown(services, entries, exchange)
        else void serveRequest(services, route, params, exchange)
      },
    })
  }
  app.setNotFoundHandler((request, reply) => {
    reply.hijack()
    serveUnknown(services, entries, openExchange(services, UNKNOWN, request.raw, reply.raw))
  })
  return app
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
  // Node tells of the same broken stream with every further chunk.
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
  const explain = EXPLANATIONS.get(code) ?? (() => `Cannot listen on ${host}, port ${port}.`)
  return new Error(explain(host, port), { cause })
}

function notHere(host: string): string {
  return `"${host}" is not an address of this machine. Give one with --host, such as 127.0.0.1.`
}
