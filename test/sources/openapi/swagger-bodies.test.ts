import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
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

function formOf(request: Recorded): Promise<FormData> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  return new Response(new Uint8Array(request.body), { headers }).formData()
}

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
