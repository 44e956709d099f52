import { describe, expect, it } from 'vitest'
import type { FixtureTool } from './otc-fixtures.ts'
import { otcTestServer } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const RING = { tool_id: 'Doorbell.Ring@0.1.0', input: { doorbell_id: 'doorbell42' } }

describe('own calls (rule 10)', () => {
  it('shows state and outcome to the principal that called, and to nobody else', async () => {
    const { ask } = otcTestServer({ apiKeys: true })
    const alice = { 'OXP-API-Key': 'k-alice' }
    await ask('POST', '/tools/call', { headers: alice, body: { request: { ...ADD, call_id: 'a/b c' } } })
    const { status, json, headers } = await ask('GET', '/calls/a%2Fb%20c', { headers: alice })
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(json).toEqual({
      $schema: 'urn:oxp:1.0',
      call_id: 'a/b c',
      record: 'record-of-a/b c',
      tool_id: 'Calculator.Add@1.0.0',
      state: 'succeeded',
      attempt: 1,
      created_at: '1970-01-01T00:00:00.000Z',
      finished_at: '1970-01-01T00:00:01.000Z',
      expired: false,
      result: { call_id: 'a/b c', duration: 1.5, success: true, value: 3 },
    })
    const bob = await ask('GET', '/calls/a%2Fb%20c', { headers: { 'OXP-API-Key': 'k-bob' } })
    const unknown = await ask('GET', '/calls/none', { headers: { 'OXP-API-Key': 'k-bob' } })
    expect([bob.status, unknown.status]).toEqual([404, 404])
    expect(bob.text).toBe(unknown.text)
  })

  it('asks a running call to stop with 202, and tells how an ended one ended', async () => {
    const { ask } = otcTestServer()
    const slow = { ...RING, call_id: 'slow', input: { doorbell_id: 'doorbell-slow' } }
    const running = ask('POST', '/tools/call', { body: { request: slow } })
    const asked = await ask('DELETE', '/calls/slow')
    expect(asked).toMatchObject({ status: 202, json: { state: 'running' } })
    expect(asked.json).not.toHaveProperty('result')
    await running
    expect(await ask('DELETE', '/calls/slow')).toMatchObject({ status: 200, json: { state: 'failed' } })
    expect(await ask('DELETE', '/calls/none')).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })
})

describe('challenges', () => {
  async function challenged(tool?: FixtureTool) {
    const server = otcTestServer(tool === undefined ? {} : { tools: [tool] })
    const toolId = tool?.id ?? 'Gmail.GetEmails'
    const { json } = await server.ask('POST', '/tools/call', { body: { request: { tool_id: toolId } } })
    return { ...server, challenge: json.missing_requirements.authorization[0] }
  }

  it('OTC-78: check_url answers 200 with the status and nothing else, to anybody', async () => {
    const { ask, gateway, challenge } = await challenged()
    const path = new URL(challenge.check_url).pathname
    expect(await ask('GET', path)).toMatchObject({ status: 200, text: '{"status":"pending"}' })
    for (const status of ['completed', 'failed'] as const) {
      const record = gateway.challenges.get(challenge.id)
      if (record !== undefined) gateway.challenges.set(challenge.id, { ...record, status })
      expect((await ask('GET', path)).json).toEqual({ status })
    }
    expect(await ask('GET', '/challenges/none/status')).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })

  it('OTC-78: a challenge nobody met in time has failed', async () => {
    const { ask, gateway, challenge } = await challenged()
    const record = gateway.challenges.get(challenge.id)
    if (record !== undefined) gateway.challenges.set(challenge.id, { ...record, expiresAtMs: 1 })
    expect((await ask('GET', `/challenges/${challenge.id}/status`)).json).toEqual({ status: 'failed' })
  })

  it('T-16: url shows which provider is meant and how to pass its token', async () => {
    const { ask, challenge } = await challenged()
    const { status, headers, text } = await ask('GET', new URL(challenge.url).pathname)
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(text).toContain('no sign-in service for google')
    expect(text).toContain('gmail.readonly')
    expect(text).toContain('&quot;authorization&quot;')
    expect(await ask('GET', '/challenges/none')).toMatchObject({ status: 404 })
  })

  it('the page runs nothing and escapes everything', async () => {
    const hostile = `<script>alert("1")</script>'&`
    const { ask, challenge } = await challenged({
      id: 'Evil.Tool@1.0.0',
      description: 'd',
      input: {},
      output: null,
      requirements: { authorization: [{ id: hostile, oauth2: { scopes: [hostile] } }] },
      run: () => null,
    })
    const { headers, text } = await ask('GET', `/challenges/${challenge.id}`)
    expect(text).not.toContain('<script')
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; /,
    )
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
  })
})
