import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ANONYMOUS } from '#kernel/base/principal'
import { requireTools } from '#kernel/tool/prepare-tools'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { callRequest, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import type { FixtureTool } from './otc-fixtures.ts'
import { type OtcTestServerOptions, otcTestServer, stopOtcServers } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const EMAILS = { tool_id: 'Gmail.GetEmails@1.2.0' }

afterAll(stopOtcServers)

/** A tool that runs until it is aborted, and reports its start. */
function endlessTool() {
  const started = Promise.withResolvers<void>()
  const tool: FixtureTool = {
    id: 'Slow.Wait@1.0.0',
    description: 'Waits until it is stopped.',
    input: {},
    output: null,
    run: (_input, { signal }) => {
      started.resolve()
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
    },
  }
  return { tool, started: started.promise }
}

describe('own calls (rule 10)', () => {
  it('shows state and outcome only to the principal that called', async () => {
    const { ask } = await otcTestServer({ apiKeys: true, clock: new FakeClock(1_000) })
    const alice = { 'OXP-API-Key': 'k-alice' }
    await ask('POST', '/tools/call', { headers: alice, body: { request: { ...ADD, call_id: 'a/b c' } } })
    const { status, json, headers } = await ask('GET', '/calls/a%2Fb%20c', { headers: alice })
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(json).toEqual({
      $schema: 'otc://1.0',
      call_id: 'a/b c',
      record: expect.stringMatching(/^[\w-]{24}$/),
      run_id: expect.stringMatching(/^run_[\w-]{24}$/),
      trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      protocol: 'otc',
      tool_id: 'Calculator.Add@1.0.0',
      state: 'succeeded',
      attempt: 1,
      created_at: '1970-01-01T00:00:01.000Z',
      finished_at: '1970-01-01T00:00:01.000Z',
      expired: false,
      result: { call_id: 'a/b c', duration: 0, success: true, value: 3 },
    })
    const bob = await ask('GET', '/calls/a%2Fb%20c', { headers: { 'OXP-API-Key': 'k-bob' } })
    const unknown = await ask('GET', '/calls/none', { headers: { 'OXP-API-Key': 'k-bob' } })
    expect([bob.status, unknown.status]).toEqual([404, 404])
    expect(bob.text).toBe(unknown.text)
  })

  it('cancels a running call, returns its outcome, and returns the same when repeated', async () => {
    const { tool, started } = endlessTool()
    const { ask } = await otcTestServer({ tools: [tool], apiKeys: true })
    const alice = { 'OXP-API-Key': 'k-alice' }
    const request = { tool_id: tool.id, call_id: 'slow' }
    const running = ask('POST', '/tools/call', { headers: alice, body: { request } })
    await started
    const seen = await ask('GET', '/calls/slow', { headers: alice })
    expect(seen).toMatchObject({ status: 200, json: { state: 'running' } })
    expect(seen.json).not.toHaveProperty('result')
    expect(await ask('DELETE', '/calls/slow', { headers: { 'OXP-API-Key': 'k-bob' } })).toMatchObject({
      status: 404,
    })
    const ended = await ask('DELETE', '/calls/slow', { headers: alice })
    expect(ended).toMatchObject({ status: 200, json: { state: 'failed', result: { success: false } } })
    const answer = await running
    expect(answer).toMatchObject({ status: 200, headers: { 'collet-error-code': 'cancelled' } })
    expect(answer.json.result).toEqual(ended.json.result)
    expect((await ask('DELETE', '/calls/slow', { headers: alice })).json).toEqual(ended.json)
    expect(await ask('DELETE', '/calls/none', { headers: alice })).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })

  it('answers 202 for a call that runs in another process, which then cancels it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-two-'))
    const masterKey = randomBytes(32)
    const [theirs, ours] = [1, 2].map(() => openSqliteStore({ path: join(folder, 'collet.db'), masterKey }))
    if (theirs === undefined || ours === undefined) throw new Error('two stores were asked for')
    const { tool, started } = endlessTool()
    const other = openTestGateway(requireTools([tool]), { store: theirs })
    const { ask } = await otcTestServer({ tools: [tool], store: ours })
    const running = other.call(ANONYMOUS, callRequest(tool.id, { key: 'slow' }))
    await started
    const asked = await ask('DELETE', '/calls/slow')
    expect(asked).toMatchObject({ status: 202, json: { state: 'running' } })
    expect(asked.json).not.toHaveProperty('result')
    expect(gist(await running)).toBe('cancelled')
    expect(await ask('DELETE', '/calls/slow')).toMatchObject({ status: 200, json: { state: 'failed' } })
    await Promise.all([other.drain(0), stopOtcServers()])
    await theirs.close()
    await ours.close()
    rmSync(folder, { recursive: true })
  })
})

describe('challenges', () => {
  async function challenged(options: OtcTestServerOptions = {}) {
    const server = await otcTestServer(options)
    const request = { tool_id: options.tools?.[0]?.id ?? EMAILS.tool_id, context: { user_id: 'u' } }
    const { json } = await server.ask('POST', '/tools/call', { body: { request } })
    return { ...server, challenge: json.missing_requirements.authorization[0] }
  }

  it('OTC-78: check_url answers 200 with only the status, without a credential, until the token arrives', async () => {
    const { ask, challenge } = await challenged({ apiKeys: false })
    const path = new URL(challenge.check_url).pathname
    expect(await ask('GET', path)).toMatchObject({ status: 200, text: '{"status":"pending"}' })
    const context = { authorization: [{ id: 'google', token: 'ya29.tok' }], user_id: 'u' }
    const called = await ask('POST', '/tools/call', { body: { request: { ...EMAILS, context } } })
    expect(called.json.result).toMatchObject({ success: true })
    expect(await ask('GET', path)).toMatchObject({ status: 200, text: '{"status":"completed"}' })
    expect(await ask('GET', '/challenges/none/status')).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })

  it('OTC-78: a challenge that was not completed in time has failed', async () => {
    const clock = new FakeClock()
    const { ask, challenge } = await challenged({ clock })
    const status = async () => (await ask('GET', `/challenges/${challenge.id}/status`)).json.status
    clock.advance(10 * 60_000 - 1)
    expect(await status()).toBe('pending')
    clock.advance(1)
    expect(await status()).toBe('failed')
  })

  it('OTC-78: an equal requirement gets the same challenge, and a new one after it failed', async () => {
    const clock = new FakeClock()
    const { ask, challenge } = await challenged({ clock })
    const request = { ...EMAILS, context: { user_id: 'u' } }
    const again = async () =>
      (await ask('POST', '/tools/call', { body: { request } })).json.missing_requirements.authorization[0].id
    expect(await again()).toBe(challenge.id)
    clock.advance(10 * 60_000)
    expect(await again()).not.toBe(challenge.id)
  })

  it('OTC/T-16: url shows the provider and how to pass its token', async () => {
    const { ask, challenge } = await challenged()
    const { status, headers, text } = await ask('GET', new URL(challenge.url).pathname)
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(text).toContain('no sign-in service for google')
    expect(text).toContain('gmail.readonly')
    expect(text).toContain('&quot;authorization&quot;')
    expect(await ask('GET', '/challenges/none')).toMatchObject({ status: 404 })
  })

  it('the page runs only the script of the server and escapes everything', async () => {
    const hostile = `<script>alert("1")</script>'&`
    const evil: FixtureTool = {
      id: 'Evil.Tool@1.0.0',
      description: 'd',
      input: {},
      output: null,
      requirements: { authorization: [{ id: hostile, oauth2: { scopes: [hostile] } }] },
      run: () => null,
    }
    const { ask, challenge } = await challenged({ tools: [evil] })
    const { headers, text } = await ask('GET', `/challenges/${challenge.id}`)
    expect(text.match(/<script/g)).toHaveLength(1)
    expect(text).not.toContain('<script>alert')
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; /,
    )
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
  })
})
