import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Secret, type ToolContext } from 'collet'

/**
 * A stand-in for an external API on this machine, for the tests of the demo. It records the requests that it gets.
 */

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface LocalService {
  readonly url: string
  readonly requests: ReceivedRequest[]
  close(): Promise<void>
}

/** Starts the service; `requests` contains the requests that it received. */
export async function startLocalService(
  answer: (request: ReceivedRequest, response: ServerResponse) => void,
): Promise<LocalService> {
  const requests: ReceivedRequest[] = []
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://local')
    let body = ''
    for await (const chunk of request) body += chunk
    const received = {
      method: request.method ?? '',
      path: pathname,
      query: searchParams,
      headers: request.headers,
      body,
    }
    requests.push(received)
    answer(received, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export function replyJson(response: ServerResponse, status: number, value: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}

/** The context that a tool gets from the server, with these credentials. */
export function contextWith(
  credentials: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): ToolContext {
  const find = (id: string): Secret => new Secret(credentials[id] ?? '')
  const silent = (): void => undefined
  const aborted = signal ?? new AbortController().signal
  return {
    callId: 'call-1',
    traceId: 'trace-1',
    signal: aborted,
    principal: { id: 'anonymous', tenant: 'default', scopes: [] },
    userId: undefined,
    claimedUserId: 'user_123',
    userInfo: undefined,
    token: find,
    secret: find,
    fetch: (input, init) => fetch(input, { ...init, signal: aborted }),
    log: { debug: silent, info: silent, warn: silent, error: silent },
    progress: silent,
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: (ordinal = 0) => `effect-${ordinal}`,
  }
}
