import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toDescriptor } from '#protocols/openwop/codec-catalog'
import { openwopFixtures } from './openwop-fixtures.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())

describe('the JSON Schemas of the documents', () => {
  it('OWP-07: are served separately, without a credential', async () => {
    const { status, json } = await server.ask('/v1/schemas')
    expect(status).toBe(200)
    expect(json.schemas).toContain('/v1/schemas/tool-descriptor.schema.json')
    expect(json.schemas).toContain('/v1/schemas/run-event.schema.json')
    for (const path of json.schemas) {
      const { status, json: schema } = await server.ask(path)
      expect([status, schema.$id]).toEqual([200, path])
      expect(JSON.stringify(schema)).not.toContain('#/components')
      expect(() => new Ajv2020({ strict: false, validateFormats: false }).compile(schema)).not.toThrow()
    }
    expect(await server.ask('/v1/schemas/nothing.schema.json')).toMatchObject({
      status: 404,
      json: { error: 'not_found', message: expect.stringContaining('/v1/schemas/error.schema.json') },
    })
  })

  it('OWP-30, OWP-31: the descriptor schema accepts the server’s descriptors and refuses what the RFC refuses', async () => {
    const { json } = await server.ask('/v1/schemas/tool-descriptor.schema.json')
    const check = new Ajv2020({ strict: false }).compile(json)
    for (const descriptor of openwopFixtures().map(toDescriptor)) expect(check(descriptor)).toBe(true)
    expect(check({ toolId: 'openwop:a.b', source: 'node-pack', safetyTier: 'exec' })).toBe(false)
    expect(check({ toolId: 'openwop:a.b', source: 'node-pack' })).toBe(false)
    expect(check({ toolId: 'a', source: 'mcp', safetyTier: 'read', secret: 'x' })).toBe(false)
  })

  it('are in the package, with those of the RFC', () => {
    const { files } = JSON.parse(readFileSync('package.json', 'utf8'))
    expect(files).toContain('docs')
  })
})
