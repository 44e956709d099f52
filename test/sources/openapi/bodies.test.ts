import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
import { call, importApi } from './imported-api.ts'
import { type Recorded, type RecordingServer, startRecordingServer } from './recording-server.ts'

let server: RecordingServer

beforeAll(async () => {
  server = await startRecordingServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.requests.length = 0
})

/** Sends a body that fits the tool's own input schema, and returns the request that arrived. */
async function send(content: JsonObject, body: JsonValue): Promise<Recorded> {
  const paths = { '/things': { post: { operationId: 'op', requestBody: { content }, responses: {} } } }
  const api = await importApi({ paths }, { baseUrl: server.origin }, [server.host])
  try {
    expect(createSchemaValidator(api.tool('op').inputSchema)({ body })).toEqual([])
    await api.call('op', { body })
  } finally {
    await api.close()
  }
  const [request] = server.requests
  if (request === undefined) throw new Error('nothing arrived')
  return request
}

function formOf(request: Recorded): Promise<FormData> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  return new Response(new Uint8Array(request.body), { headers }).formData()
}

/** The parts of a multipart body as they arrived, each with its headers. */
function partsOf({ headers, body }: Recorded): readonly string[] {
  const boundary = /boundary=(\S+)$/.exec(headers['content-type'] ?? '')?.[1] ?? ''
  const [before, ...parts] = body.toString().split(`--${boundary}`)
  expect([before, parts.pop()]).toEqual(['', '--\r\n'])
  return parts.map((part) => part.replace(/^\r\n/, '').replace(/\r\n$/, ''))
}

describe('bodies', () => {
  it('JSON and its relatives arrive as JSON', async () => {
    const sent = await send({ 'application/json': { schema: { type: 'object' } } }, { a: [1, null, 'ü'] })
    expect(sent.headers['content-type']).toBe('application/json')
    expect(sent.body.toString()).toBe('{"a":[1,null,"ü"]}')
    server.requests.length = 0
    const patch = await send({ 'application/json-patch+json': { schema: {} } }, [
      { op: 'remove', path: '/a' },
    ])
    expect(patch.headers['content-type']).toBe('application/json-patch+json')
    expect(JSON.parse(patch.body.toString())).toEqual([{ op: 'remove', path: '/a' }])
  })

  it('a body that may be left out is left out', async () => {
    const requestBody = { content: { 'application/json': { schema: {} } } }
    const paths = { '/things': { post: { operationId: 'op', requestBody, responses: {} } } }
    const api = await importApi({ paths }, { baseUrl: server.origin }, [server.host])
    await api.call('op', {})
    await api.close()
    expect(server.requests[0]?.headers['content-type']).toBeUndefined()
    expect(server.requests[0]?.body.length).toBe(0)
  })

  it('a form repeats lists, and objects are JSON unless a style is given', async () => {
    const schema = {
      type: 'object',
      properties: {
        list: { type: 'array', items: {} },
        deep: { type: 'object' },
        plain: { type: 'object' },
        csv: {},
      },
    }
    const encoding = { deep: { style: 'deepObject', explode: true }, csv: { style: 'form', explode: false } }
    const sent = await send(
      { 'application/x-www-form-urlencoded': { schema, encoding } },
      { a: 'x&y=z', list: [1, 2], deep: { k: { l: 'v' } }, plain: { k: 1 }, csv: ['p', 'q'], none: null },
    )
    expect(sent.headers['content-type']).toBe('application/x-www-form-urlencoded')
    expect(sent.body.toString()).toBe(
      'a=x%26y%3Dz&list=1&list=2&deep%5Bk%5D%5Bl%5D=v&plain=%7B%22k%22%3A1%7D&csv=p,q',
    )
  })

  it.each([
    ['form', 'p=a&p=b'],
    ['spaceDelimited', 'p=a%20b'],
    ['pipeDelimited', 'p=a%7Cb'],
  ])('a field of the style %s without `explode` is sent as %s', async (style, expected) => {
    const schema = { type: 'object', properties: { p: { type: 'array', items: { type: 'string' } } } }
    const encoding = { p: { style } }
    const { body } = await send(
      { 'application/x-www-form-urlencoded': { schema, encoding } },
      { p: ['a', 'b'] },
    )
    expect(body.toString()).toBe(expected)
  })

  it.each([
    ['form', 'p=a&p=b'],
    ['pipeDelimited', 'p=a%7Cb'],
  ])('the same holds for an accepted binding that has only the style %s', async (style, expected) => {
    const content = { 'application/x-www-form-urlencoded': { schema: { type: 'object' } } }
    const paths = { '/things': { post: { operationId: 'op', requestBody: { content }, responses: {} } } }
    const api = await importApi({ paths }, { baseUrl: server.origin }, [server.host])
    const { binding, ...tool } = api.tool('op')
    const body = { property: 'body', mediaType: 'application/x-www-form-urlencoded', form: 'urlencoded' }
    const fields = { p: { file: false, encoding: { style } } }
    await call(
      api.source,
      { ...tool, binding: { ...binding, body: { ...body, fields } } },
      { body: { p: ['a', 'b'] } },
    )
    await api.close()
    expect(server.requests[0]?.body.toString()).toBe(expected)
  })

  it.each<[string, JsonObject, JsonObject, JsonValue, readonly string[]]>([
    [
      'an object is JSON and not a file',
      { type: 'object' },
      {},
      { k: 'ü' },
      ['Content-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n{"k":"ü"}'],
    ],
    [
      'a string with a content type is not a file',
      { type: 'string' },
      { contentType: 'text/markdown' },
      '# x',
      ['Content-Disposition: form-data; name="p"\r\nContent-Type: text/markdown\r\n\r\n# x'],
    ],
    [
      'a string with JSON as its content type is JSON',
      { type: 'string' },
      { contentType: 'application/json' },
      'x',
      ['Content-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n"x"'],
    ],
    [
      'a plain string has no content type',
      { type: 'string' },
      {},
      'a\nb',
      ['Content-Disposition: form-data; name="p"\r\n\r\na\nb'],
    ],
    [
      'a list repeats its name',
      { type: 'array', items: { type: 'integer' } },
      {},
      [1, 2],
      [
        'Content-Disposition: form-data; name="p"\r\n\r\n1',
        'Content-Disposition: form-data; name="p"\r\n\r\n2',
      ],
    ],
    [
      'a list of objects is a part of JSON for each',
      { type: 'array', items: { type: 'object' } },
      {},
      [{ k: 1 }, { k: 2 }],
      [
        'Content-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n{"k":1}',
        'Content-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n{"k":2}',
      ],
    ],
    [
      'a list with JSON as its content type is one part',
      { type: 'array', items: { type: 'integer' } },
      { contentType: 'application/json' },
      [1, 2],
      ['Content-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n[1,2]'],
    ],
    [
      'a list with another content type is a part for each item',
      { type: 'array', items: { type: 'string' } },
      { contentType: 'text/markdown' },
      ['a', 'b'],
      [
        'Content-Disposition: form-data; name="p"\r\nContent-Type: text/markdown\r\n\r\na',
        'Content-Disposition: form-data; name="p"\r\nContent-Type: text/markdown\r\n\r\nb',
      ],
    ],
    [
      'only a file has a filename, and its name cannot break out of the header',
      { type: 'string', format: 'binary' },
      {},
      { base64: 'AQ==', filename: 'a"\r\nX-Evil: 1.png', mediaType: 'image/png' },
      [
        'Content-Disposition: form-data; name="p"; filename="a%22%0D%0AX-Evil: 1.png"\r\nContent-Type: image/png\r\n\r\n\x01',
      ],
    ],
  ])('multipart, on the wire: %s', async (_title, property, encoding, value, parts) => {
    const schema = { type: 'object', properties: { p: property } }
    const sent = await send({ 'multipart/form-data': { schema, encoding: { p: encoding } } }, { p: value })
    expect(partsOf(sent)).toEqual(parts)
    // As a form parser reads it: files have names, everything else is a field.
    const isFile = parts.some((part) => part.includes('filename='))
    const form = await formOf(sent)
    expect(form.getAll('p').map((entry) => typeof entry === 'string')).toEqual(parts.map(() => !isFile))
  })

  it.each(['multipart/related', 'multipart/mixed; type="application/json"'])(
    '%s is sent as declared, with the fields that describe the file first',
    async (mediaType) => {
      const schema = {
        type: 'object',
        properties: { media: { type: 'string', format: 'binary' }, meta: { type: 'object' } },
      }
      const sent = await send({ [mediaType]: { schema } }, { media: { base64: 'AQ==' }, meta: { name: 'x' } })
      expect(sent.headers['content-type']).toMatch(new RegExp(`^${mediaType}; boundary=\\S+$`))
      expect(partsOf(sent)).toEqual([
        'Content-Disposition: inline; name="meta"\r\nContent-Type: application/json\r\n\r\n{"name":"x"}',
        'Content-Disposition: attachment; name="media"; filename="media"\r\nContent-Type: application/octet-stream\r\n\r\n\x01',
      ])
    },
  )

  it('multipart contains files with name and type, JSON parts and plain fields', async () => {
    const schema = {
      type: 'object',
      required: ['file'],
      properties: {
        file: { type: 'string', format: 'binary' },
        photos: { type: 'array', items: { type: 'string', format: 'binary' } },
        meta: { type: 'object' },
        note: { type: 'string' },
        tags: { type: 'array', items: { type: 'string' } },
      },
    }
    const encoding = { photos: { contentType: 'image/png, image/jpeg' } }
    const sent = await send(
      { 'multipart/form-data': { schema, encoding } },
      {
        file: { base64: Buffer.from([0, 255, 10]).toString('base64'), filename: 'a.bin', mediaType: 'x/y' },
        photos: [{ base64: 'AQ==' }, { base64: 'Ag==' }],
        meta: { k: 1 },
        note: 'ü',
        tags: ['one', 'two'],
      },
    )
    const form = await formOf(sent)
    const file = form.get('file')
    if (!(file instanceof File)) throw new Error('no file arrived')
    expect([file.name, file.type, ...new Uint8Array(await file.arrayBuffer())]).toEqual([
      'a.bin',
      'x/y',
      0,
      255,
      10,
    ])
    const photos = form
      .getAll('photos')
      .map((photo) => (photo instanceof File ? [photo.name, photo.type] : photo))
    expect(photos).toEqual([
      ['photos', 'image/png'],
      ['photos', 'image/png'],
    ])
    expect(form.get('meta')).toBe('{"k":1}')
    expect([form.get('note'), form.getAll('tags')]).toEqual(['ü', ['one', 'two']])
  })

  it('binary bodies are base64 in the input and arrive as bytes', async () => {
    const sent = await send(
      { 'application/octet-stream': {} },
      Buffer.from([0, 1, 254, 255]).toString('base64'),
    )
    expect([sent.headers['content-type'], [...sent.body]]).toEqual([
      'application/octet-stream',
      [0, 1, 254, 255],
    ])
  })

  it.each([
    ['an object', { type: 'object', required: ['id'], properties: { id: { type: 'string' } } }, { id: 'n1' }],
    ['a list', { type: 'array', items: { type: 'string' } }, ['n1']],
  ])('bytes whose schema is %s are JSON', async (_title, schema, value) => {
    const sent = await send({ 'application/octet-stream': { schema } }, value)
    expect([sent.headers['content-type'], sent.body.toString()]).toEqual([
      'application/json',
      JSON.stringify(value),
    ])
  })

  it('bytes whose schema is a binary string are bytes', async () => {
    const sent = await send(
      { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
      'AQ==',
    )
    expect([sent.headers['content-type'], [...sent.body]]).toEqual(['application/octet-stream', [1]])
  })

  it('OTC-32: a body has a description, which always states how bytes are encoded', async () => {
    const post = (requestBody: JsonObject) => ({ post: { requestBody, responses: {} } })
    const schemas = { Thing: { type: 'object', description: 'A thing.' } }
    const api = await importApi(
      {
        paths: {
          '/a': post({ content: { 'application/json': { schema: {} } } }),
          '/b': post({ content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } } }),
          '/c': post({ description: 'The photo.', content: { 'image/png': {} } }),
        },
        components: { schemas },
      },
      { baseUrl: server.origin },
    )
    const described = ['post_a', 'post_b', 'post_c'].map((name) => {
      const { body } = JSON.parse(JSON.stringify(api.tool(name).inputSchema.properties))
      return body.description
    })
    await api.close()
    expect(described).toEqual([
      'The body of the request (application/json).',
      'A thing.',
      'The photo.\n\nThe body in base64 (image/png).',
    ])
  })

  it('what is not base64 is refused before anything is sent', async () => {
    await expect(send({ 'image/png': {} }, 'not base64!')).rejects.toThrow(/must be base64/)
    expect(server.requests).toEqual([])
  })

  it('text and XML arrive as they are', async () => {
    const sent = await send({ 'application/xml': { schema: { type: 'object' } } }, '<a>ü</a>')
    expect([sent.headers['content-type'], sent.body.toString()]).toEqual(['application/xml', '<a>ü</a>'])
  })

  it('of several media types the most expressive one is used', async () => {
    const sent = await send(
      { 'text/plain': {}, 'application/xml': {}, 'application/json': { schema: {} } },
      1,
    )
    expect([sent.headers['content-type'], sent.body.toString()]).toEqual(['application/json', '1'])
  })
})
