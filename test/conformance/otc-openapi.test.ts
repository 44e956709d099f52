import { afterAll, describe, expect, it } from 'vitest'
import { OpenApiCheck } from './openapi-check.ts'
import { otcTestServer, stopOtcServers } from './otc-test-server.ts'

const check = new OpenApiCheck()

afterAll(stopOtcServers)

describe('/openapi.json', () => {
  it('is served to anybody', async () => {
    const { ask } = await otcTestServer({ apiKeys: true })
    const { status, json } = await ask('GET', '/openapi.json')
    expect(status).toBe(200)
    expect(json).toEqual(JSON.parse(JSON.stringify(check.document)))
    expect(json.openapi).toBe('3.1.0')
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
