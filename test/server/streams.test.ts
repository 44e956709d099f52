import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import type { ReplyStream } from '#protocols/http-exchange'
import { writeStream } from '#server/http/slow-replies'
import { open, request } from './raw-http.ts'
import { openRoute, startApp, stopApps } from './start-app.ts'

afterEach(stopApps)

const PIECE = 'x'.repeat(64 * 1_024)

function streaming(body: ReplyStream) {
  return openRoute('/stream', () => ({ status: 200, headers: { 'content-type': 'text/plain' }, body }))
}

async function ask(url: string): Promise<IncomingMessage> {
  const sent = httpRequest(`${url}/stream`).end()
  const [response] = await once(sent, 'response')
  return response
}

describe('streamed replies', () => {
  it('are sent chunk by chunk, each as soon as it is produced', async () => {
    const gate = Promise.withResolvers<void>()
    const { url } = await startApp({
      routes: [
        streaming(async function* () {
          yield 'one'
          await gate.promise
          yield 'two'
        }),
      ],
    })
    const response = await ask(url)
    const pieces: string[] = []
    for await (const piece of response) {
      pieces.push(String(piece))
      gate.resolve()
    }
    expect(pieces).toEqual(['one', 'two'])
    expect(response.headers['content-length']).toBeUndefined()
  })

  it('have no body for HEAD', async () => {
    let opened = false
    const { url } = await startApp({
      routes: [
        streaming(async function* () {
          opened = true
          yield 'never'
        }),
      ],
    })
    const response = await fetch(`${url}/stream`, { method: 'HEAD' })
    expect([response.status, await response.text(), opened]).toEqual([200, '', false])
  })

  it('request no further chunk while the reader does not read', async () => {
    let made = 0
    const left = Promise.withResolvers<void>()
    const { port } = await startApp({
      routes: [
        streaming(async function* (ended) {
          ended.addEventListener('abort', () => left.resolve())
          for (;;) {
            made += 1
            yield PIECE
          }
        }),
      ],
    })
    const socket = await open(port)
    socket.pause()
    socket.write(request(['GET /stream HTTP/1.1', `Host: 127.0.0.1:${port}`]))
    let before = 0
    const isStill = () => {
      const still = made > 0 && made === before
      before = made
      return still
    }
    // Sockets buffer some chunks: wait until two checks in a row see no new one.
    await expect.poll(isStill, { interval: 100 }).toBe(true)
    expect(made).toBeLessThan(200)
    socket.destroy()
    await left.promise
  })

  it('end the stream when its reader disconnects, also while it waits', async () => {
    const left = Promise.withResolvers<void>()
    const { url } = await startApp({
      routes: [
        streaming(async function* (ended) {
          yield 'one'
          await once(ended, 'abort')
          left.resolve()
        }),
      ],
    })
    const response = await ask(url)
    await once(response, 'data')
    response.destroy()
    await left.promise
  })

  it('abort and log when the stream throws, so that a partial reply does not look complete', async () => {
    const { url, logged } = await startApp({
      routes: [
        streaming(async function* () {
          yield 'one'
          throw new Error('the source broke')
        }),
      ],
    })
    const response = await ask(url)
    response.resume()
    const [error] = await once(response, 'error')
    expect(error).toMatchObject({ code: 'ECONNRESET' })
    await expect.poll(() => logged.join()).toContain('the source broke')
  })

  it('end when the reader reads nothing for too long', async () => {
    const done = Promise.withResolvers<void>()
    const server = createServer((_request, response: ServerResponse) => {
      const endless: ReplyStream = async function* (ended) {
        while (!ended.aborted) yield PIECE
      }
      void writeStream(response, endless, 50).then(done.resolve, done.reject)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const socket = await open(typeof address === 'object' ? (address?.port ?? 0) : 0)
    socket.pause()
    socket.on('error', () => undefined)
    socket.write(request(['GET / HTTP/1.1', 'Host: 127.0.0.1']))
    await done.promise
    socket.destroy()
    server.close()
  })
})
