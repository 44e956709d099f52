import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { ANONYMOUS } from '#kernel/base/principal'
import type { HttpRequest } from '#protocols/http-exchange'
import { ARCADE_SCHEMA_ID } from '#protocols/otc/wire'
import { cpuMsSince } from '../cpu-time.ts'
import { type FixtureTool, otcFixtures } from './otc-fixtures.ts'
import { otcTestServer, stopOtcServers } from './otc-test-server.ts'

const HEADER = { 'OXP-Version': '1.0' }

afterAll(stopOtcServers)

describe('list', () => {
  it('C-07, C-08, C-11: each dialect gets its shape', async () => {
    const { ask } = await otcTestServer({
      toolkits: new Map([['Calculator', 'A toolkit for calculations.']]),
    })
    const keys = async (path: string, sent = {}) => Object.keys((await ask('GET', path, sent)).json)
    expect(await keys('/tools')).toEqual(['$schema', 'tools', 'tool_facts'])
    expect(await keys('/tools?$schema=urn:oxp:1.0')).toEqual(['$schema', 'tools', 'items', 'tool_facts'])
    expect(await keys('/tools', { headers: HEADER })).toEqual(['items', 'tool_facts'])
    expect(await keys('/tools', { body: { $schema: 'otc://1.0' } })).toEqual([
      '$schema',
      'tools',
      'tool_facts',
    ])
    expect(await keys('/tools?schema=otc://1.0')).toEqual(['$schema', 'tools', 'tool_facts'])
    expect((await ask('GET', '/uts/tools')).json).toHaveLength(6)
    const { json } = await ask('GET', '/tools', { body: { $schema: ARCADE_SCHEMA_ID } })
    expect(json.tools[0].toolkit).toEqual({
      name: 'Calculator',
      description: 'A toolkit for calculations.',
      version: '1.0.0',
    })
  })

  it('OTC-23, OTC-27, C-14, OTC/T-22: every version is listed under its full id, in order of registration', async () => {
    const { ask } = await otcTestServer({ tools: otcFixtures('versions').tools })
    const { json } = await ask('GET', '/tools?schema=urn:oxp:1.0')
    const ids = ['1.0.0', '1.1.0', '1.10.0', '1.9.0'].map((version) => `Calculator.Add@${version}`)
    for (const list of [json.tools, json.items]) {
      const listed = list.filter(({ name }: { name: string }) => name === 'Calculator_Add')
      expect(listed.map(({ id }: { id: string }) => id)).toEqual(ids)
      expect(listed.map(({ version }: { version: string }) => version)).toEqual(
        ids.map((id) => id.split('@')[1]),
      )
    }
  })

  it('OTC/T-31: an operator can drop one of the two keys', async () => {
    const keys = async (omitListKey: 'tools' | 'items') =>
      Object.keys((await (await otcTestServer({ omitListKey })).ask('GET', '/tools?schema=urn:oxp:1.0')).json)
    expect(await keys('tools')).toEqual(['$schema', 'items', 'tool_facts'])
    expect(await keys('items')).toEqual(['$schema', 'tools', 'tool_facts'])
  })

  it('is paginated on request, and all pages together equal the list', async () => {
    const { ask } = await otcTestServer()
    const whole = (await ask('GET', '/tools')).json
    const tools = []
    let path: string | undefined = '/tools?limit=4'
    while (path !== undefined) {
      const { json, headers } = await ask('GET', path)
      expect(Object.keys(json.tool_facts)).toEqual(json.tools.map(({ id }: { id: string }) => id))
      tools.push(...json.tools)
      const cursor: string | undefined = json.next_cursor
      path = cursor === undefined ? undefined : `/tools?limit=4&cursor=${cursor}`
      expect(headers.link).toBe(path === undefined ? undefined : `<${path}>; rel="next"`)
    }
    expect(tools).toEqual(whole.tools)
    expect(whole).not.toHaveProperty('next_cursor')
  })

  it('links to the next page where the list is a bare array', async () => {
    const { ask } = await otcTestServer()
    const first = await ask('GET', '/uts/tools?limit=5')
    expect(first.json).toHaveLength(5)
    const link = /<(.*)>; rel="next"/.exec(first.headers.link ?? '')?.[1] ?? ''
    const last = await ask('GET', link)
    expect(last.json).toHaveLength(1)
    expect(last.headers).not.toHaveProperty('link')
  })

  it.each(['limit=0', 'limit=1001', 'limit=x', 'limit=-1', 'cursor=nothing', 'limit=2&cursor='])(
    'refuses a page requested by %s',
    async (query) => {
      const { ask } = await otcTestServer()
      expect(await ask('GET', `/tools?${query}`)).toMatchObject({
        status: 400,
        json: { $schema: 'otc://1.0' },
      })
    },
  )

  it('OTC-18: an unsupported version is 400 on both lists', async () => {
    const { ask } = await otcTestServer()
    for (const path of ['/tools', '/uts/tools']) {
      expect(await ask('GET', path, { headers: { 'OXP-Version': '9.0' } })).toMatchObject({ status: 400 })
    }
  })

  it('is answered with 304 if the client has it', async () => {
    const { ask } = await otcTestServer()
    const { headers } = await ask('GET', '/tools')
    const etag = headers.etag ?? ''
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    expect(headers).toMatchObject({
      'cache-control': 'private, no-cache',
      vary: expect.stringContaining('oxp-version'),
    })
    for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await ask('GET', '/tools', { headers: { 'If-None-Match': tags } })
      expect(again).toMatchObject({ status: 304, text: '', headers: { etag, vary: headers.vary } })
    }
    for (const tags of ['"other"', etag.slice(1, -1)]) {
      expect(await ask('GET', '/tools', { headers: { 'If-None-Match': tags } })).toMatchObject({
        status: 200,
      })
    }
    const other = await ask('GET', '/tools', { headers: { ...HEADER, 'If-None-Match': etag } })
    expect(other.status).toBe(200)
  })

  it('is compressed on request, with its own ETag', async () => {
    const { routes, ask } = await otcTestServer()
    const plain = await ask('GET', '/tools')
    const route = routes.find(({ method, path }) => method === 'GET' && path === '/tools')
    const reply = await route?.handle(listRequest({ 'accept-encoding': 'br, gzip;q=0.5' }))
    expect(reply?.headers).toMatchObject({ 'content-encoding': 'gzip' })
    expect(reply?.headers.etag).not.toBe(plain.headers.etag)
    expect(reply?.body).toBeInstanceOf(Uint8Array)
    const bytes = reply?.body instanceof Uint8Array ? reply.body : Buffer.alloc(0)
    expect(gunzipSync(bytes).toString()).toBe(plain.text)
    const tag = reply?.headers.etag ?? ''
    expect(
      await route?.handle(listRequest({ 'accept-encoding': 'gzip', 'if-none-match': tag })),
    ).toMatchObject({
      status: 304,
    })
    for (const coding of ['gzip;q=0', 'identity', 'gzip; q=0.000']) {
      const identity = await route?.handle(listRequest({ 'accept-encoding': coding }))
      expect(identity?.headers).not.toHaveProperty('content-encoding')
    }
  })

  it('is prepared once: 304 takes no longer with 10 000 tools', async () => {
    const tools = Array.from(
      { length: 10_000 },
      (_unused, index): FixtureTool => ({
        id: `Big.Tool${index}@1.0.0`,
        description: 'One of many.',
        input: { type: 'object' },
        output: {},
        run: () => null,
      }),
    )
    const { routes } = await otcTestServer({ tools })
    const route = routes.find(({ method, path }) => method === 'GET' && path === '/tools')
    const first = await route?.handle(listRequest({}))
    const again = listRequest({ 'if-none-match': first?.headers.etag ?? '' })
    const rounds = 20
    const started = process.cpuUsage()
    for (let round = 0; round < rounds; round += 1) {
      expect(await route?.handle(again)).toMatchObject({ status: 304 })
    }
    expect(cpuMsSince(started) / rounds).toBeLessThan(2)
  })
})

/** A request as the HTTP server hands it to the route. */
function listRequest(headers: Record<string, string>): HttpRequest {
  return {
    method: 'GET',
    path: '/tools',
    query: new URLSearchParams(),
    headers,
    params: {},
    body: undefined,
    principal: ANONYMOUS,
    traceId: 't',
  }
}
