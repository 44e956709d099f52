import { createServer, type RequestListener } from 'node:http'
import { describe, expect, it } from 'vitest'
import { boundedFetch } from './client.ts'

async function serve(listener: RequestListener) {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const bounded = boundedFetch(fetch, { timeoutMs: 60_000, maxBytes: 100 })
const hasty = boundedFetch(fetch, { timeoutMs: 200, maxBytes: 100 })

describe('an answer from an authorization server', () => {
  it('is returned unchanged if it is small and fast', async () => {
    await using server = await serve((_request, response) =>
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"x"}'),
    )
    const response = await bounded(server.url)
    expect([response.status, response.headers.get('content-type'), await response.json()]).toEqual([
      400,
      'application/json',
      { error: 'x' },
    ])
  })

  it('is aborted if it is large, whatever its content-length', async () => {
    await using server = await serve((_request, response) => {
      response.writeHead(200)
      for (let part = 0; part < 50; part += 1) response.write('x'.repeat(100))
      response.end()
    })
    await expect(bounded(server.url)).rejects.toThrow('larger than 100 bytes')
  })

  it.each([
    ['never begins', () => {}],
    ['never ends', (response: { write(text: string): unknown }) => void response.write('{')],
  ])('that %s times out', async (_title, begin) => {
    await using server = await serve((_request, response) => begin(response))
    await expect(hasty(server.url)).rejects.toThrow(/timeout|aborted/i)
  })

  it('that redirects is not followed', async () => {
    let asked = 0
    await using server = await serve((_request, response) => {
      asked += 1
      response.writeHead(302, { location: '/elsewhere' }).end()
    })
    expect((await bounded(server.url)).status).toBe(302)
    expect(asked).toBe(1)
  })
})
