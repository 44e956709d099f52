import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { canonicalJson } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { KEYS, TWO_TENANTS } from './openwop-fixtures.ts'
import { OPENWOP_CONFORMANCE } from './openwop-host/host.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

const INVOKE = '/v1/host/sample/toolhooks/invoke'
const DECIDE = '/v1/host/sample/authorization/decide'
const CANARY = 'sk-canary-3b1f-never-told'
const AUTH = {
  ...TWO_TENANTS,
  apiKeys: [
    ...TWO_TENANTS.apiKeys,
    { id: 'viewer', key: new Secret('k-viewer'), tenant: 'acme', scopes: [], roles: ['viewer'] },
    { id: 'ghost', key: new Secret('k-ghost'), tenant: 'acme', scopes: [], roles: ['nobody-seeded'] },
    { id: 'late', key: new Secret('k-late'), tenant: 'acme', scopes: ['*'], expiresAtMs: 1 },
  ],
  roles: new Map([['viewer', { scopes: ['runs:read', 'mail:*'] }]]),
}

let server: OpenwopServer
let plain: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer({ auth: AUTH }, { conformance: OPENWOP_CONFORMANCE })
  plain = await startOpenwopServer({ auth: AUTH })
})

afterAll(async () => {
  await server.close()
  await plain.close()
})

function post(path: string, body: unknown, { on = server, key = KEYS.root as string } = {}) {
  const headers = { 'content-type': 'application/json' }
  const credential = key === '' ? {} : { key }
  return on.ask(path, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    isUndocumented: true,
    ...credential,
  })
}

const sha256 = (value: JsonObject) => createHash('sha256').update(canonicalJson(value)).digest('hex')

describe('hooks and roles of the public suite', () => {
  it('OWP-103, OWP-106: do not exist without the flag, and need a credential with it', async () => {
    for (const path of [INVOKE, DECIDE]) {
      const missing = await post(path, { principal: 'core.system', toolName: 't' }, { on: plain })
      expect([missing.status, missing.json.error]).toEqual([404, 'not_found'])
      expect((await post(path, {}, { key: '' })).status).toBe(401)
    }
  })
})

describe('the tool hooks of the public suite', () => {
  const system = { principal: 'core.system', toolName: 'web.search' }

  it('OWP-51, OWP-103: lets core.system call, and writes the pair of events without contents', async () => {
    const { status, json } = await post(INVOKE, {
      ...system,
      requiredScopes: ['web:read'],
      args: { q: 'openwop' },
    })
    expect(status).toBe(200)
    expect(json).toEqual({
      toolCalled: {
        agentId: 'core.system',
        toolName: 'web.search',
        callId: json.toolReturned.callId,
        argsHash: sha256({ q: 'openwop' }),
        principal: expect.stringMatching(/^prn_/),
        transport: 'native',
      },
      toolReturned: {
        agentId: 'core.system',
        toolName: 'web.search',
        callId: expect.any(String),
        status: 'ok',
        durationMs: expect.any(Number),
      },
    })
  })

  it.each([
    ['the unprivileged one', { principal: 'conformance-unprivileged', requiredScopes: ['db:write'] }],
    ['the unprivileged one, for a tool without scopes', { principal: 'conformance-unprivileged' }],
    ['an unseeded principal', { principal: 'somebody', requiredScopes: [] }],
    ['nobody', {}],
    ['a principal that is not a string', { principal: ['core.system'] }],
    ['unreadable scopes', { principal: 'core.system', requiredScopes: 'db:write' }],
    ['an unreadable scope', { principal: 'core.system', requiredScopes: ['db:write', 7] }],
    ['the unprivileged one before any limit', { principal: 'x', simulateRateLimitExhausted: true }],
  ])('OWP-55, OWP-103, C10: denies %s with a pair, and nothing runs', async (_, asked) => {
    const { status, json } = await post(INVOKE, { toolName: 'db.delete', args: {}, ...asked })
    expect(status).toBe(200)
    expect(json.toolCalled).toMatchObject({ toolName: 'db.delete', argsHash: sha256({}) })
    expect(json.toolReturned).toMatchObject({
      toolName: 'db.delete',
      status: 'forbidden',
      error: { code: 'not_authorized' },
    })
    expect(json.toolReturned.callId).toBe(json.toolCalled.callId)
    expect(json.toolReturned).not.toHaveProperty('durationMs')
  })

  it('OWP-56, OWP-103: an exhausted bucket is rate_limited, and only for that request', async () => {
    const { json } = await post(INVOKE, { ...system, args: { q: 'x' }, simulateRateLimitExhausted: true })
    expect(json.toolCalled.argsHash).toBe(sha256({ q: 'x' }))
    expect(json.toolReturned).toMatchObject({ status: 'rate_limited', error: { code: 'rate_limited' } })
    expect(json.toolReturned).not.toHaveProperty('durationMs')
    expect((await post(INVOKE, system)).json.toolReturned.status).toBe('ok')
  })

  it.each([
    ['allowed', system],
    ['denied', { ...system, principal: 'conformance-unprivileged' }],
    ['limited', { ...system, simulateRateLimitExhausted: true }],
  ])('OWP-52, OWP-103: cuts what looks like a secret out of the hash of an %s call', async (_, asked) => {
    const args = { apiKey: CANARY, q: 'openwop', auth: { password: [CANARY] } }
    const { text, json } = await post(INVOKE, { ...asked, args })
    expect(text).not.toContain(CANARY)
    const hidden = { apiKey: '[redacted]', q: 'openwop', auth: { password: ['[redacted]'] } }
    expect(json.toolCalled.argsHash).toBe(sha256(hidden))
  })

  it('OWP-103: needs a name for the tool', async () => {
    for (const toolName of [undefined, '', 7, 'x'.repeat(257)]) {
      const { status, json } = await post(INVOKE, { principal: 'core.system', toolName })
      expect([status, json.error]).toEqual([400, 'validation_error'])
    }
  })

  it('OWP-103: its tools are in no catalog', async () => {
    const { text } = await server.ask('/v1/tools', { key: KEYS.root })
    expect(text).not.toContain('Conformance.Hooked')
  })
})

describe('the authorization of the public suite', () => {
  const decide = async (body: unknown, key?: string) =>
    (await post(DECIDE, body, key === undefined ? {} : { key })).json

  it.each([
    [
      'an unseeded principal',
      { principal: 'conformance-unseeded-principal', action: 'runs:cancel', resource: 'r' },
    ],
    ['an unseeded role', { principal: 'ghost', action: 'runs:read' }],
    ['a scope its role does not have', { principal: 'viewer', action: 'runs:cancel' }],
    ['an expired key', { principal: 'late', action: 'runs:read' }],
    ['another tenant', { principal: 'other', action: 'mail:send' }],
    ['no principal', { action: 'runs:read' }],
    ['no action', { principal: 'root' }],
    ['a principal that is not a string', { principal: { id: 'root' }, action: 'runs:read' }],
    ['a body that is not an object', []],
  ])('OWP-60, OWP-106: denies %s', async (_, asked) => {
    expect(await decide(asked)).toEqual({ allowed: false })
  })

  it('OWP-61, OWP-106: allows actions that production roles and scopes cover', async () => {
    expect(await decide({ principal: 'viewer', action: 'runs:read' })).toEqual({ allowed: true })
    expect(await decide({ principal: 'key:viewer', action: 'mail:send' })).toEqual({ allowed: true })
    expect(await decide({ principal: 'root', action: 'admin:keys' })).toEqual({ allowed: true })
    expect(await decide({ principal: 'other', action: 'mail:send' }, KEYS.other)).toEqual({ allowed: true })
  })

  it('OWP-106: a tool is allowed only for principals that see it', async () => {
    const send = { action: 'mail:read', resource: 'openwop:Mail.Send' }
    expect(await decide({ principal: 'viewer', ...send })).toEqual({ allowed: true })
    expect(await decide({ principal: 'narrow', ...send })).toEqual({ allowed: false })
  })

  it('OWP-62, OWP-106: a denial is audited without text from the caller', async () => {
    await decide({ principal: CANARY, action: CANARY, resource: CANARY })
    const { status, text, json } = await server.ask('/admin/audit', { key: KEYS.root, isUndocumented: true })
    expect(status).toBe(200)
    expect(text).not.toContain(CANARY)
    expect(JSON.stringify(json)).toContain('conformance.decide')
  })
})
