import { afterEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { type ImportedApi, importApi } from './imported-api.ts'

let api: ImportedApi | undefined
afterEach(async () => {
  await api?.close()
  api = undefined
})

async function open(document: object, options: object = {}) {
  api = await importApi({ servers: [{ url: 'https://api.example.com' }], ...document }, options)
  return api.discovery
}

const answering = (schema: JsonObject) => ({
  responses: { 200: { description: 'It.', content: { 'application/json': { schema } } } },
})

describe('the content of a document is bounded', () => {
  it('in number of tools: the others are left out, with advice', async () => {
    const paths = Object.fromEntries(
      Array.from({ length: 10_002 }, (_unused, at) => [`/p${at}`, { get: { responses: {} } }]),
    )
    const { tools, warnings } = await open({ paths })
    expect(tools.length).toBe(10_000)
    expect(warnings).toEqual([
      'Left out because there are more than 10000 tools; choose with `tags`, `methods`, `include` or `exclude`: get_p10000, get_p10001.',
    ])
    await api?.close()
    expect((await open({ paths }, { include: ['get_p1000*'] })).tools.length).toBe(3)
  })

  it('in the size of one definition', async () => {
    const values = Array.from({ length: 60_000 }, (_unused, at) => `a value of number ${at}`)
    const { tools, warnings } = await open({
      paths: {
        '/large': { get: { operationId: 'large', ...answering({ type: 'string', enum: values }) } },
        '/small': { get: { operationId: 'small', ...answering({ type: 'string' }) } },
      },
    })
    expect(tools.map(({ nativeName }) => nativeName)).toEqual(['small'])
    expect(warnings.join()).toMatch(
      /Left out because its definition has more than 1000000 characters: large\./,
    )
  })

  it('in work: parts that are referenced many times are read once', async () => {
    const schemas: Record<string, JsonObject> = { S10: { properties: { last: { type: 'string' } } } }
    for (let at = 0; at < 10; at += 1) {
      const next = { $ref: `#/components/schemas/S${at + 1}` }
      schemas[`S${at}`] = { required: ['last'], allOf: Array.from({ length: 30 }, () => next) }
    }
    const schema = { $ref: '#/components/schemas/S0' }
    const form = { content: { 'multipart/form-data': { schema } } }
    const { tools } = await open({
      paths: { '/form': { post: { operationId: 'form', requestBody: form, responses: {} } } },
      components: { schemas },
    })
    expect(tools.map(({ nativeName }) => nativeName)).toEqual(['form'])
  })
})
