import { request as httpRequest } from 'node:http'
import type { VectorRequest, VectorResponse } from './otc-vectors.ts'

/** Sends over a real socket. `fetch` cannot send a GET body, so it is not used here (C-31). */
export function httpSend(baseUrl: string): (request: VectorRequest) => Promise<VectorResponse> {
  return ({ method, path, headers, body }) =>
    new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
      const outgoing = httpRequest(
        new URL(path, baseUrl),
        { method, headers: { ...headers, ...length }, agent: false },
        (incoming) => {
          const chunks: Buffer[] = []
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
          incoming.on('error', reject)
          incoming.on('end', () =>
            resolve({
              status: incoming.statusCode ?? 0,
              headers: Object.fromEntries(
                Object.entries(incoming.headers).map(([name, value]) => [name, [value].flat().join(', ')]),
              ),
              text: Buffer.concat(chunks).toString('utf8'),
            }),
          )
        },
      )
      outgoing.on('error', reject)
      // A body written together with the head would make Node encode the head in UTF-8 too.
      outgoing.end(body === undefined ? undefined : Buffer.from(body))
    })
}
