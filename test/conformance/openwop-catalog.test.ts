import { METHODS } from 'node:http'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepareTools } from '#core/prepare-tools'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { FORBIDDEN } from '#protocols/openwop/codec-compact-schema'
import { CANARY, descriptorFindings, KEYS, openwopFixtures } from './openwop-fixtures.ts'
import { type OpenwopAnswer, type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())

const root = { key: KEYS.root }
const narrow = { key: KEYS.narrow }

const ALL_IDS = [
  'connector:slack.post',
  'mcp:fs.read',
  'openwop:Calculator.Add',
  'openwop:Gate.Open',
  'openwop:Mail.Send',
  'openwop:Odd.Shape',
  'openwop:Who.Am',
  'openwop:odd/name%20x',
  'workflow:daily-report',
  'x-host-acme-shell',
]

function idsOf(tools: readonly { readonly toolId: string }[]): string[] {
  return tools.map(({ toolId }) => toolId)
}

/** All of an answer but what differs between any two: the clock and the trace. */
function wholeOf({ status, headers, text }: OpenwopAnswer): object {
  const { date: _date, traceparent: _trace, ...others } = headers
  return { status, headers: others, text }
}

describe('GET /v1/tools', () => {
  it('OWP-10: is a bare array of schema-valid descriptors (C1)', async () => {
    const { status, headers, json } = await server.ask('/v1/tools', root)
    expect([status, headers['content-type']]).toEqual([200, 'application/json'])
    expect(json.flatMap(descriptorFindings)).toEqual([])
  })

  it('OWP-15, OWP-17: holds each tool once, whatever its versions, sorted by code unit', async () => {
    const { json } = await server.ask('/v1/tools', root)
    expect(idsOf(json)).toEqual(ALL_IDS)
  })

  it('OWP-16, OWP-17: reads byte for byte the same again, also after a restart', async () => {
    const first = await server.ask('/v1/tools', root)
    const second = await server.ask('/v1/tools', root)
    const restarted = await startOpenwopServer({ tools: openwopFixtures().toReversed() })
    const third = await restarted.ask('/v1/tools', root)
    await restarted.close()
    expect(second.text).toBe(first.text)
    expect(third.text).toBe(first.text)
    expect(third.headers.etag).toBe(first.headers.etag)
  })

  it('OWP-15: two tools cannot have one id', () => {
    const tool = { description: 'x', input: {}, output: {}, run: () => 1, catalogId: 'openwop:same' }
    const prepared = prepareTools([
      { definition: { ...tool, id: 'A.One@1.0.0' } },
      { definition: { ...tool, id: 'A.Two@1.0.0' } },
    ])
    expect(prepared.ok ? [] : prepared.findings.map(({ where }) => where)).toEqual(['catalogId'])
  })

  it('OWP-20: input and output schemas compile', async () => {
    const { json } = await server.ask('/v1/tools', root)
    for (const { inputSchema, outputSchema = {} } of json) {
      const ajv = new Ajv2020({ strict: false })
      expect(ajv.compile(inputSchema)).toBeTypeOf('function')
      expect(ajv.compile(outputSchema)).toBeTypeOf('function')
    }
  })

  it('OWP-24: carries no credential material, whatever an author wrote into requirements', async () => {
    for (const path of ['/v1/tools', '/v1/tools?view=compact', '/v1/tools/openwop:Mail.Send']) {
      const { text } = await server.ask(path, root)
      expect(text).toContain('openwop:Mail.Send')
      expect(text).not.toContain(CANARY)
      expect(text).not.toMatch(/"(?:secret|credential|credentials|token|apiKey|password)":/)
    }
  })

  it('C1: ?envelope=1 wraps the same rows, ?view=standard changes nothing', async () => {
    const { text } = await server.ask('/v1/tools', root)
    expect((await server.ask('/v1/tools?envelope=1', root)).text).toBe(`{"tools":${text}}`)
    for (const query of ['view=standard', 'view=', 'view=COMPACT', 'view=x', 'envelope=0', 'unknown=1']) {
      expect((await server.ask(`/v1/tools?${query}`, root)).text).toBe(text)
    }
  })

  it('OWP-19: ?source= filters, and composes with views', async () => {
    const { json: all } = await server.ask('/v1/tools', root)
    for (const source of ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension']) {
      const wanted = all.filter((tool: { readonly source: string }) => tool.source === source)
      expect((await server.ask(`/v1/tools?source=${source}`, root)).json).toEqual(wanted)
      const { json } = await server.ask(`/v1/tools?view=compact&source=${source}`, root)
      expect(idsOf(json.tools)).toEqual(idsOf(wanted))
      expect((await server.ask(`/v1/tools?envelope=1&source=${source}`, root)).json.tools).toEqual(wanted)
    }
    expect((await server.ask('/v1/tools?source=host-extension', narrow)).text).toBe('[]')
  })

  it.each(['source=', 'source=shell', 'source=MCP', 'source=mcp&source=workflow', 'source=toString'])(
    'OWP-19: ?%s is a validation_error',
    async (query) => {
      const { status, json } = await server.ask(`/v1/tools?${query}`, root)
      expect([status, json.error]).toEqual([400, 'validation_error'])
    },
  )
})

describe('GET /v1/tools/{toolId}', () => {
  it('OWP-14, OWP-18: is the row of the list', async () => {
    const { json: all } = await server.ask('/v1/tools', root)
    const { json: discovery } = await server.ask('/.well-known/openwop')
    for (const tool of all) {
      const { status, json } = await server.ask(`/v1/tools/${encodeURIComponent(tool.toolId)}`, root)
      expect([status, json]).toEqual([200, tool])
      expect(discovery.toolCatalog.sources).toContain(tool.source)
    }
  })

  it('gives the newest version, and no id has one', async () => {
    const { json } = await server.ask('/v1/tools/openwop:Calculator.Add', root)
    expect(json.description).toBe('The new one.')
    expect((await server.ask('/v1/tools/openwop:Calculator.Add@1.0.0', root)).status).toBe(404)
  })

  it.each([
    ['openwop:odd%2Fname%2520x', 200],
    ['openwop%3Aodd%2Fname%2520x', 200],
    ['%6Fpenwop%3aodd%2fname%2520%78', 200],
    // Decoded once, and only once.
    ['openwop:odd%2Fname%20x', 404],
    ['openwop%253Aodd%252Fname%252520x', 404],
    ['openwop:odd/name%2520x', 404],
    ['__conformance_nonexistent_tool__', 404],
    ['__proto__', 404],
    ['%00', 404],
    ['x'.repeat(10_000), 404],
    ['%F0%9F%98%80', 404],
    ['%ZZ', 400],
    ['%ff', 400],
  ])('OWP-27: decodes the segment once: %s', async (segment, status) => {
    expect((await server.ask(`/v1/tools/${segment}`, root)).status).toBe(status)
  })

  it('OWP-19: ignores what only a list knows', async () => {
    const path = '/v1/tools/openwop:Who.Am'
    const { text } = await server.ask(path, root)
    expect((await server.ask(`${path}?source=nonsense&envelope=1&view=standard`, root)).text).toBe(text)
  })
})

describe('who sees what', () => {
  it.each([
    ['missing', {}],
    ['malformed', { authorization: 'Basic abc' }],
    ['empty', { authorization: 'Bearer ' }],
    ['unknown', { authorization: 'Bearer k-nobody' }],
    ['unknown, in a key header', { 'x-api-key': 'k-nobody' }],
    ['one good and one bad', { authorization: `Bearer ${KEYS.root}`, 'x-api-key': 'k-nobody' }],
  ])('OWP-12, OWP-13: a %s credential is 401 everywhere, in the flat envelope', async (_title, headers) => {
    for (const path of [
      '/v1/tools',
      '/v1/tools?source=bad',
      '/v1/tools/openwop:Who.Am',
      '/v1/tools/openwop:Mail.Send',
      '/v1/tools/nothing',
    ]) {
      const answer = await server.ask(path, { headers })
      expect(answer.status).toBe(401)
      expect(answer.headers['www-authenticate']).toBe('Bearer')
      expect(Object.keys(answer.json)).toEqual(['error', 'message'])
      expect(answer.json.error).toBe('unauthenticated')
    }
  })

  it.each(API_KEY_HEADERS)('a key in %s is a credential too, as Vary says', async (name) => {
    const { status, headers } = await server.ask('/v1/tools', { headers: { [name]: KEYS.root } })
    expect(status).toBe(200)
    expect(headers.vary).toContain(name)
  })

  it('OWP-12: before any key is configured, /v1 serves anonymous (rule 28)', async () => {
    const open = await startOpenwopServer({ auth: { apiKeys: [], jwt: undefined } })
    const { status, json } = await open.ask('/v1/tools', { headers: { authorization: 'Bearer anything' } })
    await open.close()
    expect(status).toBe(200)
    expect(idsOf(json)).toContain('openwop:Calculator.Add')
    expect(idsOf(json)).not.toContain('openwop:Mail.Send')
  })

  it('OWP-21: a principal without scopes gets the tools that ask for none', async () => {
    const { json } = await server.ask('/v1/tools', narrow)
    const withheld = ['openwop:Mail.Send', 'x-host-acme-shell']
    expect(idsOf(json)).toEqual(ALL_IDS.filter((id) => !withheld.includes(id)))
  })

  it('OWP-22, OWP-97: withheld and unknown ids answer the same to the byte', async () => {
    for (const query of ['', '?view=compact']) {
      const unknown = wholeOf(await server.ask(`/v1/tools/openwop:Mail.Sent${query}`, narrow))
      for (const id of ['openwop:Mail.Send', 'x-host-acme-shell', 'nothing']) {
        const answer = await server.ask(`/v1/tools/${id}${query}`, narrow)
        expect(wholeOf(answer)).toEqual(unknown)
        expect(answer.json.error).toBe('not_found')
      }
    }
    const known = await server.ask('/v1/tools/openwop:Mail.Send', root)
    const withheld = await server.ask('/v1/tools/openwop:Mail.Send', {
      ...narrow,
      headers: { 'if-none-match': known.headers.etag ?? '', 'accept-encoding': 'gzip' },
    })
    const unknown = await server.ask('/v1/tools/nothing', {
      ...narrow,
      headers: { 'if-none-match': known.headers.etag ?? '', 'accept-encoding': 'gzip' },
    })
    expect(wholeOf(withheld)).toEqual(wholeOf(unknown))
  })

  it.each(['HEAD', 'POST', 'DELETE', 'OPTIONS'])(
    'OWP-22, OWP-97: %s of a withheld id is %s of an unknown one',
    async (method) => {
      const unknown = await server.ask('/v1/tools/openwop:Mail.Sent', { ...narrow, method })
      const withheld = await server.ask('/v1/tools/openwop:Mail.Send', { ...narrow, method })
      expect(wholeOf(withheld)).toEqual(wholeOf(unknown))
      expect(withheld.status).toBe(method === 'HEAD' ? 404 : 405)
    },
  )

  it('OWP-22, OWP-97: with a wrong credential existing and unknown ids answer the same', async () => {
    const wrong = { key: 'k-nobody' }
    const unknown = wholeOf(await server.ask('/v1/tools/nothing', wrong))
    for (const id of ['openwop:Mail.Send', 'openwop:Who.Am']) {
      expect(wholeOf(await server.ask(`/v1/tools/${id}`, wrong))).toEqual(unknown)
    }
  })

  it('OWP-14: a 404 carries no challenge', async () => {
    const { headers, text } = await server.ask('/v1/tools/openwop:Mail.Send', narrow)
    expect(headers['www-authenticate']).toBeUndefined()
    expect(text).not.toMatch(/scope/)
  })

  it('OWP-23: who asks comes from the credential alone', async () => {
    const { text } = await server.ask('/v1/tools', narrow)
    for (const query of ['tenant=globex', 'tenantId=globex&principal=root', 'scopes=*', 'workspace=x']) {
      expect((await server.ask(`/v1/tools?${query}`, narrow)).text).toBe(text)
    }
    const headers = { 'x-tenant-id': 'globex', 'openwop-tenant': 'globex', 'x-scopes': '*' }
    expect((await server.ask('/v1/tools', { ...narrow, headers })).text).toBe(text)
    const other = await server.ask('/v1/tools', { key: KEYS.other })
    expect(idsOf(other.json)).toEqual(ALL_IDS.filter((id) => id !== 'x-host-acme-shell'))
  })
})

describe('?view=compact', () => {
  const CLOSED = ['toolId', 'source', 'safetyTier', 'title', 'description', 'inputSchema']

  it('OWP-25: shows the same tools with fewer members, each also by id', async () => {
    for (const who of [root, narrow]) {
      const { json: standard } = await server.ask('/v1/tools', who)
      const { json } = await server.ask('/v1/tools?view=compact', who)
      expect(Object.keys(json)).toEqual(['tools'])
      expect(idsOf(json.tools)).toEqual(idsOf(standard))
      for (const tool of json.tools) {
        expect(Object.keys(tool).filter((member) => !CLOSED.includes(member))).toEqual([])
        const one = await server.ask(`/v1/tools/${encodeURIComponent(tool.toolId)}?view=compact`, who)
        expect(one.json).toEqual(tool)
      }
    }
  })

  it('OWP-25: input schemas are objects without the forbidden keywords, or absent', async () => {
    const { json } = await server.ask('/v1/tools?view=compact', root)
    for (const { inputSchema } of json.tools) {
      if (inputSchema === undefined) continue
      expect(inputSchema).toMatchObject({ type: 'object', properties: {} })
      const text = JSON.stringify(inputSchema)
      expect(FORBIDDEN.filter((keyword) => text.includes(`"${keyword}":`))).toEqual([])
    }
    const byId = new Map(json.tools.map((tool: { readonly toolId: string }) => [tool.toolId, tool]))
    expect(byId.get('openwop:Odd.Shape')).not.toHaveProperty('inputSchema')
    expect(byId.get('openwop:Calculator.Add')).toMatchObject({
      inputSchema: { properties: { b: { type: ['number', 'null'] } } },
    })
  })
})

describe('the catalog is read-only', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])('OWP-11: %s changes nothing', async (method) => {
    const before = await server.ask('/v1/tools', root)
    for (const path of ['/v1/tools', '/v1/tools/openwop:Who.Am', '/v1/tools/new', '/v1/openapi.json']) {
      const answer = await server.ask(path, {
        ...root,
        method,
        headers: { 'content-type': 'application/json' },
        body: '{"toolId":"openwop:New.Tool","source":"mcp","safetyTier":"read"}',
      })
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD'])
      expect(answer.json.error).toBe('method_not_allowed')
    }
    expect((await server.ask('/v1/tools', root)).text).toBe(before.text)
  })

  it.each(METHODS.filter((method) => !['GET', 'HEAD', 'CONNECT'].includes(method)))(
    'OWP-11, OWP-95: %s is 405 in the flat envelope, with and without a body',
    async (method) => {
      for (const sent of [{}, { headers: { 'content-type': 'application/json' }, body: '{' }]) {
        const answer = await server.ask('/v1/tools', { ...root, method, ...sent })
        expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD'])
        expect(answer.json).toEqual({ error: 'method_not_allowed', message: expect.any(String) })
      }
    },
  )

  it('OWP-11: a GET that carries a body is a GET, and no header makes it another method', async () => {
    const before = await server.ask('/v1/tools', root)
    const headers = { 'x-http-method-override': 'DELETE', 'content-type': 'application/json' }
    const answer = await server.ask('/v1/tools', { ...root, headers, body: '{"tools":[]' })
    expect([answer.status, answer.text]).toEqual([200, before.text])
  })

  it.each([
    ['/v1/tools', root, 200],
    ['/v1/tools?view=compact', root, 200],
    ['/v1/tools?source=shell', root, 400],
    ['/v1/tools/openwop:Who.Am', root, 200],
    ['/v1/tools/nothing', root, 404],
    ['/v1/tools', {}, 401],
    ['/.well-known/openwop', {}, 200],
    ['/v1/openapi.json', {}, 200],
  ])('OWP-11: HEAD %s is GET without the body', async (path, who, status) => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
      const get = await server.ask(path, { ...who, headers })
      const head = await server.ask(path, { ...who, headers, method: 'HEAD' })
      expect([head.status, head.text]).toEqual([status, ''])
      expect(wholeOf({ ...head, text: get.text })).toEqual(wholeOf(get))
    }
  })
})

describe('caching', () => {
  it.each(['/v1/tools', '/v1/tools?view=compact', '/v1/tools/openwop:Who.Am'])(
    '%s has a strong ETag, answers 304 and compresses when asked',
    async (path) => {
      const plain = await server.ask(path, root)
      const etag = plain.headers.etag ?? ''
      expect(etag).toMatch(/^"[\w-]+"$/)
      expect(plain.headers['cache-control']).toBe('private, no-cache')
      expect(plain.headers.vary).toMatch(/^accept-encoding, authorization, /)
      const again = await server.ask(path, { ...root, headers: { 'if-none-match': `"x", W/${etag}` } })
      expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag])
      const packed = await server.ask(path, { ...root, headers: { 'accept-encoding': 'gzip' } })
      expect(packed.headers['content-encoding']).toBe('gzip')
      expect(packed.headers.etag).not.toBe(etag)
    },
  )

  it("one principal's ETag says nothing to another", async () => {
    const { headers } = await server.ask('/v1/tools', root)
    const answer = await server.ask('/v1/tools', {
      ...narrow,
      headers: { 'if-none-match': headers.etag ?? '' },
    })
    expect(answer.status).toBe(200)
  })
})

describe('errors below /v1', () => {
  it.each([
    ['GET', '/v1/runs/none', 404, 'not_found'],
    ['POST', '/v1/runs', 404, 'not_found'],
    ['GET', '/v1', 404, 'not_found'],
    ['GET', '/v1/tools/', 404, 'not_found'],
    ['GET', '/v1/tools/a/b', 404, 'not_found'],
    ['GET', '/v1/%zz', 400, 'validation_error'],
  ])('OWP-13: %s %s is %i in the flat envelope', async (method, path, status, error) => {
    const answer = await server.ask(path, { ...root, method, isUndocumented: true })
    expect(answer.status).toBe(status)
    expect(answer.json).toEqual({ error, message: expect.any(String) })
  })

  it('OWP-13: so is a foreign Host or Origin', async () => {
    for (const path of ['/v1/tools', '/v1/none', '/.well-known/openwop']) {
      for (const headers of [{ origin: 'https://evil.example' }, { host: 'evil.example' }]) {
        const answer = await server.ask(path, { isUndocumented: true, headers })
        expect([answer.status, answer.json.error]).toEqual([403, 'forbidden'])
      }
    }
  })

  it('elsewhere they stay plain', async () => {
    const { json } = await server.ask('/v1x', { isUndocumented: true })
    expect(Object.keys(json)).toEqual(['message'])
  })
})
