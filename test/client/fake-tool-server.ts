import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: JsonObject
}

export interface FakeToolServer extends AsyncDisposable {
  readonly url: string
  readonly requests: readonly SeenRequest[]
}

export type RequestHandler = (request: SeenRequest, response: ServerResponse) => void

/** A real HTTP server on loopback with prepared answers that records its requests. */
export async function startFakeToolServer(handler: RequestHandler): Promise<FakeToolServer> {
  const requests: SeenRequest[] = []
  const server = createServer(async (incoming, response) => {
    const request = await readRequest(incoming).catch(() => undefined)
    if (request === undefined) return
    requests.push(request)
    handler(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = addressOf(server.address())
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: JsonValue,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

async function readRequest(incoming: IncomingMessage): Promise<SeenRequest> {
  let text = ''
  for await (const chunk of incoming) text += String(chunk)
  const parsed: JsonValue = text === '' ? {} : JSON.parse(text)
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    text,
    body: isJsonObject(parsed) ? parsed : {},
  }
}

function addressOf(address: AddressInfo | string | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the fake server has no port')
  return address
}
