import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#core/json'
import { createSchemaValidator } from '#core/schema/validator'
import { importApi } from './imported-api.ts'
import { type Recorded, type RecordingServer, startRecordingServer } from './recording-server.ts'

let server: RecordingServer

beforeAll(async () => {
  server = await startRecordingServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.requests.length = 0
})

/** Sends a body that fits the tool's own input schema, and gives what arrived. */
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

  it('multipart carries files with name and type, JSON parts and plain fields', async () => {
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
    const meta = form.get('meta')
    expect(meta instanceof File ? [meta.type, await meta.text()] : meta).toEqual([
      'application/json',
      '{"k":1}',
    ])
    expect([form.get('note'), form.getAll('tags')]).toEqual(['ü', ['one', 'two']])
  })

  it('binary bodies come in base64 and arrive as bytes', async () => {
    const sent = await send(
      { 'application/octet-stream': {} },
      Buffer.from([0, 1, 254, 255]).toString('base64'),
    )
    expect([sent.headers['content-type'], [...sent.body]]).toEqual([
      'application/octet-stream',
      [0, 1, 254, 255],
    ])
  })

  it('OTC-32: a body is described, and how bytes are written is said in any case', async () => {
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

  it('of several media types the one that says most is used', async () => {
    const sent = await send(
      { 'text/plain': {}, 'application/xml': {}, 'application/json': { schema: {} } },
      1,
    )
    expect([sent.headers['content-type'], sent.body.toString()]).toEqual(['application/json', '1'])
  })
})

describe('Swagger 2.0', () => {
  const swagger = (operation: JsonObject, more: JsonObject = {}) =>
    importApi(
      {
        swagger: '2.0',
        paths: { '/things/{id}': { post: { operationId: 'op', responses: {}, ...operation } } },
        ...more,
      },
      {},
      [server.host],
    )
  const host = () => ({ host: server.host, schemes: ['http'], basePath: '/v2' })

  it('sends collection formats, paths and forms with files', async () => {
    const parameters = [
      {
        name: 'id',
        in: 'path',
        required: true,
        type: 'array',
        items: { type: 'string' },
        collectionFormat: 'pipes',
      },
      { name: 'csv', in: 'query', type: 'array', items: { type: 'string' } },
      { name: 'tsv', in: 'query', type: 'array', items: { type: 'string' }, collectionFormat: 'tsv' },
      { name: 'multi', in: 'query', type: 'array', items: { type: 'string' }, collectionFormat: 'multi' },
      { name: 'photo', in: 'formData', type: 'file', required: true },
      { name: 'names', in: 'formData', type: 'array', items: { type: 'string' } },
    ]
    const api = await swagger({ parameters, consumes: ['multipart/form-data'] }, host())
    const input = {
      id: ['a', 'b'],
      csv: ['a', 'b'],
      tsv: ['a', 'b'],
      multi: ['a', 'b'],
      body: { photo: { base64: 'AQ==', filename: 'p.png' }, names: ['x', 'y'] },
    }
    expect(createSchemaValidator(api.tool('op').inputSchema)(input)).toEqual([])
    await api.call('op', input)
    await api.close()
    const [sent] = server.requests
    expect(sent?.url).toBe('/v2/things/a%7Cb?csv=a,b&tsv=a%09b&multi=a&multi=b')
    const form = sent === undefined ? new FormData() : await formOf(sent)
    const photo = form.get('photo')
    expect(photo instanceof File ? photo.name : photo).toBe('p.png')
  })

  it('sends a JSON body whose schema is a definition, and reads the answer by another', async () => {
    const api = await swagger(
      {
        parameters: [{ name: 'thing', in: 'body', required: true, schema: { $ref: '#/definitions/Thing' } }],
        responses: { 200: { description: 'ok', schema: { $ref: '#/definitions/Thing' } } },
      },
      {
        ...host(),
        definitions: {
          Thing: {
            type: 'object',
            required: ['n'],
            properties: { n: { type: 'integer', 'x-nullable': true } },
          },
        },
      },
    )
    const { inputSchema, outputSchema } = api.tool('op')
    expect(outputSchema).toEqual({
      $ref: '#/$defs/Thing',
      $defs: { Thing: { type: 'object', properties: { n: { type: ['integer', 'null'] } }, required: ['n'] } },
    })
    expect(inputSchema.required).toEqual(['id', 'body'])
    await api.call('op', { id: '1', body: { n: 2 } })
    await api.close()
    expect(server.requests[0]?.body.toString()).toBe('{"n":2}')
  })
})
