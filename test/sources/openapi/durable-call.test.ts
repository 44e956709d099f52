import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type { StatefulContext, Tool } from '#kernel/tool/tool'
import type { OfferedTool, Source } from '#sources/kit/source'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from '#testing/test-gateway'
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

/** The tool as the kernel runs it. */
function toTool(source: Source, { nativeName, binding, ...offered }: OfferedTool): Tool {
  const { description, inputSchema, outputSchema, requirements, policy } = offered
  const prepared = prepareTool(
    {
      id: 'Api.Op@1.0.0',
      catalogId: 'connector:Api.Op',
      description,
      input: inputSchema,
      output: outputSchema,
      policy,
      ...(requirements === undefined ? {} : { requirements }),
      run: (input: JsonObject, context: StatefulContext<unknown>) =>
        source.invoke({ nativeName, binding, input, context }),
    },
    { source: 'connector', describeParameters: false, onWarning: () => undefined },
  )
  if (prepared.tool === undefined) throw new Error(JSON.stringify(prepared.findings))
  return prepared.tool
}

async function openTool(method: string, parameters: readonly JsonObject[] = [], more: JsonObject = {}) {
  const content = {
    'application/json': { schema: { type: 'object', properties: { id: {} }, required: ['id'] } },
  }
  const responses = { 200: { description: 'ok', content } }
  const operation = { operationId: 'op', parameters, responses, ...more }
  const components = { securitySchemes: { key: { type: 'apiKey', in: 'query', name: 'key' } } }
  const paths = { '/t': { [method]: operation } }
  api = await importApi({ paths, components, security: [{ key: [] }] }, { baseUrl: server.origin }, [
    server.host,
  ])
  return openTestGateway([toTool(api.source, api.tool('op'))])
}

const SECRETS = new Map([['api_key', new Secret('canary-secret')]])
const call = (key: string) => callRequest('Api.Op', { key, secrets: SECRETS })

it('rules 1, 9 and 27: a refused request is sent again under the same key, and an answered one never', async () => {
  const gateway = await openTool('post', [
    { name: 'Idempotency-Key', in: 'header', schema: { type: 'string' } },
  ])
  server.answer(() => ({ status: 429, headers: { 'retry-after': '3' }, body: '' }))
  const refused = errorOf(await gateway.call(ALICE, call('mine')))
  expect([refused.code, refused.canRetry, refused.retryAfterMs]).toEqual(['upstream_failed', true, 3_000])
  server.answer(() => ({ body: '{"id":1}' }))
  expect(gist(await gateway.call(ALICE, call('mine')))).toBe('ok {"id":1}')
  expect(gist(await gateway.call(ALICE, call('mine')))).toBe('ok {"id":1}')
  expect(gist(await gateway.call(ALICE, call('other')))).toBe('ok {"id":1}')
  const keys = server.requests.map(({ headers }) => headers['idempotency-key'])
  expect([keys.length, keys[1], new Set(keys).size]).toEqual([3, keys[0], 2])
  expect(keys.join()).not.toMatch(/mine|other/)
})

it('rule 10: an answer that does not fit its schema is reported, and the effect is not repeated', async () => {
  const gateway = await openTool('post')
  server.answer(() => ({ body: '{"no":"id"}' }))
  const error = errorOf(await gateway.call(ALICE, call('mine')))
  expect([error.code, error.canRetry, error.effect]).toEqual(['output_invalid', false, 'unknown'])
  await gateway.call(ALICE, call('mine'))
  expect(server.requests.length).toBe(1)
})

it('OWP-59: input that does not fit is not sent', async () => {
  const gateway = await openTool('get', [{ name: 'n', in: 'query', schema: { type: 'integer' } }])
  const request = callRequest('Api.Op', { input: { n: 'x' }, secrets: SECRETS })
  expect(gist(await gateway.call(ALICE, request))).toBe('input_invalid')
  expect(server.requests).toEqual([])
})

it('OTC-82: a member whose name has a percent sign is named when its value does not fit', async () => {
  const schema = { type: 'object', properties: { 'discount 50%': { type: 'string', pattern: '^[0-9]+$' } } }
  const gateway = await openTool('post', [], {
    requestBody: { content: { 'application/json': { schema } } },
  })
  const input = { body: { 'discount 50%': 'x' } }
  const error = errorOf(await gateway.call(ALICE, callRequest('Api.Op', { input, secrets: SECRETS })))
  expect([error.code, error.details?.issues]).toEqual([
    'input_invalid',
    [{ parameter: 'body', pointer: '/body/discount 50%', message: 'Must match the pattern ^[0-9]+$' }],
  ])
  expect(server.requests).toEqual([])
})

it('T-20: the text of a failure contains no credential', async () => {
  const gateway = await openTool('get')
  server.answer(({ url }) => ({ status: 500, headers: { 'content-type': 'text/plain' }, body: `at ${url}` }))
  const error = errorOf(await gateway.call(ALICE, call('mine')))
  expect(error.message).toBe('GET /t answered 500: at /t?key=[redacted]')
})
