import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ARCADE_SCHEMA_ID } from '#protocols/otc/wire'
import { key, type PrincipalsServer, startPrincipalsServer } from '../server/principals-server.ts'

let server: PrincipalsServer

beforeAll(async () => {
  server = await startPrincipalsServer({ auth: { apiKeys: [key('root', ['*'])], jwt: undefined } })
})
afterAll(() => server.stop())

const OTC = 'otc://1.0'
const root = { key: 'k-root' }
const call = { tool_id: 'Open.Say' }
const post = (body: object, headers: Record<string, string> = {}) => ({
  ...root,
  method: 'POST',
  body,
  headers,
})

describe('OTC-17: every answer has a $schema', () => {
  it.each<[string, Parameters<PrincipalsServer['ask']>[1], number, string]>([
    ['/health', {}, 200, OTC],
    ['/tools', root, 200, OTC],
    ['/tools', {}, 401, OTC],
    ['/tools', { ...root, headers: { origin: 'https://elsewhere.example' } }, 403, OTC],
    ['/nothing', {}, 404, OTC],
    ['/nothing', { headers: { origin: 'https://elsewhere.example' } }, 403, OTC],
    ['/tools', { ...root, method: 'DELETE' }, 405, OTC],
    ['/calls', root, 200, OTC],
    ['/calls/none', root, 404, OTC],
    ['/tools/call', post({ request: call }), 200, OTC],
    ['/tools/call', post(call), 200, OTC],
    ['/tools/call', post({ $schema: 'urn:oxp:1.0', ...call }), 200, 'urn:oxp:1.0'],
    ['/tools/call', post({ $schema: OTC, ...call }, { 'OXP-Version': '1.0' }), 200, OTC],
    ['/tools/call', post({ request: call }, { 'OXP-Version': '1.0' }), 200, 'urn:oxp:1.0'],
    ['/call', post({ request: call }), 200, ARCADE_SCHEMA_ID],
    ['/call', post({ request: { tool_id: 'No.Tool' } }), 400, ARCADE_SCHEMA_ID],
    ['/call', post(call), 200, OTC],
    ['/tools/call', post({ tool_id: 'No.Tool' }), 400, OTC],
  ])('%s %j is %i with %s', async (path, asked, status, schema) => {
    const answer = await server.ask(path, asked)
    expect([answer.status, answer.json.$schema]).toEqual([status, schema])
  })

  it('except where the version is in a header of the request', async () => {
    const headers = { 'OXP-Version': '1.0' }
    expect((await server.ask('/tools', { ...root, headers })).json).not.toHaveProperty('$schema')
    expect((await server.ask('/tools/call', post(call, headers))).json).not.toHaveProperty('$schema')
  })
})

describe('401', () => {
  it('has the reason for a refused credential in WWW-Authenticate, and none where no credential was sent', async () => {
    expect((await server.ask('/tools')).headers['www-authenticate']).toBe('Bearer')
    for (const headers of [{ authorization: 'Bearer wrong' }, { 'x-api-key': 'wrong' }]) {
      const answer = await server.ask('/tools', { headers })
      const reason = /error_description="([^"]+)"$/.exec(answer.headers['www-authenticate'] ?? '')?.[1]
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer error="invalid_token", /)
      expect(answer.json.message.startsWith(reason)).toBe(true)
    }
  })
})
