import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Elicitation } from '#kernel/base/elicitation'
import { Secret } from '#kernel/base/secret'
import { isContentBlocksSchema } from '#kernel/tool/tool'
import { callContext } from './call-context.ts'
import { EVERYTHING, freePort, startEverything } from './everything-server.ts'
import { type ModernServer, startModernServer } from './modern-mcp-server.ts'
import { type OpenedMcp, openMcp } from './open-mcp.ts'

const ALICE = { id: 'key:alice', tenant: 'default', scopes: [] }
const BOB = { id: 'key:bob', tenant: 'default', scopes: [] }
const accept = (name: string) => async () => ({ action: 'accept', content: { name } }) as const

const opened: OpenedMcp[] = []
const started: { stop(): Promise<void> }[] = []
async function start(port: number) {
  const server = await startEverything(port)
  started.push(server)
  return server
}
const open: typeof openMcp = (...parts) => {
  const upstream = openMcp(...parts)
  opened.push(upstream)
  return upstream
}
afterEach(async () => {
  await Promise.all(opened.splice(0).map(({ source }) => source.close()))
  await Promise.all(started.splice(0).map((server) => server.stop()))
})

describe('a server of 2026-07-28', () => {
  let server: ModernServer
  beforeAll(async () => {
    server = await startModernServer()
  })
  afterAll(() => server.close())

  it('is listed and called through the egress guard', async () => {
    const { hostname, port } = new URL(server.url)
    const way = createGuardedFetch({ allow: [`${hostname}:${port}`] })
    const upstream = open({ url: server.url }, { services: { fetch: way } })
    const { tools, identity } = await upstream.discover()
    expect(identity).toEqual({ origin: new URL(server.url).origin })
    expect(tools.map(({ nativeName }) => nativeName)).toEqual(['add', 'greet', 'wait', 'steps'])
    expect(await upstream.call('add', { a: 1, b: 2 })).toBe(3)
    await upstream.source.close()
    await way.close()
  })

  it('OWP-33, OWP-37: its tools have the tier write and host-mediated egress, whatever it declares', async () => {
    const { tools } = await open({ url: server.url }).discover()
    expect(tools.map(({ policy }) => policy.safetyTier)).toEqual(['write', 'write', 'write', 'write'])
    expect(tools[0]?.policy).toMatchObject({ egress: 'host-mediated', replay: 'non-deterministic' })
    const reported = open({ url: server.url, tools: { add: { safetyTier: 'pure' } }, include: ['add'] })
    expect((await reported.discover()).tools.map(({ policy }) => policy.safetyTier)).toEqual(['pure'])
  })

  it('rule 32: a key in its address is sent, but neither pinned nor shown', async () => {
    const asked: string[] = []
    const way: typeof fetch = (resource, init) => {
      asked.push(String(resource))
      return fetch(resource, init)
    }
    const upstream = open({ url: `${server.url}?api_key=top-secret` }, { services: { fetch: way } })
    const discovery = await upstream.discover()
    expect(JSON.stringify(discovery)).not.toContain('top-secret')
    expect(discovery.tools[0]?.binding.endpoint).toMatchObject({
      url: expect.stringContaining('?api_key=sha256-'),
    })
    expect(await upstream.call('add', { a: 1, b: 2 })).toBe(3)
    expect(asked.every((address) => address.endsWith('?api_key=top-secret'))).toBe(true)
  })

  it('is probed for its era once for all callers', async () => {
    const upstream = open({ url: server.url })
    const before = server.handshakes.length
    await upstream.call('add', { a: 1, b: 1 }, { principal: ALICE })
    await upstream.call('add', { a: 1, b: 1 }, { principal: BOB })
    expect(server.handshakes.length - before).toBe(1)
  })

  it('MCP-73: asks the caller by input_required, and gets the answer', async () => {
    const upstream = open({ url: server.url })
    const [ann, bob] = await Promise.all([
      upstream.call('greet', {}, { elicit: accept('Ann') }),
      upstream.call('greet', {}, { elicit: accept('Bob') }),
    ])
    expect(ann).toEqual({ content: [{ type: 'text', text: 'Hello, Ann!' }] })
    expect(bob).toEqual({ content: [{ type: 'text', text: 'Hello, Bob!' }] })
  })

  it('a server that asks endlessly is disconnected', async () => {
    const upstream = open({ url: server.url })
    const elicit = vi.fn(async () => ({ action: 'decline' }) as const)
    await expect(upstream.call('greet', {}, { elicit })).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(elicit.mock.calls.length).toBe(10)
  })

  it('MCP-83: is notified of a cancelled call by the end of its exchange', async () => {
    const upstream = open({ url: server.url })
    await upstream.discover()
    const stop = new AbortController()
    const waiting = upstream.call('wait', {}, { signal: stop.signal })
    await upstream.call('add', { a: 1, b: 1 })
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await vi.waitUntil(() => server.aborted.length > 0)
  })

  it('MCP-82: reports its progress', async () => {
    const upstream = open({ url: server.url })
    const progress = vi.fn()
    await upstream.call('steps', {}, { progress })
    expect(progress.mock.calls).toEqual([
      [1, 2, undefined],
      [2, 2, undefined],
    ])
  })

  it('OWP-85: each call has the token of its own caller, and listing only the credential of the operator', async () => {
    const upstream = open({
      url: server.url,
      headers: { authorization: 'Bearer operator' },
      authorization: { provider: 'up', scopes: ['use'] },
    })
    const { tools } = await upstream.discover()
    expect(tools[0]?.requirements).toEqual({ authorization: [{ id: 'up', oauth2: { scopes: ['use'] } }] })
    expect(server.seen.at(-1)).toBe('Bearer operator')
    const as = (token: string) => ({ token: () => new Secret(token) })
    await upstream.call('add', { a: 1, b: 1 }, as('alice'))
    expect(server.seen.at(-1)).toBe('Bearer alice')
    await upstream.call('add', { a: 1, b: 1 }, { ...as('bob'), principal: BOB })
    expect(server.seen.at(-1)).toBe('Bearer bob')
  })

  it('§7.3: shared requests never carry the credential of one caller', async () => {
    const options = { url: server.url, authorization: { provider: 'up' } }
    const { tools } = await open(options).discover()
    const upstream = open(options)
    for (const token of ['alice', 'bob'])
      await upstream.source.invoke({
        nativeName: 'add',
        binding: tools[0]?.binding ?? {},
        input: { a: 1, b: 1 },
        context: callContext({ token: () => new Secret(token) }),
      })
    const before = server.seen.length
    await upstream.discover()
    expect(server.seen.slice(before).filter((seen) => seen !== undefined)).toEqual([])
  })

  it('MCP-47: sends a notification when its tools change', async () => {
    const upstream = open({ url: server.url })
    const onChange = vi.fn()
    upstream.source.watch?.(onChange)
    await upstream.discover()
    await vi.waitFor(
      () => {
        server.changeTools()
        expect(onChange).toHaveBeenCalled()
      },
      { timeout: 5000 },
    )
    expect((await upstream.discover()).tools.map(({ nativeName }) => nativeName)).toContain('more')
  })

  it('rule 32: a definition accepted elsewhere is not called here', async () => {
    const upstream = open({ url: server.url })
    const { tools } = await upstream.discover()
    const moved = open({ url: `${server.url}/moved` })
    const calling = moved.source.invoke({
      nativeName: 'add',
      binding: tools[0]?.binding ?? {},
      input: {},
      context: callContext(),
    })
    await expect(calling).rejects.toMatchObject({ code: 'upstream_failed', canRetry: true })
  })
})

describe('a server of the old era with sessions', () => {
  it('is called, asks, and is reconnected after a restart', async () => {
    const port = await freePort()
    let server = await start(port)
    const upstream = open({ url: server.url })
    const { tools } = await upstream.discover()
    expect(tools.map(({ nativeName }) => nativeName)).toContain('echo')
    const [left, right] = await Promise.all([
      upstream.call('trigger-elicitation-request', {}, { elicit: accept('Ann') }),
      upstream.call('trigger-elicitation-request', {}, { elicit: accept('Bob') }),
    ])
    expect([JSON.stringify(left).includes('Ann'), JSON.stringify(left).includes('Bob')]).toEqual([
      true,
      false,
    ])
    expect([JSON.stringify(right).includes('Ann'), JSON.stringify(right).includes('Bob')]).toEqual([
      false,
      true,
    ])
    await server.stop()
    await expect(upstream.call('echo', { message: 'x' })).rejects.toMatchObject({ code: 'upstream_failed' })
    await expect(upstream.discover()).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(upstream.source.health()).toMatchObject({ state: 'down' })
    server = await start(port)
    expect((await upstream.discover()).tools.length).toBe(tools.length)
    await vi.waitFor(
      async () =>
        expect(await upstream.call('echo', { message: 'x' })).toEqual({
          content: [{ type: 'text', text: 'Echo: x' }],
        }),
      { timeout: 10_000, interval: 200 },
    )
  }, 30_000)

  it('returns images as blocks, structured content as values, errors as errors', async () => {
    const upstream = open({ command: process.execPath, args: [EVERYTHING, 'stdio'] })
    const { tools, warnings } = await upstream.discover()
    expect(warnings).toEqual([])
    expect(await upstream.call('get-structured-content', { location: 'Chicago' })).toMatchObject({
      conditions: expect.any(String),
    })
    expect(await upstream.call('get-tiny-image')).toMatchObject({
      content: expect.arrayContaining([expect.objectContaining({ type: 'image', mimeType: 'image/png' })]),
    })
    await expect(upstream.call('get-sum', { a: 1 })).rejects.toMatchObject({ code: 'tool_failed' })
    const steps = vi.fn()
    await upstream.call('trigger-long-running-operation', { duration: 1, steps: 2 }, { progress: steps })
    expect(steps).toHaveBeenCalledWith(1, 2, undefined)
    const asked: Elicitation[] = []
    const url = 'https://up.example/page'
    await upstream.call(
      'trigger-url-elicitation',
      { url },
      {
        elicit: async (question) => {
          asked.push(question)
          return { action: 'decline' }
        },
      },
    )
    expect(asked).toMatchObject([{ mode: 'url', url }])
    const declared = tools.find(({ nativeName }) => nativeName === 'get-tiny-image')?.outputSchema ?? null
    expect(isContentBlocksSchema(declared)).toBe(true)
  }, 30_000)
})
