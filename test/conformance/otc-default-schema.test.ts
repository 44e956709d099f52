import { afterAll, beforeAll, expect, it } from 'vitest'
import { key, type PrincipalsServer, startPrincipalsServer } from '../server/principals-server.ts'

let server: PrincipalsServer

beforeAll(async () => {
  server = await startPrincipalsServer({
    otc: {
      strictRequests: false,
      hideDeveloperMessages: false,
      omitListKey: undefined,
      defaultSchema: 'urn:oxp:1.0',
    },
    auth: { apiKeys: [key('root', ['*'])], jwt: undefined },
  })
})
afterAll(() => server.stop())

const post = (path: string, body: unknown) => server.ask(path, { method: 'POST', key: 'k-root', body })

it('C-16: a request without a version is answered in otc.defaultSchema', async () => {
  const list = await server.ask('/tools', { key: 'k-root' })
  expect(list.json).toMatchObject({
    $schema: 'urn:oxp:1.0',
    tools: expect.any(Array),
    items: expect.any(Array),
  })
  const request = { tool_id: 'Open.Say' }
  expect((await post('/tools/call', { request })).json.$schema).toBe('urn:oxp:1.0')
  expect((await post('/tools/call', { request, $schema: null })).json.$schema).toBe('urn:oxp:1.0')
  expect((await post('/tools/call', { request: { tool_id: 'No.Tool' } })).json.$schema).toBe('urn:oxp:1.0')
  expect((await post('/tools/call', { request: 5 })).json.$schema).toBe('urn:oxp:1.0')
  expect((await post('/tools/call', { request, $schema: 'otc://9.0' })).json.$schema).toBe('otc://1.0')
  expect((await server.ask('/tools')).json.$schema).toBe('urn:oxp:1.0')
})

it('C-16, C-17: a request with a version is answered in that version', async () => {
  const list = await server.ask('/tools?schema=otc://1.0', { key: 'k-root' })
  expect(list.json).toMatchObject({ $schema: 'otc://1.0', tools: expect.any(Array) })
  expect(list.json.items).toBeUndefined()
  const body = { $schema: 'otc://1.0', request: { tool_id: 'Open.Say' } }
  expect((await post('/tools/call', body)).json.$schema).toBe('otc://1.0')
  const asked = { key: 'k-root', headers: { 'OXP-Version': '1.0' } }
  expect((await server.ask('/tools', asked)).json.$schema).toBeUndefined()
})
