import { once } from 'node:events'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

/** A proxy between a store and its database that simulates network faults. */
export interface DatabaseProxy {
  /** The database through this proxy. */
  readonly url: string
  /** Cuts one connection before a commit reaches the database, or before its answer comes back. */
  cut: 'never' | 'before' | 'after'
  refuse: boolean
  /** Delay of every chunk, in each direction. */
  delayMs: number
  /** Number of chunks to the database; a client that waits for each answer makes as many round trips. */
  sent: number
  /** Receives every chunk to the database. */
  heard?: (chunk: Buffer) => void
  /** Holds all data silently until released. */
  silence(isSilent: boolean): void
  /** Ends all open connections. */
  drop(): void
  close(): void
}

export async function startProxy(url: string): Promise<DatabaseProxy> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const server: Server = createServer((near) => {
    if (proxy.refuse) {
      near.destroy()
      return
    }
    const far = createConnection({ host: hostname, port: Number(port) })
    const end = () => {
      near.destroy()
      far.destroy()
    }
    for (const socket of [near, far]) {
      socket.setNoDelay()
      sockets.add(socket.on('error', end))
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    let isCut = false
    far.on('data', (answer) => {
      if (isCut) end()
      else pass(answer, near)
    })
    near.on('data', (chunk) => {
      proxy.sent += 1
      proxy.heard?.(chunk)
      if (proxy.cut === 'never' || !chunk.includes('COMMIT\0')) {
        pass(chunk, far)
        return
      }
      isCut = true
      if (proxy.cut === 'before') end()
      else pass(chunk, far)
      proxy.cut = 'never'
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  let held: (() => void)[] | undefined
  const delayed = new WeakMap<Socket, Promise<void>>()
  const pass = (chunk: Buffer, to: Socket) => {
    if (held !== undefined) held.push(() => send(chunk, to))
    else send(chunk, to)
  }
  /** Later chunks never overtake delayed ones: the network may be slow, but keeps the order. */
  const send = (chunk: Buffer, to: Socket) => {
    const before = delayed.get(to)
    if (before === undefined && proxy.delayMs === 0) {
      to.write(chunk)
      return
    }
    const sending = Promise.all([before, wait(proxy.delayMs)]).then(() => {
      to.write(chunk)
      if (delayed.get(to) === sending) delayed.delete(to)
    })
    delayed.set(to, sending)
  }
  const proxy: DatabaseProxy = {
    url: url.replace(`:${port}/`, `:${address.port}/`),
    cut: 'never',
    refuse: false,
    delayMs: 0,
    sent: 0,
    silence(isSilent) {
      const kept = held ?? []
      held = isSilent ? kept : undefined
      if (!isSilent) for (const write of kept) write()
    },
    drop() {
      for (const socket of sockets) socket.destroy()
    },
    close() {
      proxy.drop()
      server.close()
    },
  }
  return proxy
}
