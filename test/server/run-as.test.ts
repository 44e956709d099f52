import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { sqliteSettings } from '../test-settings.ts'

const KEYS = { ann: randomBytes(32).toString('hex'), bob: randomBytes(32).toString('hex') }
const AUTH: Settings['auth'] = {
  apiKeys: [
    { id: 'ann', key: new Secret(KEYS.ann), tenant: 'default', scopes: ['mail:send'] },
    { id: 'bob', key: new Secret(KEYS.bob), tenant: 'acme', scopes: [] },
  ],
  jwt: undefined,
}
const TOOLS = [
  sampleTool('Kit.Look@1.0.0', () => 'seen'),
  sampleTool('Kit.Send@1.0.0', () => 'sent', { policy: { safetyTier: 'write', scopes: ['mail:send'] } }),
  sampleTool('Kit.Ask@1.0.0', () => 'asked', { policy: { safetyTier: 'write', approval: 'always' } }),
  sampleTool('Kit.Secret@1.0.0', () => 'opened', { requirements: { secrets: [{ id: 'API_KEY' }] } }),
]
const OPEN: Settings['auth'] = { apiKeys: [], jwt: undefined }
const SECRET = 'a-secret-of-the-vault-0123456789'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function start(auth: Settings['auth']): Promise<RunningServer> {
  const settings = sqliteSettings({ tools: TOOLS, auth })
  const consoleFolder = join(settings.dataFolder, 'console')
  mkdirSync(consoleFolder)
  writeFileSync(join(consoleFolder, 'index.html'), '<html><head></head></html>')
  const server = await startServer(settings, { graceMs: 0, consoleFolder })
  closing.push(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })
  return server
}

type Headers = Readonly<Record<string, string>>

async function ask(
  url: string,
  headers: Headers,
  { method, body }: { method?: string; body?: unknown } = {},
) {
  const response = await fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    redirect: 'manual',
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') === true
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = isJson ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}

/** Headers of the console after the printed link was opened. */
async function operatorOf({ signInUrl = '' }: RunningServer): Promise<Headers> {
  const { headers } = await ask(signInUrl, {})
  const fragment = headers.get('location')?.split('#')[1] ?? ''
  return {
    cookie: headers.get('set-cookie')?.split(';', 1)[0] ?? '',
    'collet-csrf': new URLSearchParams(fragment).get('session') ?? '',
  }
}

async function sessionOf({ url }: RunningServer, key: string): Promise<Headers> {
  const { headers, json } = await ask(`${url}/console/session`, {}, { body: { key } })
  return { cookie: headers.get('set-cookie')?.split(';', 1)[0] ?? '', 'collet-csrf': json.csrf }
}

const startTokenOf = (server: RunningServer): Headers => ({
  authorization: `Bearer ${readFileSync(server.startTokenFile, 'utf8').trim()}`,
})

const callOf = (tool: string, callId: string) => ({ request: { tool_id: tool, call_id: callId, input: {} } })
const runAs = (caller: string): Headers => ({ 'collet-run-as': caller })

async function recordOf(server: RunningServer, callId: string) {
  const { calls } = (await ask(`${server.url}/admin/calls`, startTokenOf(server))).json
  const { record } = calls.find((call: { call_id: string }) => call.call_id === callId)
  return (await ask(`${server.url}/admin/calls/${record}`, startTokenOf(server))).json.call
}

describe('the operator runs a tool from the console of a server with keys', () => {
  it('as a configured or a stored caller; the record and the journal name both', async () => {
    const server = await start(AUTH)
    const operator = await operatorOf(server)
    await ask(`${server.url}/admin/keys`, operator, { body: { principal: 'carl', tenant: 'acme' } })
    for (const [caller, tool, principal] of [
      ['default/key:ann', 'Kit.Send', 'key:ann'],
      ['acme/key:bob', 'Kit.Look', 'key:bob'],
      ['acme/key%3Acarl', 'Kit.Look', 'key:carl'],
    ] as const) {
      const headers = { ...operator, ...runAs(caller) }
      const ran = await ask(`${server.url}/tools/call`, headers, { body: callOf(tool, `of ${principal}`) })
      expect([caller, ran.status, ran.json.result?.success]).toEqual([caller, 200, true])
      const seen = await ask(`${server.url}/calls/${encodeURIComponent(`of ${principal}`)}`, headers)
      expect(seen.json.state).toBe('succeeded')
      const record = await recordOf(server, `of ${principal}`)
      expect(record).toMatchObject({ principal, by: 'operator' })
      expect(record.journal[0].events[0]).toMatchObject({ principal, by: 'operator' })
    }
    const own = { 'x-api-key': KEYS.ann }
    await ask(`${server.url}/tools/call`, own, { body: callOf('Kit.Look', 'her own') })
    const { by, journal } = await recordOf(server, 'her own')
    expect([by, JSON.stringify(journal).includes('operator')]).toEqual([null, false])
  })

  it('with the tools visible to that caller, and never with its credentials (rule 24)', async () => {
    const server = await start(AUTH)
    const operator = await operatorOf(server)
    const run = (caller: string, tool: string) =>
      ask(
        `${server.url}/tools/call`,
        { ...operator, ...runAs(caller) },
        { body: callOf(tool, `${caller} ${tool}`) },
      )
    expect((await run('acme/key:bob', 'Kit.Send')).text).toContain('not found')
    const secret = { name: 'API_KEY', principal: 'key:ann', value: SECRET }
    await ask(`${server.url}/admin/secrets`, operator, { body: secret })
    const own = await ask(
      `${server.url}/tools/call`,
      { 'x-api-key': KEYS.ann },
      { body: callOf('Kit.Secret', 'own') },
    )
    expect(own.json.result).toMatchObject({ success: true })
    const refused = await run('default/key:ann', 'Kit.Secret')
    expect(refused.json.result).toBeUndefined()
    expect(refused.text).toContain('the credentials of key:ann are used only for its own calls')
  })

  it("waits for approval like that caller's call, and an equal call of the caller does not resume it", async () => {
    const server = await start(AUTH)
    const headers = { ...(await operatorOf(server)), ...runAs('default/key:ann') }
    const unkeyed = { request: { tool_id: 'Kit.Ask', input: {} } }
    const ids = []
    for (const sent of [headers, { 'x-api-key': KEYS.ann }, headers]) {
      const { json } = await ask(`${server.url}/tools/call`, sent, { body: unkeyed })
      ids.push(json.missing_requirements.approval.id)
    }
    expect(ids[1]).not.toBe(ids[0])
    expect(ids[2]).toBe(ids[0])
    const { approvals } = (await ask(`${server.url}/admin/approvals`, startTokenOf(server))).json
    expect(new Set(approvals.map(({ principal }: { principal: string }) => principal))).toEqual(
      new Set(['key:ann']),
    )
  })

  it.each([
    ['default/key:nobody', 403, 'No caller with this name'],
    ['acme/key:ann', 403, 'No caller with this name'],
    ['default/operator', 400, 'expected TENANT/key:NAME'],
    ['default/key:', 400, 'expected TENANT/key:NAME'],
    ['key:ann', 400, 'expected TENANT/key:NAME'],
    ['%', 400, 'expected TENANT/key:NAME'],
    ['a/b/c', 400, 'expected TENANT/key:NAME'],
  ])('refuses %s, which names no caller with a key: %d', async (caller, refusal, message) => {
    const server = await start(AUTH)
    const headers = { ...(await operatorOf(server)), ...runAs(caller) }
    const { status, text } = await ask(`${server.url}/tools/call`, headers, { body: callOf('Kit.Look', 'c') })
    expect(status).toBe(refusal)
    expect(text).toContain(message)
  })

  it('refuses a caller whose only key was revoked', async () => {
    const server = await start(AUTH)
    const operator = await operatorOf(server)
    const { json } = await ask(`${server.url}/admin/keys`, operator, { body: { principal: 'carl' } })
    await ask(`${server.url}/admin/keys/${json.key_id}`, operator, { method: 'DELETE' })
    const headers = { ...operator, ...runAs('default/key:carl') }
    const { text } = await ask(`${server.url}/tools/call`, headers, { body: callOf('Kit.Look', 'c') })
    expect(text).toContain('No caller with this name')
  })

  it('refuses the header from all other callers, and from the operator on every other route', async () => {
    const server = await start(AUTH)
    const operator = await operatorOf(server)
    const { cookie = '', 'collet-csrf': csrf = '' } = operator
    const senders: Readonly<Record<string, Headers>> = {
      'no credential': {},
      'a key': { 'x-api-key': KEYS.bob },
      'a bearer key': { authorization: `Bearer ${KEYS.bob}` },
      'the session of a key': await sessionOf(server, KEYS.bob),
      'the start token': startTokenOf(server),
      'the cookie alone': { cookie },
      'a page of another site': { ...operator, 'sec-fetch-site': 'cross-site' },
      'the session with a key beside it': { ...operator, 'x-api-key': KEYS.bob },
      'a made-up token': { cookie, 'collet-csrf': `${csrf}x` },
      'the operator': operator,
    }
    const taken = new Set(['POST /tools/call', 'GET /calls/:id', 'HEAD /calls/:id', 'DELETE /calls/:id'])
    let guarded = 0
    for (const { method, path } of server.routes) {
      const url = `${server.url}${path.replaceAll(/:\w+/g, 'x')}`
      const send = (headers: Headers) =>
        ask(url, headers, { method, ...(method === 'POST' ? { body: callOf('Kit.Look', 'c') } : {}) })
      // Routes without credentials have no caller to replace, and neither do HTML pages.
      const plain = await send({})
      if (![401, 403].includes(plain.status) || plain.text.startsWith('<!doctype')) continue
      guarded += 1
      for (const [name, headers] of Object.entries(senders)) {
        if (name === 'the operator' && taken.has(`${method} ${path}`)) continue
        const { text } = await send({ ...headers, ...runAs('default/key:ann') })
        expect([method, path, name, text]).toEqual([
          method,
          path,
          name,
          expect.stringContaining('Collet-Run-As'),
        ])
      }
    }
    expect(guarded).toBeGreaterThan(60)
    expect((await ask(`${server.url}/admin/calls`, startTokenOf(server))).json.calls).toEqual([])
  })
})

describe('the operator runs a tool from the console of a server without keys', () => {
  it('as the local user, with its vault; the record names the operator', async () => {
    const server = await start(OPEN)
    const operator = await operatorOf(server)
    await ask(`${server.url}/admin/secrets`, operator, {
      body: { name: 'API_KEY', value: SECRET },
    })
    const ran = await ask(`${server.url}/tools/call`, operator, { body: callOf('Kit.Secret', 'console') })
    expect(ran.json.result).toMatchObject({ success: true })
    expect(await recordOf(server, 'console')).toMatchObject({ principal: 'anonymous', by: 'operator' })
    await ask(`${server.url}/tools/call`, {}, { body: callOf('Kit.Look', 'agent') })
    expect(await recordOf(server, 'agent')).toMatchObject({ principal: 'anonymous', by: null })
  })

  it('and is refused a caller to run as, because there are none', async () => {
    const server = await start(OPEN)
    const headers = { ...(await operatorOf(server)), ...runAs('default/key:ann') }
    const { text } = await ask(`${server.url}/tools/call`, headers, { body: callOf('Kit.Look', 'c') })
    expect(text).toContain('No caller with this name')
  })
})
