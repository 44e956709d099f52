import { ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

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
export function refuseBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
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
