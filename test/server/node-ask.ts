import { request as httpRequest } from 'node:http'

/** Sends a request that `fetch` cannot make: a GET with a body, or with a custom Host. */
export function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Buffer },
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<typeof ask>>>()
  const sent = httpRequest(
    url,
    { method: options.method ?? 'GET', headers: options.headers ?? {} },
    (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        }),
      )
    },
  )
  sent.on('error', reject)
  if (options.body !== undefined) sent.setHeader('content-length', Buffer.byteLength(options.body))
  sent.end(options.body)
  return promise
}
