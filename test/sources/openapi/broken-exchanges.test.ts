import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isToolError, type ToolError } from '#kernel/base/errors'
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
  server.answer(() => ({}))
})
afterEach(async () => {
  await api?.close()
  api = undefined
})

interface Operation {
  readonly method?: string
  readonly responses?: JsonObject
  readonly parameters?: readonly JsonObject[]
  readonly options?: object
  readonly security?: readonly JsonObject[]
}

async function open({
  method = 'get',
  responses = {},
  parameters = [],
  options = {},
  security = [],
}: Operation) {
  const paths = { '/things': { [method]: { operationId: 'op', responses, parameters, security } } }
  const components = { securitySchemes: { key: { type: 'http', scheme: 'basic' } } }
  api = await importApi({ paths, components }, { baseUrl: server.origin, ...options }, [server.host])
  return api
}

async function failureOf(calling: Promise<unknown>): Promise<ToolError> {
  const error: unknown = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!isToolError(error)) throw new Error(`expected a ToolError, got ${String(error)}`)
  return error
}

describe('an exchange that breaks', () => {
  it('rule 9, OWP-93: a request whose connection was cut is neither repeated nor marked as repeatable', async () => {
    server.answer(() => 'cut')
    for (const method of ['get', 'post', 'put']) {
      server.requests.length = 0
      const { call, close } = await open({ method })
      const error = await failureOf(call('op', {}))
      await close()
      api = undefined
      expect([error.code, error.canRetry, server.requests.length]).toEqual(['upstream_failed', false, 1])
    }
  })

  it('rule 9: nothing was sent to an unreachable service, so the call may be repeated', async () => {
    const port = await freePort()
    const paths = { '/things': { post: { operationId: 'op', responses: {} } } }
    api = await importApi({ paths }, { baseUrl: `http://127.0.0.1:${port}` }, [`127.0.0.1:${port}`])
    const error = await failureOf(api.call('op', {}))
    expect([error.code, error.canRetry]).toEqual(['upstream_failed', true])
  })

  it('the call ends with its signal', async () => {
    server.answer(() => 'hang')
    const { call } = await open({})
    const abort = new AbortController()
    const calling = call('op', {}, { signal: abort.signal })
    abort.abort(new Error('timeout of the call'))
    await expect(calling).rejects.toThrow('timeout of the call')
  })

  it('a closed source ends its calls and accepts no more', async () => {
    server.answer(() => 'hang')
    const { call, source } = await open({ method: 'post' })
    const calling = call('op', {})
    await source.close()
    expect([(await failureOf(calling)).code, (await failureOf(call('op', {}))).canRetry]).toEqual([
      'upstream_failed',
      false,
    ])
    await source.close()
  })

  it('rule 33: a service at an address that is not allowed is not reached', async () => {
    const paths = { '/things': { get: { operationId: 'op', responses: {} } } }
    api = await importApi({ paths, servers: [{ url: server.origin }] }, {}, [])
    expect((await failureOf(api.call('op', {}))).code).toBe('egress_denied')
    expect(server.requests).toEqual([])
  })

  it('rule 33: a redirect of a write is returned as an answer and not followed', async () => {
    server.answer(() => ({ status: 307, headers: { location: '/other' }, body: '' }))
    const { call } = await open({ method: 'post' })
    expect((await failureOf(call('op', {}))).message).toMatch(/307 \(a redirect, which is not followed\)/)
    expect(server.requests.length).toBe(1)
  })
})

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}
