import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { call, openSource, SIGNAL, toolOf } from './imported-api.ts'
import { type Recorded, type RecordingServer, startRecordingServer } from './recording-server.ts'
import { OPENAPI_EXAMPLES, RFC_6570_EXAMPLES } from './style-examples.ts'

let server: RecordingServer
let folder: string

beforeAll(async () => {
  server = await startRecordingServer()
  folder = mkdtempSync(join(tmpdir(), 'collet-openapi-'))
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  server.requests.length = 0
})

/** Sends one value by one parameter, and returns the request that arrived. */
async function send(parameter: JsonObject, value: JsonValue, path = '/things'): Promise<Recorded> {
  const document = {
    openapi: '3.0.3',
    info: { title: 'T', version: '1' },
    paths: {
      [path]: { get: { operationId: 'op', parameters: [{ schema: {}, ...parameter }], responses: {} } },
    },
  }
  writeFileSync(join(folder, 'api.json'), JSON.stringify(document))
  const options = { file: 'api.json', baseUrl: server.origin }
  const { source, close } = openSource(options, { allow: [server.host], folder })
  try {
    await call(source, toolOf(await source.discover(SIGNAL), 'op'), { [String(parameter.name)]: value })
  } finally {
    await close()
  }
  const [request] = server.requests
  if (request === undefined) throw new Error('nothing arrived')
  return request
}

const ARRAY = ['a', 'b c', 'd,e']
const OBJECT = { R: 100, G: 'x y' }

describe.each([
  ['RFC 6570', RFC_6570_EXAMPLES],
  ['OpenAPI 3.1', OPENAPI_EXAMPLES],
])('the examples of %s', (_standard, examples) => {
  it.each(examples)(
    '%s, %s, explode %s, %s %j → %s',
    async (place, style, explode, name, value, expected) => {
      const parameter = { name, in: place, style, explode, ...(place === 'path' ? { required: true } : {}) }
      const { url } = await send(parameter, value, place === 'path' ? `/things/{${name}}/end` : '/things')
      expect(url).toBe(place === 'path' ? `/things/${expected}/end` : `/things?${expected}`)
    },
  )
})

describe('a style without `explode` explodes only if it is `form` or `deepObject`', () => {
  it.each([
    ['form', ['a', 'b'], 'p=a&p=b'],
    ['spaceDelimited', ['a', 'b'], 'p=a%20b'],
    ['pipeDelimited', ['a', 'b'], 'p=a%7Cb'],
    ['deepObject', { k: 'v' }, 'p%5Bk%5D=v'],
  ])('%s in a query', async (style, value, expected) => {
    expect((await send({ name: 'p', in: 'query', style }, value)).url).toBe(`/things?${expected}`)
  })
})

describe('parameters in a path are serialized by their style', () => {
  it.each([
    ['simple', false, 'a b/c', 'a%20b%2Fc'],
    ['simple', false, ARRAY, 'a,b%20c,d%2Ce'],
    ['simple', true, ARRAY, 'a,b%20c,d%2Ce'],
    ['simple', false, OBJECT, 'R,100,G,x%20y'],
    ['simple', true, OBJECT, 'R=100,G=x%20y'],
    ['label', false, 5, '.5'],
    ['label', false, ARRAY, '.a,b%20c,d%2Ce'],
    ['label', true, ARRAY, '.a.b%20c.d%2Ce'],
    ['label', false, OBJECT, '.R,100,G,x%20y'],
    ['label', true, OBJECT, '.R=100.G=x%20y'],
    ['matrix', false, 'v', ';p=v'],
    ['matrix', false, ARRAY, ';p=a,b%20c,d%2Ce'],
    ['matrix', true, ARRAY, ';p=a;p=b%20c;p=d%2Ce'],
    ['matrix', false, OBJECT, ';p=R,100,G,x%20y'],
    ['matrix', true, OBJECT, ';R=100;G=x%20y'],
  ] as const)('%s, explode %s, %j → %s', async (style, explode, value, expected) => {
    const { url } = await send(
      { name: 'p', in: 'path', required: true, style, explode },
      value,
      '/things/{p}/end',
    )
    expect(url).toBe(`/things/${expected}/end`)
  })
})

describe('parameters in a query are serialized by their style', () => {
  it.each([
    ['form', true, 'a&b=c', 'p=a%26b%3Dc'],
    ['form', true, true, 'p=true'],
    ['form', true, '', 'p='],
    ['form', true, ARRAY, 'p=a&p=b%20c&p=d%2Ce'],
    ['form', false, ARRAY, 'p=a,b%20c,d%2Ce'],
    ['form', true, OBJECT, 'R=100&G=x%20y'],
    ['form', false, OBJECT, 'p=R,100,G,x%20y'],
    ['spaceDelimited', false, ['a', 'b'], 'p=a%20b'],
    ['spaceDelimited', true, ['a', 'b'], 'p=a&p=b'],
    ['spaceDelimited', false, OBJECT, 'p=R%20100%20G%20x%20y'],
    ['pipeDelimited', false, ['a', 'b'], 'p=a%7Cb'],
    ['pipeDelimited', true, ['a', 'b'], 'p=a&p=b'],
    ['pipeDelimited', false, OBJECT, 'p=R%7C100%7CG%7Cx%20y'],
    ['deepObject', true, OBJECT, 'p%5BR%5D=100&p%5BG%5D=x%20y'],
    ['deepObject', true, { a: { b: 1 }, c: ['x'] }, 'p%5Ba%5D%5Bb%5D=1&p%5Bc%5D%5B0%5D=x'],
  ] as const)('%s, explode %s, %j → %s', async (style, explode, value, expected) => {
    const { url } = await send({ name: 'p', in: 'query', style, explode }, value)
    expect(url).toBe(`/things?${expected}`)
  })

  it('reserved characters are unchanged where the document allows them, except those that would end the value', async () => {
    const { url } = await send(
      { name: 'p', in: 'query', allowReserved: true },
      "/a?b:c@d,e;f=g!$'()*[x]&h#i+j%",
    )
    expect(url).toBe('/things?p=/a?b:c@d,e;f=g!$%27()*[x]%26h%23i%2Bj%25')
  })

  it('a parameter with a media type is serialized as that media type', async () => {
    const content = { 'application/json': { schema: { type: 'object' } } }
    const { url } = await send({ name: 'p', in: 'query', content }, { a: [1, null] })
    expect(url).toBe(`/things?p=${encodeURIComponent('{"a":[1,null]}')}`)
  })

  it('no value, null and an empty list send nothing', async () => {
    expect((await send({ name: 'p', in: 'query' }, null)).url).toBe('/things')
    server.requests.length = 0
    expect((await send({ name: 'p', in: 'query' }, [])).url).toBe('/things')
  })

  it('for all strings: the service reads what the caller wrote', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (text) => {
        server.requests.length = 0
        const { url } = await send({ name: 'p', in: 'query' }, text)
        expect(new URL(url, server.origin).searchParams.getAll('p')).toEqual([text.toWellFormed()])
      }),
      { numRuns: 30 },
    )
  })
})

describe('parameters in headers and cookies', () => {
  it.each([
    ['a b', false, 'a b'],
    [['a', 'b'], false, 'a,b'],
    [OBJECT, false, 'R,100,G,x y'],
    [OBJECT, true, 'R=100,G=x y'],
  ] as const)('the header for %j, explode %s, is %s', async (value, explode, expected) => {
    // The parameter is `p` for callers and is sent in the header `P`.
    const { headers } = await send({ name: 'p', in: 'header', style: 'simple', explode }, value)
    expect(headers.p).toBe(expected)
  })

  it.each([
    ['a;b', true, 'p=a%3Bb'],
    [['a', 'b'], false, 'p=a,b'],
    [['a', 'b'], true, 'p=a; p=b'],
    [OBJECT, true, 'R=100; G=x%20y'],
    [OBJECT, false, 'p=R,100,G,x%20y'],
  ] as const)('the cookie for %j, explode %s, is %s', async (value, explode, expected) => {
    const { headers } = await send({ name: 'p', in: 'cookie', style: 'form', explode }, value)
    expect(headers.cookie).toBe(expected)
  })

  it('a header accepts no line break', async () => {
    await expect(send({ name: 'p', in: 'header' }, 'a\r\nx-evil: 1')).rejects.toThrow(
      /headers cannot contain/,
    )
    expect(server.requests).toEqual([])
  })
})

describe('rule 32: no value changes the accepted path', () => {
  it.each(['..', '.', '%2e%2e', '', null])('%j is refused or stays one segment', async (value) => {
    const sent = send({ name: 'p', in: 'path', required: true }, value, '/things/{p}/end')
    if (value === '%2e%2e') expect((await sent).url).toBe('/things/%252e%252e/end')
    else await expect(sent).rejects.toThrow(/address/)
  })

  it('for all strings: the path keeps its segments', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', minLength: 1 }), async (text) => {
        server.requests.length = 0
        const sent = send({ name: 'p', in: 'path', required: true }, text, '/things/{p}/end')
        const request = await sent.catch(() => undefined)
        if (request !== undefined) expect(request.url).toMatch(/^\/things\/[^/?#]+\/end$/)
      }),
      { numRuns: 30 },
    )
  })
})
