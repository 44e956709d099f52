import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { createGateway, type Gateway, serve } from './create-gateway.ts'

const seen: unknown[] = []
const echo = tool({
  id: 'Echo.Say@1.0.0',
  description: 'Returns its input.',
  input: { type: 'object' },
  output: {},
  run: (input) => {
    seen.push(input)
    return input
  },
})
const config = { tools: [echo], store: 'memory:', log: { level: 'silent' } } as const
let folder: string
let gateway: Gateway

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-gateway-'))
  gateway = await createGateway(config, { folder })
})

afterAll(async () => {
  await gateway.close()
  rmSync(folder, { recursive: true })
})

describe('createGateway', () => {
  it('returns the value of a call with its stored text', async () => {
    const outcome = await gateway.call('Echo.Say', { a: [1, null] }, { key: 'once' })
    expect(outcome).toMatchObject({ ok: true, value: { a: [1, null] }, valueJson: '{"a":[1,null]}' })
    const ran = seen.length
    expect(await gateway.call('Echo.Say', { a: [1, null] }, { key: 'once' })).toEqual({
      ...outcome,
      replayed: true,
    })
    expect(seen).toHaveLength(ran)
  })

  it('returns a failure as an outcome', async () => {
    expect(await gateway.call('Echo.Shout', {})).toMatchObject({
      ok: false,
      error: { code: 'tool_not_found' },
    })
  })

  const circular: Record<string, unknown> = {}
  circular.self = circular
  it.each([
    ['a bigint', { list: [1n] }, /not JSON at \/list\/0: Is a bigint/],
    ['no value', undefined, /not JSON: It is missing\. Pass an object/],
    ['a circular reference', circular, /not JSON at \/self.*contains itself/],
    ['a date', { at: new Date() }, /not JSON at \/at: Is an instance of a class/],
    ['NaN', { a: Number.NaN }, /not JSON at \/a: Is NaN/],
  ])('refuses an input with %s, and names its place', async (_title, input, message) => {
    const ran = seen.length
    const untyped: { call(tool: string, input: unknown): Promise<unknown> } = gateway
    await expect(untyped.call('Echo.Say', input)).rejects.toMatchObject({
      name: 'ToolError',
      code: 'request_invalid',
      message: expect.stringMatching(message),
    })
    expect(seen).toHaveLength(ran)
  })

  it('copies the input at the call, so later changes have no effect', async () => {
    const input = { a: 1 }
    const called = gateway.call('Echo.Say', input)
    input.a = 2
    expect(await called).toMatchObject({ value: { a: 1 } })
  })
})

describe('serve', () => {
  const everywhere = { ...config, server: { host: '0.0.0.0', port: 0 } }

  it('OTC-97: refuses to serve other machines without credentials, and names the option that allows it', async () => {
    await expect(serve(everywhere, { folder })).rejects.toThrow(/`allowAnonymous: true`/)
  })

  it('OTC-97: serves other machines with `allowAnonymous`, with a warning', async () => {
    const server = await serve(everywhere, { folder, allowAnonymous: true })
    try {
      expect(server.warnings).toEqual([expect.stringContaining('Anyone')])
    } finally {
      await server.close()
    }
  })
})
