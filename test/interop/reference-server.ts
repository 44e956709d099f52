import type { Server } from 'node:http'

/** A reference server on a free port of this machine. */
export interface ReferenceServer {
  readonly url: string
  close(): Promise<void>
}

export async function listening(server: Server): Promise<ReferenceServer> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    async close() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
