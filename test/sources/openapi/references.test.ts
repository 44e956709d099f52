import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
import type { Discovery } from '#sources/kit/source'
import { openSource, SIGNAL, toolOf } from './imported-api.ts'
import { type RecordingServer, startRecordingServer } from './recording-server.ts'

let server: RecordingServer
let inner: RecordingServer
let folder: string

beforeAll(async () => {
  server = await startRecordingServer()
  inner = await startRecordingServer()
})
afterAll(async () => {
  await server.close()
  await inner.close()
})
beforeEach(() => {
  server.requests.length = 0
  inner.requests.length = 0
  const root = mkdtempSync(join(tmpdir(), 'collet-openapi-'))
  folder = join(root, 'apis')
  mkdirSync(folder)
  writeFileSync(join(root, 'secret.json'), '{"properties":{"canary":{"type":"string"}},"type":"object"}')
})
afterEach(() => {
  vi.unstubAllGlobals()
  rmSync(join(folder, '..'), { recursive: true })
})

const api = (schema: JsonObject, more: JsonObject = {}) => ({
  openapi: '3.0.3',
  info: { title: 'T', version: '1' },
  servers: [{ url: 'https://api.example.com' }],
  paths: {
    '/things': {
      post: {
        operationId: 'op',
        requestBody: { required: true, content: { 'application/json': { schema } } },
        responses: {},
      },
    },
  },
  ...more,
})

async function discoverFile(document: object | string): Promise<Discovery> {
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  writeFileSync(join(folder, 'api.json'), text)
  const { source, close } = openSource(
    { file: 'apis/api.json' },
    { folder: join(folder, '..'), allow: [server.host] },
  )
  try {
    return await source.discover(SIGNAL)
  } finally {
    await close()
  }
}

/** Serves documents by path, and imports the one at `/v1/api.yaml`. */
async function discoverUrl(documents: Readonly<Record<string, string | object>>, options: object = {}) {
  server.answer(({ url }) => {
    const document = Object.hasOwn(documents, url) ? documents[url] : undefined
    if (document === undefined) return { status: 404, body: '' }
    return { body: typeof document === 'string' ? document : JSON.stringify(document) }
  })
  const { source, close } = openSource(
    { url: `${server.origin}/v1/api.yaml`, ...options },
    { allow: [server.host] },
  )
  try {
    return await source.discover(SIGNAL)
  } finally {
    await close()
  }
}

function accepts(discovery: Discovery, body: unknown): boolean {
  const check = createSchemaValidator(toolOf(discovery, 'op').inputSchema)
  return check(JSON.parse(JSON.stringify({ body }))).length === 0
}

describe('references', () => {
  it('to other files of the folder, also indirectly and in cycles', async () => {
    mkdirSync(join(folder, 'parts'))
    writeFileSync(
      join(folder, 'parts/node.yaml'),
      'type: object\nrequired: [name]\nproperties:\n  name: { $ref: "names.json#/Name" }\n  children: { type: array, items: { $ref: "node.yaml" } }\n',
    )
    writeFileSync(join(folder, 'parts/names.json'), '{"Name":{"type":"string","minLength":2}}')
    const discovery = await discoverFile(api({ $ref: 'parts/node.yaml' }))
    expect(discovery.warnings).toEqual([])
    expect(accepts(discovery, { name: 'ab', children: [{ name: 'cd', children: [] }] })).toBe(true)
    expect(accepts(discovery, { name: 'ab', children: [{ name: 'x' }] })).toBe(false)
  })

  it('to other documents of the service, fetched with the credential of the document', async () => {
    const discovery = await discoverUrl(
      { '/v1/api.yaml': api({ $ref: '../shared/a.json#/A' }), '/shared/a.json': { A: { type: 'integer' } } },
      { headers: { 'X-Docs': 'secret' } },
    )
    expect([accepts(discovery, 1), accepts(discovery, 'x')]).toEqual([true, false])
    expect(server.requests.map(({ url, headers }) => [url, headers['x-docs']])).toEqual([
      ['/v1/api.yaml', 'secret'],
      ['/shared/a.json', 'secret'],
    ])
  })

  it('of whole path items, parameters, bodies and answers', async () => {
    const discovery = await discoverUrl({
      '/v1/api.yaml': { openapi: '3.1.0', paths: { '/things/{id}': { $ref: 'paths.json#/things' } } },
      '/v1/paths.json': {
        things: {
          parameters: [{ $ref: '#/id' }],
          get: { operationId: 'op', responses: { 200: { $ref: 'paths.json#/ok' } } },
        },
        id: { name: 'id', in: 'path', required: true, schema: { $ref: '#/text' } },
        text: { type: 'string' },
        ok: { description: 'ok', content: { 'application/json': { schema: { $ref: '#/text' } } } },
      },
    })
    const { inputSchema, outputSchema, binding } = toolOf(discovery, 'op')
    expect(inputSchema.required).toEqual(['id'])
    expect(Object.values(outputSchema?.$defs ?? {})).toEqual([{ type: 'string' }])
    // A document without servers describes the server that it comes from.
    expect(binding.baseUrl).toBe(server.origin)
  })

  it('that lead nowhere or in a cycle are reported', async () => {
    const components = {
      schemas: { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } },
    }
    const discovery = await discoverFile(
      api(
        { type: 'object', properties: { a: { $ref: '#/components/schemas/A' }, b: { $ref: '#/nowhere' } } },
        { components },
      ),
    )
    expect(discovery.warnings).toEqual([
      'The reference "#/nowhere" has no target; any value is accepted there.',
    ])
    expect(toolOf(discovery, 'op').inputSchema.$defs).toEqual({
      A: { $ref: '#/$defs/B' },
      B: { $ref: '#/$defs/A' },
    })
  })
})

describe('rule 33: no reference reaches forbidden files or addresses', () => {
  it.each([
    ['a file above the folder', '../secret.json'],
    ['an absolute file', '/etc/hostname'],
    ['a file by URL', 'file:///etc/hostname'],
    ['a file by an encoded path', '%2e%2e/secret.json'],
    ['another scheme', 'gopher://127.0.0.1/x'],
    ['data', 'data:application/json,{"type":"string"}'],
  ])('a file document: %s is not read', async (_title, $ref) => {
    const discovery = await discoverFile(api({ $ref }))
    expect(JSON.stringify(discovery.tools)).not.toMatch(/canary/)
    expect(discovery.warnings.join('\n')).toMatch(/Not read: /)
    expect(toolOf(discovery, 'op').inputSchema.properties).toEqual({
      body: { description: 'The body of the request (application/json).' },
    })
  })

  it('a link inside the folder does not lead out of it', async () => {
    symlinkSync(join(folder, '../secret.json'), join(folder, 'innocent.json'))
    const discovery = await discoverFile(api({ $ref: 'innocent.json' }))
    expect(JSON.stringify(discovery.tools)).not.toContain('canary')
    expect(discovery.warnings.join()).toMatch(/outside the folder/)
  })

  it('a document from the network reads no file', async () => {
    const discovery = await discoverUrl({ '/v1/api.yaml': api({ $ref: `file://${folder}/../secret.json` }) })
    expect(JSON.stringify(discovery.tools)).not.toContain('canary')
    expect(discovery.warnings.join()).toMatch(/is a file, but the document is not/)
  })

  it('a document from the network reaches no local address of this server, and its credential is not sent', async () => {
    const discovery = await discoverUrl(
      {
        '/v1/api.yaml': api({
          anyOf: [{ $ref: `${inner.origin}/admin` }, { $ref: 'http://169.254.169.254/latest' }],
        }),
      },
      { headers: { 'X-Docs': 'canary' } },
    )
    expect(inner.requests).toEqual([])
    expect(discovery.warnings.filter((text) => text.includes('must not reach')).length).toBe(2)
  })

  it('another origin that may be reached does not get the credential of the document', async () => {
    inner.answer(() => ({ body: '{"type":"integer"}' }))
    server.answer(() => ({ body: JSON.stringify(api({ $ref: `${inner.origin}/a.json` })) }))
    const options = { url: `${server.origin}/v1/api.yaml`, headers: { 'X-Docs': 'canary' } }
    const { source, close } = openSource(options, { allow: [server.host, inner.host] })
    expect(accepts(await source.discover(SIGNAL), 'x')).toBe(false)
    await close()
    expect(inner.requests.map(({ url, headers }) => [url, headers['x-docs']])).toEqual([
      ['/a.json', undefined],
    ])
  })

  it('following references opens no connections by itself', async () => {
    const calls: unknown[] = []
    vi.stubGlobal('fetch', (...request: unknown[]) => {
      calls.push(request)
      return Promise.reject(new Error('no'))
    })
    await discoverUrl({
      '/v1/api.yaml': api({ $ref: 'other.json' }),
      '/v1/other.json': { $ref: 'third.json#/x' },
    })
    expect(calls).toEqual([])
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/v1/api.yaml',
      '/v1/other.json',
      '/v1/third.json',
    ])
  })

  it('a document may refer to at most 200 others', async () => {
    const anyOf = Array.from({ length: 400 }, (_, index) => ({ $ref: `part-${index}.json` }))
    const parts = Object.fromEntries(anyOf.map(({ $ref }) => [`/v1/${$ref}`, {}]))
    const discovery = await discoverUrl({ '/v1/api.yaml': api({ anyOf }), ...parts })
    expect(server.requests.length).toBeLessThanOrEqual(200)
    expect(discovery.warnings.join()).toMatch(/More than 200 documents/)
  })
})

describe('documents that cannot be read', () => {
  it.each([
    ['neither JSON nor YAML', '{"a": [', /neither JSON nor YAML/],
    ['JSON that is not an OpenAPI document', { hello: 1 }, /not an OpenAPI description/],
    ['a future version', { openapi: '4.0.0', paths: {} }, /version 4\.0\.0/],
    [
      'a bomb of aliases',
      `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghi'.replaceAll(/./g, (name) => `${name}: &${name} [${Array(9).fill(`*${String.fromCharCode(name.charCodeAt(0) - 1)}`)}]\n`)}`,
      /neither JSON nor YAML/,
    ],
  ])('%s: discovery fails, so the last valid definitions stay', async (_title, document, expected) => {
    await expect(discoverFile(document)).rejects.toMatchObject({
      code: 'upstream_failed',
      message: expect.stringMatching(expected),
    })
  })

  it('a missing file, and an address that answers 500 or 404', async () => {
    const { source, close } = openSource({ file: 'missing.json' }, { folder })
    await expect(source.discover(SIGNAL)).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(source.health()).toMatchObject({ state: 'degraded', reason: expect.stringContaining('no file') })
    await close()
    await expect(discoverUrl({})).rejects.toMatchObject({ code: 'upstream_failed', message: /404/ })
  })

  it('a reference that is not an address', async () => {
    await expect(discoverFile(api({ $ref: 'http://[nowhere' }))).rejects.toMatchObject({
      code: 'upstream_failed',
      message: 'A document that this one refers to cannot be read.',
    })
  })

  it('a temporary failure of one part fails the whole document', async () => {
    server.answer(({ url }) =>
      url === '/v1/api.yaml' ? { body: JSON.stringify(api({ $ref: 'a.json' })) } : { status: 502, body: '' },
    )
    const { source, close } = openSource({ url: `${server.origin}/v1/api.yaml` }, { allow: [server.host] })
    await expect(source.discover(SIGNAL)).rejects.toMatchObject({ code: 'upstream_failed' })
    await close()
  })
})
