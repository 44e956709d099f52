import { setImmediate } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { EgressPolicy } from '#egress/policy'
import { failureOf } from './failure-of.ts'
import { startSite } from './local-site.ts'

const MIB = 1_048_576
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function start(answer: Parameters<typeof startSite>[0], policy: EgressPolicy = {}) {
  const site = await startSite(answer)
  const fetch = createGuardedFetch({ allow: ['127.0.0.1'], maxResponseBytes: MIB, ...policy })
  closing.push(site.close, fetch.close)
  return { site, fetch, url: `http://127.0.0.1:${site.port}/` }
}

describe('the size of an answer', () => {
  it('OWP-81: an answer with a too large declared length is refused before its body', async () => {
    const { fetch, url } = await start((_visit, response) => {
      response.writeHead(200, { 'content-length': MIB + 1 }).flushHeaders()
    })
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'upstream_failed',
      canRetry: false,
      developerMessage: expect.stringContaining('egress.maxResponseBytes'),
    })
  })

  it('OWP-81: a body without a declared length ends at the limit', async () => {
    const { fetch, url } = await start((_visit, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536)));
      }
      response.on('drain', more)
      more()
    })
    const response = await fetch(url)
    expect(await failureOf(response.arrayBuffer())).toMatchObject({ code: 'upstream_failed' })
  })

  it('an answer of exactly the limit is complete', async () => {
    const { fetch, url } = await start((_visit, response) => response.end(Buffer.alloc(MIB)))
    expect((await (await fetch(url)).arrayBuffer()).byteLength).toBe(MIB)
  })

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
  ] as const)('OWP-81: a bomb packed with %s is counted unpacked', async (encoding, pack) => {
    const bomb = pack(Buffer.alloc(16 * MIB))
    expect(bomb.length).toBeLessThan(MIB / 8)
    const { fetch, url } = await start((visit, response) => {
      response
        .writeHead(200, { 'content-encoding': encoding })
        .end(visit.path === '/' ? bomb : pack(Buffer.from('small')))
    })
    const error = await failureOf((await fetch(url)).text())
    expect([error.code, error.developerMessage]).toEqual([
      'upstream_failed',
      expect.stringContaining(`${MIB} bytes`),
    ])
    expect(await (await fetch(`${url}small`)).text()).toBe('small')
  })

  it('OWP-81: a nested compression bomb, and too many encodings', async () => {
    const twice = gzipSync(gzipSync(Buffer.alloc(64 * MIB)))
    const { fetch, url } = await start((visit, response) => {
      const layers = visit.path === '/' ? 'gzip, gzip' : 'gzip, gzip, gzip, gzip'
      response.writeHead(200, { 'content-encoding': layers }).end(twice)
    })
    expect(await failureOf((await fetch(url)).text())).toMatchObject({ code: 'upstream_failed' })
    expect(await failureOf(fetch(`${url}four`))).toMatchObject({
      developerMessage: 'Too many content encodings.',
    })
  })

  it('a broken encoding is a failure, an unknown one is unchanged, an empty body is accepted', async () => {
    const { fetch, url } = await start((visit, response) => {
      if (visit.path === '/broken') response.writeHead(200, { 'content-encoding': 'gzip' }).end('not gzip')
      else if (visit.path === '/cut')
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('cut off').subarray(0, 15))
      else if (visit.path === '/unknown') response.writeHead(200, { 'content-encoding': 'x-own' }).end('raw')
      else response.writeHead(204, { 'content-encoding': 'gzip' }).end()
    })
    for (const path of ['broken', 'cut'])
      expect(await failureOf((await fetch(`${url}${path}`)).text())).toMatchObject({
        code: 'upstream_failed',
      })
    expect(await (await fetch(`${url}unknown`)).text()).toBe('raw')
    expect((await fetch(`${url}none`)).body).toBeNull()
  })
})

describe('timeouts of an exchange', () => {
  it('OWP-81: headers that never arrive', async () => {
    const { fetch, url } = await start(() => undefined, { timeoutMs: 100 })
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'upstream_failed',
      canRetry: false,
      developerMessage: 'No full answer within 100 ms (egress.timeoutMs).',
    })
  })

  it('OWP-81: a body that trickles or never ends, read or not', async () => {
    const closed = Promise.withResolvers<void>()
    const { fetch, url } = await start(
      (visit, response) => {
        response.write('some')
        if (visit.path === '/unread') response.once('close', () => closed.resolve())
      },
      { timeoutMs: 100 },
    )
    const response = await fetch(url)
    expect(await failureOf(response.text())).toMatchObject({ code: 'upstream_failed', canRetry: false })
    await fetch(`${url}unread`)
    await closed.promise
  })

  it('a name server that never answers', async () => {
    const { fetch } = await start(() => undefined, {
      timeoutMs: 100,
      lookup: () => new Promise(() => undefined),
    })
    expect(await failureOf(fetch('http://slow.example/'))).toMatchObject({
      code: 'upstream_failed',
      canRetry: false,
    })
  })

  it('a body that breaks before it is read fails on read', async () => {
    const broken = Promise.withResolvers<void>()
    const { fetch, url } = await start((visit, response) => {
      response.once('close', () => broken.resolve())
      response.write('some', () => visit.path === '/' && response.destroy())
    })
    const response = await fetch(url)
    await broken.promise
    await setImmediate()
    expect(await failureOf(response.text())).toMatchObject({ code: 'upstream_failed', canRetry: false })
  })

  it('a cancelled body frees its connection', async () => {
    const closed = Promise.withResolvers<void>()
    const { fetch, url } = await start((_visit, response) => {
      response.once('close', () => closed.resolve())
      response.write('some')
    })
    await (await fetch(url)).body?.cancel()
    await closed.promise
  })

  it('an abort reaches the body', async () => {
    const { fetch, url } = await start((_visit, response) => response.write('some'))
    const abort = new AbortController()
    const response = await fetch(url, { signal: abort.signal })
    const reason = new DOMException('enough', 'AbortError')
    abort.abort(reason)
    await expect(response.text()).rejects.toBe(reason)
  })
})
