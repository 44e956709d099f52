import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'

/** The way from one replica to the database. */
export interface Network {
  /** The address of the database, seen from the replica. */
  throughTo(url: string): string
  /** Ends every connection, in whatever it was doing. */
  drop(): void
  /** Ends the connection that sends the next COMMIT, before it arrives or before its answer does. */
  dropAtCommit(when: 'before' | 'after'): void
  /** Holds back what both sides send, by this much, until told 0. */
  delay(ms: number): void
  /** Lets nothing through and takes nothing on, without a word, until told otherwise. */
  cut(isCut: boolean): void
  close(): void
}

/** One message or more of the wire protocol end in this, whether or not it was prepared. */
const COMMIT = 'COMMIT\0'

/** A proxy between one replica and PostgreSQL. */
export async function startNetwork(port: number): Promise<Network> {
  const sockets = new Set<Socket>()
  const held: (() => void)[] = []
  let [delayMs, isCut] = [0, false]
  let commitCut: 'before' | 'after' | undefined
  const pass = (send: () => void): void => {
    if (isCut) held.push(send)
    else if (delayMs === 0) send()
    else setTimeout(send, delayMs)
  }
  const server = createServer((near) => {
    const far = createConnection({ host: '127.0.0.1', port })
    let isDeaf = false
    const end = (): void => {
      near.destroy()
      far.destroy()
    }
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end).on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    far.on('data', (chunk) => {
      if (isDeaf) end()
      else pass(() => near.write(chunk))
    })
    near.on('data', (chunk) => {
      if (commitCut === undefined || !chunk.includes(COMMIT)) {
        pass(() => far.write(chunk))
        return
      }
      if (commitCut === 'before') end()
      else far.write(chunk)
      isDeaf = true
      commitCut = undefined
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.')
  const drop = (): void => {
    for (const socket of sockets) socket.destroy()
    held.length = 0
  }
  return {
    throughTo: (url) => url.replace(/:\d+\//, `:${address.port}/`),
    drop,
    dropAtCommit(when) {
      commitCut = when
    },
    delay(ms) {
      delayMs = ms
    },
    cut(wanted) {
      isCut = wanted
      if (!isCut) for (const send of held.splice(0)) send()
    },
    close() {
      drop()
      server.close()
    },
  }
}
