import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { EgressPolicy } from '#egress/policy'
import type { PlainResponse } from '#sources/kit/source'
import { failureOf } from './failure-of.ts'
import { startSite } from './local-site.ts'

const MIB = 1_048_576
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function start(answer: Parameters<typeof startSite>[0], policy: EgressPolicy = {}) {
  const site = await startSite(answer)
  const { send, close } = createGuardedFetch({ allow: ['127.0.0.1'], maxResponseBytes: MIB, ...policy })
  closing.push(site.close, close)
  const url = new URL(`http://127.0.0.1:${site.port}/call`)
  const { signal } = new AbortController()
  return {
    url,
    post: (headers: Record<string, string> = {}, caller = signal) =>
      send({ url, method: 'POST', headers, body: '{"a":1}', signal: caller }),
  }
}

async function textOf({ body }: PlainResponse): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

describe('rule 33: guarded requests without the objects of fetch', () => {
  it('sends the given headers, except hop-by-hop ones', async () => {
    const { post } = await start((visit, response) => response.end(JSON.stringify(visit.headers)))
    const answer = await post({ accept: 'text/plain', host: 'other.example', te: 'trailers', 'x-key': 'k' })
    const seen = JSON.parse(await textOf(answer))
    expect(seen).toMatchObject({ accept: 'text/plain', 'x-key': 'k', 'user-agent': 'collet' })
    expect([seen.host, seen.te, seen['content-length']]).toEqual([
      expect.stringMatching(/^127\.0\.0\.1/),
      undefined,
      '7',
    ])
    expect(await failureOf(post({ upgrade: 'websocket' }))).toMatchObject({ code: 'egress_denied' })
  })

  it('refuses what fetch refuses, and reports if nothing was sent', async () => {
    const { post } = await start((_visit, response) => response.end('secret'), { allow: [] })
    expect(await failureOf(post())).toMatchObject({ code: 'egress_denied' })
    const nobody = createGuardedFetch({ allow: ['127.0.0.1'] })
    closing.push(nobody.close)
    const request = { url: new URL('http://127.0.0.1:9/'), method: 'POST' as const, headers: {} }
    const { signal } = new AbortController()
    expect(await failureOf(nobody.send({ ...request, signal }))).toMatchObject({ code: 'egress_denied' })
    const closed = new URL('http://127.0.0.1:48999/')
    expect(await failureOf(nobody.send({ ...request, url: closed, signal }))).toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
    })
  })

  it('returns a redirect of any method unchanged', async () => {
    const { post } = await start((_visit, response) => response.writeHead(307, { location: '/' }).end())
    const answer = await post()
    expect([answer.status, answer.headers.location, await textOf(answer)]).toEqual([307, '/', ''])
  })

  it('OWP-81: limits the size of an answer, also decompressed', async () => {
    const large = await start((_visit, response) => response.end(Buffer.alloc(MIB + 1)))
    const tooLarge = {
      code: 'upstream_failed',
      developerMessage: expect.stringContaining('maxResponseBytes'),
    }
    expect(await failureOf(textOf(await large.post()))).toMatchObject(tooLarge)
    const packed = await start((_visit, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(MIB + 1))),
    )
    expect(await failureOf(textOf(await packed.post()))).toMatchObject(tooLarge)
    const small = await start((_visit, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('small')),
    )
    expect(await textOf(await small.post())).toBe('small')
  })

  it('ends on abort and on timeout, before and within the answer', async () => {
    const silent = await start(() => undefined)
    const caller = new AbortController()
    const waiting = silent.post({}, caller.signal)
    caller.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    const slow = await start((_visit, response) => response.writeHead(200).write('begun'), { timeoutMs: 200 })
    expect(await failureOf(textOf(await slow.post()))).toMatchObject({
      code: 'upstream_failed',
      developerMessage: expect.stringContaining('200 ms'),
    })
  })

  it('reads no further ahead than its reader, and closes the connection when the reader leaves', async () => {
    const closed = Promise.withResolvers<number>()
    let sent = 0
    const { post } = await start(
      (_visit, response) => {
        response.on('close', () => closed.resolve(sent))
        const more = (): void => {
          while (sent < 64 * MIB) {
            sent += MIB
            if (!response.write(Buffer.alloc(MIB))) {
              response.once('drain', more)
              return
            }
          }
          response.end()
        }
        more()
      },
      { maxResponseBytes: 100 * MIB },
    )
    const { body } = await post()
    let read = 0
    for await (const chunk of body) {
      read += chunk.length
      if (read > MIB) break
    }
    expect(await closed.promise).toBeLessThan(64 * MIB)
  })

  it('gets a complete long answer, however slowly it is read', async () => {
    const { post } = await start((_visit, response) => {
      for (let part = 0; part < 16; part += 1) response.write(Buffer.alloc(50_000, part))
      response.end()
    })
    const chunks: Uint8Array[] = []
    for await (const chunk of (await post()).body) {
      chunks.push(chunk)
      await new Promise(setImmediate)
    }
    const whole = Buffer.concat(chunks)
    expect(whole.length).toBe(800_000)
    expect([whole[0], whole[400_000], whole.at(-1)]).toEqual([0, 8, 15])
  })

  it('fails the reader when the connection breaks within the answer', async () => {
    const { post } = await start((_visit, response) => {
      response.writeHead(200, { 'content-length': '100' }).write('begun', () => response.destroy())
    })
    expect(await failureOf(post().then(textOf))).toMatchObject({ code: 'upstream_failed', canRetry: false })
  })
})
