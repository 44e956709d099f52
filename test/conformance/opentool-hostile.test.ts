import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { CallFailure, connect, opentool } from '#client/index'
import type { JsonObject } from '#kernel/base/json'
import { startFakeToolServer } from '../client/fake-tool-server.ts'
import { cpuMsSince } from '../cpu-time.ts'
import { startOpentoolServer } from './opentool-test-server.ts'

const START = '"opentool":"1.1.0","info":{"title":"t","version":"1"}'
const A_FUNCTION = { name: 'f', description: '', parameters: [] }
/** Far more than any of these documents needs, far less than their expansion would. */
const SOON_MS = 5_000

function documentText(schemas: string, functions: string = JSON.stringify([A_FUNCTION])): string {
  return `{${START},"functions":${functions},"schemas":${schemas}}`
}

/** 2^60 strings when its references are inlined. */
function billionLaughs(): string {
  const schemas: Record<string, JsonObject> = { s0: { type: 'string' } }
  for (let index = 1; index <= 60; index += 1) {
    const before = { $ref: `#/schemas/s${index - 1}` }
    schemas[`s${index}`] = { type: 'object', properties: { a: before, b: before } }
  }
  return documentText(JSON.stringify(schemas))
}

function deep(levels: number): string {
  return `${'{"type":"array","items":'.repeat(levels)}{"type":"string"}${'}'.repeat(levels)}`
}

/** Loads this text as the document of a server with the client. */
async function loadFrom(text: string) {
  await using server = await startFakeToolServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(text)
  })
  const client = opentool.connect(server.url, { maxRetries: 0 })
  const started = process.cpuUsage()
  const loaded = await client.load().catch((error: unknown) => error)
  expect(cpuMsSince(started)).toBeLessThan(SOON_MS)
  return loaded
}

describe('a server with a hostile document', () => {
  it.each([
    ['a billion laughs', billionLaughs()],
    ['100 000 levels', documentText(`{"D":${deep(100_000)}}`)],
    ['300 levels', documentText(`{"D":${deep(300)}}`)],
  ])('OTS-26, OTS-63: %s is soon reported as a failure of the server', async (_what, text) => {
    const failure = await loadFrom(text)
    expect(failure).toBeInstanceOf(CallFailure)
    expect(failure).toMatchObject({ class: 'server', message: expect.stringContaining('OTS-26') })
  })

  it('OTS-22, OTS-63: a reference cycle is cut, and its function can be used', async () => {
    const node = {
      type: 'object',
      properties: { next: { $ref: '#/schemas/Node' }, self: { $ref: '#/schemas/Alias' } },
    }
    const parameters = [{ name: 'node', schema: { $ref: '#/schemas/Node' }, required: true }]
    const text = documentText(
      JSON.stringify({ Node: node, Alias: { $ref: '#/schemas/Node' } }),
      JSON.stringify([{ ...A_FUNCTION, parameters }]),
    )
    const loaded = await loadFrom(text)
    expect(JSON.stringify(loaded)).not.toContain('$ref')
    expect(loaded).toMatchObject({
      functions: [{ parameters: [{ schema: { type: 'object', properties: { next: { type: 'object' } } } }] }],
    })
  })

  it('OTS-21, OTS-26: names like __proto__ are plain data: in functions, parameters, schemas and results', async () => {
    const text = `{${START},"functions":[{"name":"__proto__","description":"","parameters":[
      {"name":"__proto__","schema":{"$ref":"#/schemas/__proto__"},"required":true}],
      "return":{"name":"__proto__","schema":{"type":"string"}}}],
      "schemas":{"__proto__":{"type":"object","properties":{"polluted":{"type":"string"}}}}}`
    await using server = await startFakeToolServer(({ method, body }, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        method === 'GET'
          ? text
          : `{"jsonrpc":"2.0","result":{"__proto__":"value"},"error":null,"id":${JSON.stringify(body.id)}}`,
      )
    })
    const client = connect(server.url, { protocol: 'opentool' })
    const [tool] = await client.list()
    expect([tool?.id, JSON.stringify(tool?.input)]).toEqual([
      '__proto__',
      expect.stringContaining('"properties":{"__proto__":{"type":"object"'),
    ])
    const { value } = await client.call('__proto__', JSON.parse('{"__proto__":{"polluted":"x"}}'))
    expect(value).toBe('value')
    expect(server.requests.at(-1)?.text).toContain('"params":{"__proto__":{"polluted":"x"}}')
    expect(await client.get('constructor')).toBeUndefined()
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
    const dangling = await loadFrom(documentText('{"A":{"$ref":"#/schemas/constructor"}}'))
    expect(dangling).toMatchObject({ class: 'server', message: expect.stringContaining('OTS-21') })
  })
})

describe('a hostile caller', () => {
  it('OTS-43: members with names like __proto__ are ordinary arguments', async () => {
    await using server = await startOpentoolServer()
    const raw =
      '{"jsonrpc":"2.0","method":"echo","params":{"__proto__":{"value":"inherited"},"constructor":1},"id":"c1"}'
    const { json } = await server.ask('POST', '/opentool/call', { raw })
    expect(json.error).toMatchObject({ code: 400, message: expect.stringContaining('value') })
  })
})

describe('100 000 functions in one document', () => {
  it('OTS-26, OTS-63: are validated, loaded, and read by the client, in seconds and 512 MB', async () => {
    const program = join(import.meta.dirname, 'large-document-process.ts')
    const flags = [
      '--conditions=collet-source',
      '--disable-warning=ExperimentalWarning',
      '--max-old-space-size=512',
    ]
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, program])
    const tookMs: Record<string, number> = JSON.parse(stdout)
    expect(Object.keys(tookMs)).toEqual(['validate', 'load', 'client load', 'client list', 'client calls'])
    for (const [step, took] of Object.entries(tookMs)) expect([step, took < 20_000]).toEqual([step, true])
  }, 90_000)
})
