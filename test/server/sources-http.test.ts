import { readFileSync, rmSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { fault } from '#kernel/base/errors'
import { type RunningServer, startServer } from '#server/start-server'
import type { OfferedTool, Source } from '#sources/kit/source'
import { sqliteSettings } from '../test-settings.ts'

/** An upstream whose tools and health the test controls. */
class Upstream {
  offered: OfferedTool[] = [greeting('Says hello.')]
  isUp = true
  announce: () => void = () => undefined

  open = (key: string): Source => ({
    ...{ key, type: 'custom', kind: 'connector' },
    discover: async () => {
      if (!this.isUp) throw fault('upstream_failed', 'It is down.')
      return { identity: { origin: 'https://upstream.example' }, tools: [...this.offered], warnings: [] }
    },
    watch: (onChange) => {
      this.announce = onChange
    },
    invoke: async ({ input, context, binding }) => {
      if (!this.isUp) throw fault('upstream_failed', 'It is down.', { canRetry: true })
      return { said: `hello ${input.name}`, to: binding.path ?? '', key: context.effectKey() }
    },
    health: () => (this.isUp ? { state: 'ready' } : { state: 'down', reason: 'It is down.' }),
    close: async () => undefined,
  })
}

function greeting(description: string, path = '/hello'): OfferedTool {
  return {
    nativeName: 'say/hello',
    description,
    inputSchema: {
      type: 'object',
      properties: { name: { type: 'string', description: 'Whom.' } },
      required: ['name'],
    },
    outputSchema: { type: 'object' },
    policy: { safetyTier: 'write', egress: 'safe-fetch' },
    binding: { path },
  }
}

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function start(upstream: Upstream, changes: Partial<Settings> = {}): Promise<RunningServer> {
  const settings = sqliteSettings({
    sources: new Map([['Greeter', { type: 'custom', kind: 'connector', open: upstream.open }]]),
    ...changes,
  })
  const server = await startServer(settings)
  closing.push(() => server.close())
  if (changes.dataFolder === undefined) closing.push(() => rmSync(settings.dataFolder, { recursive: true }))
  return server
}

const LIST = z.object({ tools: z.array(z.object({ id: z.string(), description: z.string() })) })
const RESULT = z.object({
  result: z.object({
    success: z.boolean(),
    value: z.object({ said: z.string(), to: z.string(), key: z.string() }).optional(),
    error: z.object({ message: z.string(), can_retry: z.boolean().optional() }).optional(),
  }),
})
const SOURCES = z.object({ sources: z.array(z.looseObject({ waiting: z.number() })) })

async function list({ url }: RunningServer) {
  return LIST.parse(await (await fetch(`${url}/tools`)).json()).tools
}

async function call({ url }: RunningServer, callId?: string) {
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      request: { tool_id: 'Greeter.say_hello', input: { name: 'Ada' }, call_id: callId },
    }),
  })
  return RESULT.parse(await response.json()).result
}

async function admin({ url, startTokenFile }: RunningServer, method: string, path: string, body?: object) {
  const token = readFileSync(startTokenFile, 'utf8').trim()
  const response = await fetch(`${url}/admin/${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

describe('sources on a server', () => {
  it('rule 27: tools of a source are called durably, and the upstream gets an idempotency key from the server', async () => {
    const server = await start(new Upstream())
    expect((await list(server)).map(({ id }) => id)).toEqual(['Greeter.say_hello@1.0.0'])
    const first = await call(server, 'call-7')
    expect(first).toMatchObject({ success: true, value: { said: 'hello Ada', to: '/hello' } })
    expect(first.value?.key).toMatch(/^[\w-]{20,}$/)
    expect(first.value?.key).not.toContain('call-7')
    expect((await call(server, 'call-7')).value).toEqual(first.value)
    expect((await call(server, 'call-8')).value?.key).not.toBe(first.value?.key)
  })

  it('an upstream that is down keeps its tools, also across a restart', async () => {
    const upstream = new Upstream()
    const settings = sqliteSettings()
    closing.push(() => rmSync(settings.dataFolder, { recursive: true }))
    const server = await start(
      upstream,
      settings.dataFolder === '' ? {} : { dataFolder: settings.dataFolder },
    )
    expect(await list(server)).toHaveLength(1)
    await server.close()
    upstream.isUp = false
    const again = await start(upstream, { dataFolder: settings.dataFolder })
    expect(await list(again)).toHaveLength(1)
    expect(await call(again)).toMatchObject({
      success: false,
      error: { can_retry: true },
    })
    const { body } = await admin(again, 'GET', 'sources')
    expect(SOURCES.parse(body).sources).toMatchObject([
      { key: 'Greeter', state: 'down', reason: 'It is down.', tools: 1 },
    ])
  })

  it('rule 32: a change upstream is not shown before it is accepted', async () => {
    const upstream = new Upstream()
    const server = await start(upstream)
    upstream.offered = [greeting('Says hello, louder.', '/elsewhere')]
    upstream.announce()
    await expect
      .poll(async () => SOURCES.parse((await admin(server, 'GET', 'sources')).body).sources[0]?.waiting)
      .toBe(1)
    expect((await list(server))[0]?.description).toBe('Says hello.')
    expect(await call(server)).toMatchObject({ success: false })
  })

  it('rule 29: only operators can see and change sources', async () => {
    const server = await start(new Upstream())
    const response = await fetch(`${server.url}/admin/sources`)
    expect(response.status).toBe(401)
    expect((await admin(server, 'POST', 'sources', { key: 'No good', options: {} })).status).toBe(400)
    expect((await admin(server, 'DELETE', 'sources/Greeter')).body).toMatchObject({
      message: expect.stringContaining('configuration'),
    })
    expect((await admin(server, 'POST', 'sources/Greeter/refresh', {})).body).toMatchObject({
      source: { state: 'ready' },
    })
    expect((await admin(server, 'POST', 'sources/Nobody/refresh', {})).status).toBe(400)
  })

  it('a change of credential cannot change the upstream of a source', async () => {
    const server = await start(new Upstream())
    const options = { type: 'otc', url: 'http://127.0.0.1:9', apiKey: 'k-1' }
    await admin(server, 'POST', 'sources', { key: 'Other', options })
    const asked = {
      options: [
        { ...options, apiKey: 'k-2' },
        { type: 'otc', url: options.url },
      ],
    }
    expect((await admin(server, 'POST', 'sources/find', asked)).body).toMatchObject({
      found: [[{ key: 'Other', changed: ['apiKey'] }], []],
    })
    const set = (changes: object) => admin(server, 'POST', 'sources/Other/set', { changes })
    expect((await set({ url: 'http://127.0.0.1:8' })).body).toMatchObject({
      message: expect.stringContaining('another upstream'),
    })
    expect((await set({ apiKey: null })).status).toBe(400)
    expect((await set({ apiKey: 'k-2' })).status).toBe(200)
    expect((await admin(server, 'POST', 'sources/find', asked)).body).toMatchObject({
      found: [[{ key: 'Other', changed: [] }], []],
    })
  })
})
