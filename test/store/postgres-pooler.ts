import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'

/**
 * Simulates the transaction mode of PgBouncer: it refuses settings of clients, and gives every transaction the next of its few
 * connections. So nothing that lasts longer than a transaction works through it.
 */
export interface Pooler {
  readonly url: string
  close(): void | Promise<void>
}

const SSL_REQUEST = 80_877_103
const KNOWN = new Set(['user', 'database', 'client_encoding', 'application_name'])

/** A connection to the database, and the client that uses it. */
interface Backend {
  readonly socket: Socket
  readonly frames: Frames
  /** Frames are passed to its current client. */
  deliver: (frame: Buffer) => void
}

export async function startPooler(url: string, size: number): Promise<Pooler> {
  const { hostname, port, username, pathname } = new URL(url)
  const free: Backend[] = []
  const waiting: ((backend: Backend) => void)[] = []
  const clients = new Set<Socket>()
  const backends = await Promise.all(
    Array.from({ length: size }, () => connect(hostname, Number(port), [username, pathname.slice(1)])),
  )
  free.push(...backends)
  const give = (backend: Backend) => {
    const next = waiting.shift()
    if (next === undefined) free.push(backend)
    else next(backend)
  }
  const take = (then: (backend: Backend) => void) => {
    const backend = free.shift()
    if (backend === undefined) waiting.push(then)
    else then(backend)
  }

  const server = createServer((client) => {
    clients.add(client.setNoDelay())
    client.on('error', () => client.destroy()).on('close', () => clients.delete(client))
    const frames = new Frames(true)
    let held: Backend | undefined
    let isTaking = false
    let unanswered = 0
    const queue: Buffer[] = []
    const pump = () => {
      if (queue.length === 0) return
      if (held === undefined) {
        if (isTaking) return
        isTaking = true
        take((backend) => {
          isTaking = false
          held = backend
          backend.deliver = deliver
          pump()
        })
        return
      }
      for (const frame of queue.splice(0)) {
        if (frame[0] === 0x51 || frame[0] === 0x53) unanswered += 1
        held.socket.write(frame)
      }
    }
    /** `Z` says whether a transaction is still open. */
    const deliver = (frame: Buffer) => {
      client.write(frame)
      if (frame[0] !== 0x5a) return
      unanswered -= 1
      if (frame[5] !== 0x49 || unanswered > 0 || held === undefined) return
      const backend = held
      held = undefined
      give(backend)
      pump()
    }
    client.on('data', (chunk) => {
      for (const frame of frames.take(chunk)) {
        if (frames.isStarting) start(client, frame, frames)
        else if (frame[0] === 0x58) client.end()
        else queue.push(frame)
      }
      pump()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: url.replace(`:${port}/`, `:${address.port}/`),
    close() {
      for (const socket of [...clients, ...backends.map((backend) => backend.socket)]) socket.destroy()
      server.close()
    },
  }
}

/** Answers clients, or refuses settings that it cannot keep for them. */
function start(client: Socket, frame: Buffer, frames: Frames): void {
  if (frame.readInt32BE(4) === SSL_REQUEST) {
    client.write('N')
    return
  }
  const parts = frame.toString('utf8', 8).split('\0')
  const unknown = parts.find((name, index) => index % 2 === 0 && name !== '' && !KNOWN.has(name))
  if (unknown !== undefined) {
    const fields = `SFATAL\0C08P01\0Munsupported startup parameter: ${unknown}\0\0`
    client.end(message('E', Buffer.from(fields)))
    return
  }
  frames.isStarting = false
  client.write(Buffer.concat([message('R', Buffer.from([0, 0, 0, 0])), message('Z', Buffer.from('I'))]))
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

async function connect(host: string, port: number, [user, database]: readonly string[]): Promise<Backend> {
  const socket = createConnection({ host, port, noDelay: true })
  await once(socket, 'connect')
  const body = Buffer.from(`\0\x03\0\0user\0${user}\0database\0${database}\0\0`)
  const head = Buffer.alloc(4)
  head.writeInt32BE(body.length + 4)
  socket.write(Buffer.concat([head, body]))
  const ready = Promise.withResolvers<void>()
  const backend: Backend = {
    socket,
    frames: new Frames(false),
    deliver: (frame) => (frame[0] === 0x5a ? ready.resolve() : undefined),
  }
  socket.on('error', () => undefined)
  socket.on('data', (chunk) => {
    for (const frame of backend.frames.take(chunk)) backend.deliver(frame)
  })
  await ready.promise
  return backend
}

/** Cuts what arrives into messages; the first one of a client has no type. */
class Frames {
  isStarting: boolean
  #rest: Buffer = Buffer.alloc(0)

  constructor(isStarting: boolean) {
    this.isStarting = isStarting
  }

  *take(chunk: Buffer): Iterable<Buffer> {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const at = this.isStarting ? 0 : 1
      if (this.#rest.length < at + 4) return
      const length = at + this.#rest.readInt32BE(at)
      if (this.#rest.length < length) return
      const frame = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      yield frame
    }
  }
}
