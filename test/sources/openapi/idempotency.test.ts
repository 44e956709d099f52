import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { type ImportedApi, importApi } from './imported-api.ts'
import { type RecordingServer, startRecordingServer } from './recording-server.ts'

let server: RecordingServer
let api: ImportedApi | undefined

beforeAll(async () => {
  server = await startRecordingServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.requests.length = 0
})
afterEach(async () => {
  await api?.close()
  api = undefined
})

async function open(
  name: string,
  schema: JsonObject,
  { method = 'post', ...options }: { method?: string; idempotencyHeader?: string } = {},
) {
  const parameters = [{ name, in: 'header', required: true, schema }]
  const paths = { '/t': { [method]: { operationId: 'op', parameters, responses: {} } } }
  api = await importApi({ paths }, { baseUrl: server.origin, ...options }, [server.host])
  return api
}

it('rule 27, OWP-93: a declared Idempotency-Key is set by the server, hidden from the model, and equal in every attempt', async () => {
  const { call, tool } = await open('idempotency-key', { type: 'string' })
  const { inputSchema, policy } = tool('op')
  expect([inputSchema.properties, inputSchema.required, policy.replay]).toEqual([{}, undefined, 'idempotent'])
  await call('op', {})
  await call('op', {})
  expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual([
    'effect-key-0',
    'effect-key-0',
  ])
})

it('OWP-93: without one, POST and PATCH are not declared repeatable and send no key', async () => {
  for (const method of ['post', 'patch']) {
    const { call, tool, close } = await open('X-Other', {}, { method })
    expect(tool('op').policy.replay).toBe('non-deterministic')
    await call('op', { 'X-Other': 'a' })
    await close()
    api = undefined
  }
  expect(server.requests.every(({ headers }) => headers['idempotency-key'] === undefined)).toBe(true)
})

it('has the form that the service requires', async () => {
  const { call } = await open('Idempotency-Key', { type: 'string', format: 'uuid' })
  await call('op', {})
  await call('op', {})
  const keys = server.requests.map(({ headers }) => headers['idempotency-key'])
  expect(keys[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(keys[1]).toBe(keys[0])
})

it('is cut to the length that the service declares', async () => {
  const { call } = await open('Idempotency-Key', { type: 'string', maxLength: 10 })
  await call('op', {})
  expect(server.requests[0]?.headers['idempotency-key']).toMatch(/^[A-Za-z0-9_-]{10}$/)
})

it('may have another name, if the operator sets it', async () => {
  const { call, tool } = await open('PayPal-Request-Id', {}, { idempotencyHeader: 'PayPal-Request-Id' })
  expect(tool('op').policy.replay).toBe('idempotent')
  await call('op', {})
  expect(server.requests[0]?.headers['paypal-request-id']).toBe('effect-key-0')
})
