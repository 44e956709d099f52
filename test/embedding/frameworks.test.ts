import { randomBytes } from 'node:crypto'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { afterEach, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { createHandler, type Handler } from '#server/handler'

const KEY = randomBytes(32).toString('base64url')
const BASE = '/agent'
const runs: string[] = []

const bump = tool({
  id: 'Counter.Bump@1.0.0',
  description: 'Counts one up, and says so on the way.',
  input: {
    type: 'object',
    properties: { by: { type: 'string', description: 'Who counts.' } },
    required: ['by'],
  },
  output: { type: 'string' },
  policy: { safetyTier: 'write' },
  run: ({ by }, { progress }) => {
    runs.push(String(by))
    progress(1, 2, 'half')
    progress(2, 2, 'done')
    return `${by} counted`
  },
})

const stopping: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of stopping.splice(0).toReversed()) await stop()
  runs.length = 0
})

async function open(): Promise<Handler> {
  const handler = await createHandler(
    {
      tools: [bump],
      store: 'memory:',
      auth: { apiKeys: [{ id: 'agent', key: KEY }] },
      log: { level: 'silent' },
    },
    { basePath: BASE },
  )
  stopping.push(handler.close)
  return handler
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stopping.push(() => new Promise((resolve) => server.close(resolve)))
  stopping.push(async () => server.closeAllConnections())
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

const listening = (listener: RequestListener) => listen(createServer(listener))

/** Each returns the address of the program that the handler is mounted in. */
const PROGRAMS: Readonly<Record<string, (handler: Handler) => Promise<string>>> = {
  'node:http': ({ listener }) => listening(listener),
  Express: ({ listener }) => listening(express().use(BASE, listener)),
  'Express that has read the body': ({ listener }) =>
    listening(express().use(express.json()).use(BASE, listener)),
  async Fastify({ listener }) {
    const app = fastify()
    app.register(
      async (scope) => {
        scope.removeAllContentTypeParsers()
        scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
        scope.all('/*', (request, reply) => {
          reply.hijack()
          listener(request.raw, reply.raw)
        })
      },
      { prefix: BASE },
    )
    stopping.push(() => app.close())
    return await app.listen({ port: 0, host: '127.0.0.1' })
  },
  Hono: ({ fetch }) =>
    listening(getRequestListener(new Hono().all(`${BASE}/*`, (context) => fetch(context.req.raw)).fetch)),
  // Next itself is as large as a third of all our other packages: next.long.test.ts runs it where it is installed.
  'a route handler as Next calls it': ({ fetch }) =>
    listening(getRequestListener((request) => fetch(asNextRequest(request)))),
}

/** Next's own request class behind a proxy object: only members that are read from the target itself work. */
function asNextRequest(request: Request): Request {
  class NextRequest extends Request {
    readonly nextUrl = new URL(request.url)
  }
  return new Proxy(new NextRequest(request), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

async function callOtc(url: string, callId: string, by: string, key = KEY) {
  const body = { request: { tool_id: 'Counter.Bump', call_id: callId, input: { by } } }
  const reply = await fetch(`${url}${BASE}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    body: JSON.stringify(body),
  })
  return { status: reply.status, body: await reply.json() }
}

describe.each(Object.keys(PROGRAMS))('mounted in %s', (name) => {
  const mount = async () => await PROGRAMS[name]?.(await open())

  it('answers durable calls, and refuses callers without a key', async () => {
    const url = `${await mount()}`
    const first = await callOtc(url, 'c-1', 'Ann')
    expect(first).toMatchObject({ status: 200, body: { result: { success: true, value: 'Ann counted' } } })
    expect(await callOtc(url, 'c-1', 'Ann')).toMatchObject({
      status: 200,
      body: { result: { value: 'Ann counted' } },
    })
    expect(runs).toEqual(['Ann'])
    expect((await callOtc(url, 'c-2', 'Bob', 'wrong')).status).toBe(401)
    expect((await fetch(`${url}${BASE}/nothing`, { headers: { 'x-api-key': KEY } })).status).toBe(404)
    expect((await fetch(`${url}${BASE}/health`)).status).toBe(200)
  })

  it('streams to the official MCP client', async () => {
    const url = `${await mount()}`
    const client = new Client({ name: 'test', version: '1.0.0' })
    const requestInit = { headers: { 'x-api-key': KEY } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}${BASE}/mcp`), { requestInit }))
    stopping.push(() => client.close())
    const received: (string | undefined)[] = []
    const onprogress = ({ message }: { readonly message?: string | undefined }) => void received.push(message)
    const { content } = await client.callTool(
      { name: 'Counter_Bump', arguments: { by: 'Cleo' } },
      { onprogress },
    )
    expect(content).toMatchObject([{ type: 'text', text: '"Cleo counted"' }])
    expect(received).toEqual(['half', 'done'])
  })
})

describe('a handler', () => {
  it('answers a Request without any server', async () => {
    const { fetch: ask } = await open()
    const reply = await ask(new Request(`http://localhost:3000${BASE}/health`))
    expect(reply.status).toBe(200)
    expect(reply.headers.get('connection')).toBeNull()
    const empty = await ask(new Request(`http://localhost:3000${BASE}/health`, { method: 'HEAD' }))
    expect([empty.status, await empty.text()]).toEqual([200, ''])
  })

  it('answers only for addresses and its configured name', async () => {
    const { fetch: ask } = await open()
    const reply = await ask(new Request(`http://rebound.example.com${BASE}/health`))
    expect(reply.status).toBe(403)
  })

  it('requires credentials, because it does not know who can reach it', async () => {
    const config = { tools: [bump], store: 'memory:', log: { level: 'silent' } } as const
    await expect(createHandler(config)).rejects.toThrow('without credentials')
    const open = await createHandler(config, { allowAnonymous: true })
    stopping.push(open.close)
    expect((await open.fetch(new Request('http://localhost/health'))).status).toBe(200)
  })

  it('reports a body that another handler has consumed', async () => {
    const { listener } = await open()
    const url = await listening((request, response) => {
      request.resume().on('end', () => listener(request, response))
    })
    expect((await callOtc(url, 'c-1', 'Eve')).status).toBe(400)
    expect(runs).toEqual([])
  })

  it('reports a missing public address', async () => {
    expect((await open()).warnings.join()).toContain('server.publicUrl is not set')
  })

  it('refuses calls once it drains, with a reason', async () => {
    const handler = await open()
    await handler.drain()
    expect(handler.isReady()).toBe(false)
    const reply = await handler.fetch(
      new Request(`http://localhost${BASE}/tools/call`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': KEY },
        body: JSON.stringify({ request: { tool_id: 'Counter.Bump', call_id: 'c-1', input: { by: 'D' } } }),
      }),
    )
    expect(await reply.text()).toContain('cannot take new calls right now')
    expect(runs).toEqual([])
  })
})
