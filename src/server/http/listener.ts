import { once } from 'node:events'
import type { IncomingMessage, ServerResponse as OpenResponse, Server } from 'node:http'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo, ListenOptions, Socket } from 'node:net'
import type { Settings } from '#config/settings'
import type { CertifiedKey, ServedCertificate } from './certificate.ts'
import { createServer, ServerResponse, STATUS_CODES } from './node-http.ts'

/*
 * The listener of a port: HTTP or HTTPS, shared ports of workers, malformed requests and listen errors.
 * Used by the HTTP app, and by the listener for other replicas.
 * Invariant: a malformed request gets an HTTP error as long as the connection can carry one.
 */

export type HttpListener = Server | SecureServer

interface ListenerOptions {
  readonly timeouts: Readonly<Record<'headersMs' | 'requestMs' | 'keepAliveMs', number>>
  /** Present if the listener uses TLS. */
  readonly certificate: ServedCertificate | undefined
}

/** Listens for HTTP/1.1 on a port, with or without TLS. Malformed requests are answered here. */
export function createListener(
  { timeouts, certificate }: ListenerOptions,
  serve: (request: IncomingMessage, response: OpenResponse) => void,
): HttpListener {
  const options = {
    requestTimeout: timeouts.requestMs,
    headersTimeout: timeouts.headersMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs),
    // A second Host or Authorization must not hide behind the first.
    joinDuplicateHeaders: true,
    // The host guard reports a missing host.
    requireHostHeader: false,
  }
  if (certificate === undefined) return createServer(options, serve).on('clientError', refuseBrokenRequest)
  const { createServer: createSecureServer } = process.getBuiltinModule('node:https')
  const secure = createSecureServer(
    { ...options, ...secureOptions(certificate.current), handshakeTimeout: timeouts.headersMs },
    serve,
  )
  certificate.onRenewed((pair) => secure.setSecureContext(secureOptions(pair)))
  return secure.on('clientError', refuseBrokenRequest)
}

/** Options of the first TLS context and of each renewed one. */
function secureOptions({ cert, key }: CertifiedKey) {
  return { cert, key, minVersion: 'TLSv1.2' } as const
}

/** Systems on which several processes can listen on one port; on others the first process distributes connections. */
const CAN_REUSE_PORTS: ReadonlySet<string> = new Set(['linux', 'freebsd', 'sunos', 'aix'])

/**
 * The system distributes connections over the listeners. A worker that dies closes its own connections at once; a connection
 * that another process had passed to it would hang.
 */
export function portOptions(isShared: boolean): { readonly reusePort?: true } {
  return isShared && CAN_REUSE_PORTS.has(process.platform) ? { reusePort: true } : {}
}

/** Listening on a port that another server shares with its workers would succeed, so the first worker checks that the port is free. */
export async function checkPortIsFree(host: string, port: number): Promise<void> {
  if (port === 0) return
  const probe = createServer()
  await bind(probe, { host, port, exclusive: true })
  await new Promise((resolve) => probe.close(resolve))
}

/** Starts to listen and returns the address. */
export async function bind(listener: HttpListener, options: ListenOptions): Promise<AddressInfo> {
  listener.listen(options)
  await once(listener, 'listening')
  const bound = listener.address()
  if (bound === null || typeof bound === 'string')
    throw new Error('A TCP listener has an address and a port.')
  return bound
}

/** A name under which a listener on a wildcard address can be reached from here. */
export function reachableName(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

interface BrokenRequest {
  readonly status: number
  readonly message: string
}

const MALFORMED: BrokenRequest = { status: 400, message: 'The request is not well-formed HTTP/1.1.' }
const TOO_SHORT = 'The request ended too early: the body is shorter than its Content-Length.'

const BROKEN_BY_CODE: Readonly<Record<string, BrokenRequest>> = {
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: 'The request did not arrive in time; send it again.' },
  HPE_HEADER_OVERFLOW: { status: 431, message: 'The request headers are too large.' },
  HPE_INVALID_EOF_STATE: { status: 400, message: TOO_SHORT },
}

const waiting = new WeakSet<Socket>()

/**
 * Answers bytes that are not an HTTP request. While an earlier request on the same connection still runs, the
 * refusal waits for that reply; otherwise the client would take it for the answer to its call.
 */
function refuseBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
  // Before the handshake nothing can be written: an answer would wait for the handshake and keep the socket open.
  if (error.code === 'ECONNRESET' || error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || !socket.writable) {
    socket.destroy()
    return
  }
  const running = runningResponseOf(socket)
  if (running === undefined) {
    socket.end(render(BROKEN_BY_CODE[error.code ?? ''] ?? MALFORMED), () => socket.destroy())
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

/** The response that a complete request is still waiting for. Node keeps it on the socket, as `_httpMessage`. */
function runningResponseOf(socket: Socket): OpenResponse | undefined {
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

/** Why a server cannot listen, and what to do about it. */
export function listenError({ host, port }: Settings['server'], cause: unknown): Error {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  const notLocal = `"${host}" is not an address of this machine. Choose one with --host, for example 127.0.0.1.`
  const explanations: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} on ${host} is already in use. Stop the process that uses it, or choose another port with --port.`,
    EACCES: `Port ${port} may not be used by this user. Choose a port of 1024 or more with --port.`,
    EADDRNOTAVAIL: notLocal,
    ENOTFOUND: notLocal,
  }
  return new Error(explanations[String(code)] ?? `Cannot listen on ${host}, port ${port}.`, { cause })
}
