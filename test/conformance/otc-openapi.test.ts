import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import {
  CALL_ID_HEADER,
  ERROR_CODE_HEADER,
  IDEMPOTENCY_KEY_HEADER,
  RUN_HEADER,
  SESSION_HEADER,
} from '#protocols/call-wire'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { OXP_VERSION_HEADER } from '#protocols/otc/wire'
import { OpenApiCheck } from './openapi-check.ts'
import { otcTestServer, stopOtcServers } from './otc-test-server.ts'

const check = new OpenApiCheck()

afterAll(stopOtcServers)

describe('/openapi.json', () => {
  it('is served without a credential', async () => {
    const { ask } = await otcTestServer({ apiKeys: true })
    const { status, json } = await ask('GET', '/openapi.json')
    expect(status).toBe(200)
    expect(json).toEqual(JSON.parse(JSON.stringify(check.document)))
    expect(json.openapi).toBe('3.1.0')
  })

  it('is the file with the version of the server, minified', async () => {
    const { ask } = await otcTestServer()
    const { text } = await ask('GET', '/openapi.json')
    const file = readFileSync(new URL('../../src/protocols/otc/openapi.json', import.meta.url), 'utf8')
    expect(text).toBe(JSON.stringify(JSON.parse(file)).replace('"version":"0.0.0"', '"version":"0.0.0-test"'))
  })

  it('names the headers that the code reads and writes', () => {
    const { security, components } = check.document
    expect(security.flatMap((way) => Object.keys(way))).toEqual(['bearer', ...API_KEY_HEADERS])
    expect(Object.keys(components.securitySchemes)).toEqual(['bearer', ...API_KEY_HEADERS])
    const { parameters, responses } = check.document.paths['/tools/call'].post
    const sent = [OXP_VERSION_HEADER, IDEMPOTENCY_KEY_HEADER, RUN_HEADER, SESSION_HEADER]
    expect(parameters.map((parameter) => check.resolve(parameter))).toMatchObject(
      sent.map((name) => ({ name })),
    )
    const answered = [OXP_VERSION_HEADER, CALL_ID_HEADER, ERROR_CODE_HEADER, RUN_HEADER]
    expect(Object.keys(responses[200].headers)).toEqual(answered)
  })

  it('has no broken reference', () => {
    expect(check.brokenReferences()).toEqual([])
  })

  it('describes exactly the routes that exist', async () => {
    const documented = Object.entries(check.document.paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((member) => member !== 'parameters')
        .map((method) => `${method.toUpperCase()} ${path}`),
    )
    const { routes } = await otcTestServer()
    const served = routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    expect(documented.toSorted()).toEqual(served.toSorted())
  })

  it.each(Object.entries(check.document.components.schemas))(
    '%s is a valid JSON Schema 2020-12',
    (_name, schema) => {
      expect(check.compile(schema)).toBeTypeOf('function')
    },
  )

  it('points only at schemas that exist', () => {
    const names = JSON.stringify(check.document).matchAll(/"#\/components\/schemas\/(\w+)"/g)
    const known = Object.keys(check.document.components.schemas)
    expect([...names].map(([, name]) => name).filter((name) => !known.includes(name ?? ''))).toEqual([])
  })

  it('C-20: a result has a value or an error, never both, never neither, and nothing else', () => {
    const validate = check.compile({ $ref: '#/components/schemas/CallToolResponse' })
    const base = { call_id: 'c', duration: 1 }
    expect(validate({ ...base, success: true, value: null })).toBe(true)
    expect(validate({ ...base, success: false, error: { message: 'm' } })).toBe(true)
    for (const wrong of [
      { ...base, success: true },
      { ...base, success: true, error: { message: 'm' } },
      { ...base, success: false, value: 1 },
      { ...base, success: true, value: 1, error: { message: 'm' } },
      { ...base, success: true, value: 1, extra: 1 },
    ]) {
      expect(validate(wrong)).toBe(false)
    }
  })
})
