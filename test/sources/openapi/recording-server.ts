import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request, exactly as it arrived. */
export interface Recorded {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface Reply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string | Buffer
}

export interface RecordingServer {
  readonly origin: string
  readonly host: string
  readonly requests: Recorded[]
  /** The reply from now on; default: 200 with `{}`. */
  answer(reply: (request: Recorded) => Reply | 'hang' | 'cut'): void
  close(): Promise<void>
}

/** A real service on this machine that records its requests. */
export async function startRecordingServer(): Promise<RecordingServer> {
  const requests: Recorded[] = []
  let replyTo: (request: Recorded) => Reply | 'hang' | 'cut' = () => ({})
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const { method = '', url = '', headers } = incoming
    const recorded = { method, url, headers, body: Buffer.concat(chunks) }
    requests.push(recorded)
    const reply = replyTo(recorded)
    if (reply === 'hang') return
    if (reply === 'cut') {
      incoming.socket.destroy()
      return
    }
    const { status = 200, headers: sent = { 'content-type': 'application/json' }, body = '{}' } = reply
    for (const [name, value] of Object.entries(sent)) outgoing.setHeader(name, value)
    outgoing.writeHead(status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = addressOf(server.address())
  return {
    origin: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    requests,
    answer: (reply) => {
      replyTo = reply
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

function addressOf(address: string | AddressInfo | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address
}
