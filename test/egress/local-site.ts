import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface Visit {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** The local address of the connection. */
  readonly reachedAt: string
}

export interface LocalSite {
  readonly port: number
  readonly visits: Visit[]
  /** Number of connections so far. */
  connections(): number
  close(): Promise<void>
}

/** A site on a loopback address that records its requests. */
export async function startSite(
  answer: (visit: Visit, response: ServerResponse, request: IncomingMessage) => void,
  host = '127.0.0.1',
): Promise<LocalSite> {
  const visits: Visit[] = []
  let connections = 0
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const visit = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body,
      reachedAt: request.socket.localAddress ?? '',
    }
    visits.push(visit)
    answer(visit, response, request)
  })
  server.on('connection', () => {
    connections += 1
  })
  const port = await listen(server, host)
  return { port, visits, connections: () => connections, close: () => closeServer(server) }
}

export async function listen(server: Server, host: string): Promise<number> {
  await new Promise<void>((listening, failed) => {
    server.once('error', failed).listen(0, host, listening)
  })
  const address = server.address()
  return isInfo(address) ? address.port : 0
}

const SOCKETS = new WeakMap<Server, Set<Socket>>()

/** Records connections, so that `closeServer` can cut them. */
export function tracked<Kind extends Server>(server: Kind): Kind {
  const sockets = new Set<Socket>()
  SOCKETS.set(server, sockets)
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
  })
  return server
}

export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  if ('closeAllConnections' in server && typeof server.closeAllConnections === 'function')
    server.closeAllConnections()
  for (const socket of SOCKETS.get(server) ?? []) socket.destroy()
  await closed
}

function isInfo(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
