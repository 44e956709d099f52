import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepareTools } from '#kernel/tool/prepare-tools'
import { FORBIDDEN_KEYWORDS } from '#protocols/openwop/codec-catalog'
import { ALL_IDS, CANARY, descriptorFindings, idsOf, KEYS, openwopFixtures } from './openwop-fixtures.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())

const root = { key: KEYS.root }
const narrow = { key: KEYS.narrow }

describe('GET /v1/tools', () => {
  it('OWP-10: is a bare array of schema-valid descriptors (C1)', async () => {
    const { status, headers, json } = await server.ask('/v1/tools', root)
    expect([status, headers['content-type']]).toEqual([200, 'application/json'])
    expect(json.flatMap(descriptorFindings)).toEqual([])
  })

  it('OWP-15, OWP-17: has each tool once, whatever its versions, sorted by code unit', async () => {
    const { json } = await server.ask('/v1/tools', root)
    expect(idsOf(json)).toEqual(ALL_IDS)
  })

  it('OWP-16, OWP-17: is byte for byte equal when repeated, also after a restart', async () => {
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

  it('is the newest version, or the requested one', async () => {
    const { json } = await server.ask('/v1/tools/openwop:Calculator.Add', root)
    expect(json.description).toBe('The new one.')
    const { json: older } = await server.ask('/v1/tools/openwop:Calculator.Add@1.0.0', root)
    expect(older).toMatchObject({
      toolId: 'openwop:Calculator.Add',
      description: expect.not.stringMatching('new'),
    })
  })

  it.each([
    ['openwop:odd%2Fname%2520x', 200],
    ['openwop%3Aodd%2Fname%2520x', 200],
    ['%6Fpenwop%3aodd%2fname%2520%78', 200],
    // Decoded exactly once.
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

  it('OWP-19: ignores query parameters of the list', async () => {
    const path = '/v1/tools/openwop:Who.Am'
    const { text } = await server.ask(path, root)
    expect((await server.ask(`${path}?source=nonsense&envelope=1&view=standard`, root)).text).toBe(text)
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
      expect(FORBIDDEN_KEYWORDS.filter((keyword) => text.includes(`"${keyword}":`))).toEqual([])
    }
    const byId = new Map(json.tools.map((tool: { readonly toolId: string }) => [tool.toolId, tool]))
    expect(byId.get('openwop:Odd.Shape')).not.toHaveProperty('inputSchema')
    expect(byId.get('openwop:Calculator.Add')).toMatchObject({
      inputSchema: { properties: { b: { type: ['number', 'null'] } } },
    })
  })
})
