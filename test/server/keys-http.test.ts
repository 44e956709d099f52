import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '#server/start-server'
import { openStore } from '#store/stores'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

let server: PrincipalsServer
let startToken: string

beforeAll(async () => {
  server = await startPrincipalsServer(
    {
      auth: {
        apiKeys: [
          key('root', ['admin:keys', 'mail:*', 'fs:home:read']),
          key('boxed', ['admin:keys', 'mail:*'], { tools: ['openwop:Mail.Send'] }),
          key('stranger', ['*'], { tenant: 'globex' }),
          key('plain', []),
        ],
        jwt: undefined,
        roles: new Map([
          ['mailer', { scopes: ['mail:send'] }],
          ['owner', { scopes: ['*'] }],
        ]),
      },
    },
    'sqlite',
  )
  startToken = readFileSync(server.startTokenFile, 'utf8').trim()
})

afterAll(() => server.stop())

const make = (body: object, credential = startToken) =>
  server.ask('/admin/keys', { method: 'POST', key: credential, body })

const rotate = (principal: string, body: object, credential = startToken) =>
  server.ask(`/admin/principals/${principal}/keys`, { method: 'POST', key: credential, body })

const drop = (path: string, credential = startToken) =>
  server.ask(path, { method: 'DELETE', key: credential })

const statusOf = async (credential: string) => (await server.ask('/v1/tools', { key: credential })).status

describe('/admin/keys', () => {
  it('rule 3: a holder of admin:keys cannot revoke a principal with more permissions', async () => {
    const strong = (await make({ principal: 'strong', tenant: 'acme', scopes: ['pay:all'] })).json
    const peer = (await make({ principal: 'peer', tenant: 'acme', scopes: ['mail:send'] })).json
    for (const path of [`/admin/keys/${strong.key_id}`, '/admin/principals/strong']) {
      expect((await drop(path, 'k-root')).status).toBe(403)
    }
    expect(await statusOf(strong.key)).toBe(200)
    expect((await drop('/admin/principals/peer', 'k-boxed')).status).toBe(403)
    expect((await drop(`/admin/keys/${peer.key_id}`, 'k-root')).status).toBe(200)
    expect((await drop('/admin/principals/strong?tenant=acme')).status).toBe(200)
  })

  it('OTC/T-28: a wrong key beside the start token is a bad credential', async () => {
    const ask = (apiKey: string) =>
      server.ask('/admin/keys', { key: startToken, headers: { 'x-api-key': apiKey } })
    expect((await ask('k-wrong')).status).toBe(401)
    expect((await ask('k-plain')).status).toBe(200)
  })

  it('OWP-63: creates a key that works, is shown once and is not in the store', async () => {
    const made = await make({ principal: 'ann', tenant: 'acme', scopes: ['mail:send'], label: 'laptop' })
    expect(made.status).toBe(201)
    expect(made.headers['cache-control']).toBe('no-store')
    expect(made.json).toEqual({
      tenant: 'acme',
      principal: 'ann',
      key_id: expect.stringMatching(/^[0-9a-f]{24}$/),
      key: expect.stringMatching(/^clt_[0-9a-f]{24}_[\w-]{43}$/),
      expires_at: null,
      warnings: [],
    })
    const tools = await server.ask('/v1/tools', { key: made.json.key })
    expect(tools.text).toMatch(/Mail.Send/)
    expect(tools.text).not.toMatch(/Files/)
    expect((await server.ask('/v1/tools', { headers: { 'x-api-key': made.json.key } })).status).toBe(200)
    const list = await server.ask('/admin/keys', { key: startToken })
    expect(list.json.keys).toContainEqual(
      expect.objectContaining({ principal: 'ann', scopes: ['mail:send'], label: 'laptop', revoked_at: null }),
    )
    expect(list.text).not.toContain(made.json.key)
    const file = readFileSync(join(server.settings.dataFolder, 'collet.db'), 'latin1')
    const log = readFileSync(join(server.settings.dataFolder, 'collet.db-wal'), 'latin1')
    expect(file + log).not.toContain(made.json.key.slice(-43))
  })

  it('rule 26, OWP-12: a revoked key is refused within a second', async () => {
    const { json } = await make({ principal: 'bob', tenant: 'acme' })
    expect(await statusOf(json.key)).toBe(200)
    expect((await drop(`/admin/keys/${json.key_id}`)).status).toBe(200)
    // How soon depends on the clock of the stored keys: api-keys.stored.test.ts.
    await expect.poll(() => statusOf(json.key), { interval: 20, timeout: 30_000 }).toBe(401)
    expect((await drop(`/admin/keys/${json.key_id}`)).status).toBe(404)
  })

  it('rule 26: a key revoked by another process on the same file is refused within a second', async () => {
    const { json } = await make({ principal: 'bert', tenant: 'acme' })
    expect(await statusOf(json.key)).toBe(200)
    const { store: url, dataFolder, masterKey } = server.settings
    const other = await openStore(url, { dataFolder, masterKey, mode: 'operator' })
    await other.keys.revokeKey({ tenant: 'acme', keyId: json.key_id, by: 'cli:ann', atMs: Date.now() })
    await other.close()
    await expect.poll(() => statusOf(json.key), { interval: 20, timeout: 30_000 }).toBe(401)
  })

  it('rule 3: rotation creates another key of the principal, and the old key expires at the requested time', async () => {
    const first = (await make({ principal: 'carl', tenant: 'acme', scopes: ['mail:send'] })).json
    const second = (await rotate('carl', { tenant: 'acme' })).json
    expect([await statusOf(first.key), await statusOf(second.key)]).toEqual([200, 200])
    const body = { $schema: 'urn:oxp:1.0', request: { tool_id: 'Mail.Send', call_id: 'carl-1', input: {} } }
    const call = (credential: string) => server.ask('/tools/call', { method: 'POST', key: credential, body })
    expect((await call(first.key)).status).toBe(200)
    expect((await call(second.key)).text).toBe((await call(first.key)).text)
    const third = (await rotate('carl', { tenant: 'acme', old_ends_in_seconds: 0 })).json
    await expect.poll(() => statusOf(first.key), { timeout: 1_200 }).toBe(401)
    expect([await statusOf(second.key), await statusOf(third.key)]).toEqual([401, 200])
  })

  it('rule 3: an ended principal cannot be restored by rotation, by a new key or by the configuration', async () => {
    const { json } = await make({ principal: 'dora', tenant: 'acme' })
    expect((await make({ principal: 'dora', tenant: 'acme' })).json.message).toMatch(/already/)
    expect((await drop('/admin/principals/dora?tenant=acme')).status).toBe(200)
    await expect.poll(() => statusOf(json.key), { timeout: 1_200 }).toBe(401)
    for (const answer of [
      await make({ principal: 'dora', tenant: 'acme' }),
      await rotate('dora', { tenant: 'acme' }),
    ]) {
      expect([answer.status, answer.json.message]).toEqual([
        400,
        expect.stringMatching(/names are never used again/),
      ])
    }
    const { settings } = server
    const auth = { ...settings.auth, apiKeys: [key('dora', [])] }
    await expect(startServer({ ...settings, auth })).rejects.toThrow(/names are never used again/)
  })

  it('a grant cannot exceed the grants of its creator', async () => {
    const cases: [object, string, number][] = [
      [{ principal: 'e1', scopes: ['mail:send'] }, 'k-root', 201],
      [{ principal: 'e2', scopes: ['mail:*'] }, 'k-root', 201],
      [{ principal: 'e3', scopes: ['fs:home:write'] }, 'k-root', 403],
      [{ principal: 'e3', scopes: ['fs:*:read'] }, 'k-root', 403],
      [{ principal: 'e3', scopes: ['*'] }, 'k-root', 403],
      [{ principal: 'e3', roles: ['owner'] }, 'k-root', 403],
      [{ principal: 'e4', roles: ['mailer'] }, 'k-root', 201],
      [{ principal: 'e5', tenant: 'globex' }, 'k-root', 403],
      [{ principal: 'e6' }, 'k-plain', 403],
      [{ principal: 'e7', scopes: ['mail:send'] }, 'k-boxed', 403],
      [{ principal: 'e7', scopes: ['mail:send'], tools: ['openwop:Open.Say'] }, 'k-boxed', 403],
      [{ principal: 'e8', scopes: ['mail:send'], tools: ['openwop:Mail.Send'] }, 'k-boxed', 201],
    ]
    for (const [body, credential, status] of cases) {
      const answer = await make(body, credential)
      expect([body, answer.status]).toEqual([body, status])
    }
    expect((await make({ principal: 'e5', tenant: 'globex' })).status).toBe(201)
  })

  it('rule 3: a new key cannot use the name of a configured principal', async () => {
    for (const credential of ['k-root', startToken]) {
      const taken = await make({ principal: 'plain', tenant: 'acme' }, credential)
      expect([taken.status, taken.json.message]).toEqual([400, expect.stringContaining('configuration')])
    }
    expect((await make({ principal: 'plain', tenant: 'elsewhere' })).status).toBe(201)
  })

  it('OWP-62: an attempt to grant more than the caller’s own permissions is audited', async () => {
    await make({ principal: 'e9', scopes: ['*'] }, 'k-root')
    const read = async () => (await server.ask('/admin/audit?limit=1000', { key: startToken })).json.events
    await expect
      .poll(async () => (await read()).map(({ resource }: { resource: string }) => resource))
      .toContain('admin:keys')
  })

  it('OWP-62: an attempt to reach the vault without its scope is audited', async () => {
    expect((await server.ask('/admin/secrets', { key: 'k-plain' })).status).toBe(403)
    const read = async () => (await server.ask('/admin/audit?limit=1000', { key: startToken })).json.events
    await expect
      .poll(read)
      .toContainEqual(expect.objectContaining({ resource: 'admin:secrets', allowed: false }))
  })

  it('shows key managers which principal was refused', async () => {
    const { json } = await make({ principal: 'nosy', scopes: [] })
    await expect.poll(async () => (await server.ask('/admin/secrets', { key: json.key })).status).toBe(403)
    const read = async () => (await server.ask('/admin/audit?limit=1000', { key: startToken })).json.events
    await expect
      .poll(read)
      .toContainEqual(expect.objectContaining({ principal_id: 'key:nosy', resource: 'admin:secrets' }))
  })

  it('shows key managers the configured keys too, and finds every principal by name; others see only opaque names', async () => {
    await server.ask('/admin/secrets', { key: 'k-plain' })
    const read = async (query: string, credential = startToken) =>
      (await server.ask(`/admin/audit?limit=1000&${query}`, { key: credential })).json.events
    await expect
      .poll(() => read('principal=key:plain'))
      .toContainEqual(expect.objectContaining({ principal_id: 'key:plain', resource: 'admin:secrets' }))
    const [first, ...rest] = await read('principal=key:plain')
    for (const { principal } of rest) expect(principal).toBe(first.principal)
    expect((await read(`principal=${first.principal}`)).length).toBe(rest.length + 1)
    expect(await read('principal=key:none')).toEqual([])
    expect(await read('since=2999-01-01')).toEqual([])
    const { key: reader } = (await make({ principal: 'reader', tenant: 'acme', scopes: ['audit:read'] })).json
    await expect.poll(() => statusOf(reader)).toBe(200)
    const shown = await read('principal=key:plain', reader)
    expect(shown.length).toBeGreaterThan(0)
    for (const event of shown) expect(event).not.toHaveProperty('principal_id')
  })

  it('a rotation grants no further permissions, and affects no other tenant', async () => {
    const strong = (await make({ principal: 'boss', tenant: 'acme', scopes: ['*'] })).json
    expect((await rotate('boss', {}, 'k-root')).status).toBe(403)
    expect((await drop(`/admin/keys/${strong.key_id}`, 'k-stranger')).status).toBe(404)
    expect((await drop('/admin/principals/boss?tenant=acme', 'k-stranger')).status).toBe(403)
    expect((await rotate('boss', { tenant: 'acme' }, 'k-stranger')).status).toBe(403)
    const { json } = await server.ask('/admin/keys', { key: 'k-stranger' })
    expect(json.keys.every(({ tenant }: { tenant: string }) => tenant === 'globex')).toBe(true)
    expect(await statusOf(strong.key)).toBe(200)
  })

  it.each([
    [{}, /principal/],
    [{ principal: 'a b' }, /principal/],
    [{ principal: 'x', scopes: ['a b'] }, /scopes/],
    [{ principal: 'x', roles: ['nobody'] }, /no role "nobody"/],
    [{ principal: 'x', tools: ['openwop:Not.There'] }, /no tool/],
    [{ principal: 'x', expires_at: '2001-01-01T00:00:00Z' }, /future/],
    [{ principal: 'x', expires_at: 'soon' }, /expires_at/],
    [{ principal: 'x', key: 'my-own' }, /key/],
    [{ principal: '__proto__' }, /principal/],
  ])('refuses %j', async (body, message) => {
    const { status, json } = await make(body)
    expect([status, json.message]).toEqual([400, expect.stringMatching(message)])
  })

  it('rule 29: requires a credential, and the start token is refused elsewhere', async () => {
    expect((await server.ask('/admin/keys')).status).toBe(401)
    expect((await server.ask('/admin/keys', { key: 'k-plain' })).status).toBe(403)
    expect(await statusOf(startToken)).toBe(401)
  })
})

describe('a key of the store over OpenTool', () => {
  it('OTS-47, OTS-48, OTS-49: is accepted exactly as written; anything else is 401 before the body is read', async () => {
    const { json } = await make({ principal: 'opt', tenant: 'acme' })
    const wrong = [json.key.toUpperCase(), json.key.slice(0, -1), `${json.key} `.repeat(2)]
    expect((await server.ask('/opentool/version', { key: json.key })).status).toBe(200)
    for (const bad of wrong) {
      for (const path of ['/opentool/version', '/opentool/load', '/opentool/nowhere']) {
        const answer = await server.ask(path, { key: bad })
        expect([answer.status, answer.json]).toEqual([401, { error: 'Invalid API key' }])
        expect(answer.text).not.toContain(bad)
      }
    }
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${wrong[1]}` }
    const unread = await fetch(`${server.url}/opentool/call`, { method: 'POST', headers, body: '{"not json' })
    expect(unread.status).toBe(401)
  })
})

describe('a credential sent twice', () => {
  /** Over a raw socket, because HTTP clients join or drop repeated headers. */
  function sendRaw(...headers: string[]): Promise<string> {
    const { port } = new URL(server.url)
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        const head = ['GET /v1/tools HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Connection: close', ...headers]
        socket.write(`${head.join('\r\n')}\r\n\r\n`)
      })
      let text = ''
      socket.on('data', (chunk) => {
        text += chunk
      })
      socket.on('end', () => resolve(text.split('\r\n', 1)[0] ?? ''))
      socket.on('error', reject)
    })
  }

  it.each([
    [['Authorization: Bearer k-root', 'Authorization: Bearer k-root']],
    [['Authorization: Bearer k-plain', 'authorization: Bearer k-root']],
    [['Authorization: Bearer nope', 'Authorization: Bearer k-root']],
    [['X-API-Key: k-root', 'X-API-Key: k-root']],
    [['X-API-Key: k-root', 'x-api-key: nope']],
    [['X-API-Key: k-root', 'OTC-API-Key: k-plain']],
    [['X-API-Key: k-root', 'Authorization: Bearer nope']],
    [['X-API-Key: k-root,k-root']],
    [['Authorization: Bearer k-root, Bearer k-root']],
    [['Authorization:', 'X-API-Key: k-root']],
  ])('OWP-12, T-28: is refused: %j', async (headers) => {
    expect(await sendRaw(...headers)).toBe('HTTP/1.1 401 Unauthorized')
  })

  it('a single credential is accepted', async () => {
    expect(await sendRaw('X-API-Key: k-root')).toBe('HTTP/1.1 200 OK')
  })
})

describe('a server without configured credentials', () => {
  it('rule 28, OWP-12: requires a credential once a key was created, even after the last is revoked', async () => {
    const open = await startPrincipalsServer({}, 'sqlite')
    try {
      const token = readFileSync(open.startTokenFile, 'utf8').trim()
      expect((await open.ask('/v1/tools')).status).toBe(200)
      expect((await open.ask('/metrics')).status).toBe(200)
      expect((await open.ask('/admin/keys', { method: 'POST', body: { principal: 'ann' } })).status).toBe(401)
      const body = { principal: 'ann', scopes: ['metrics:read'] }
      const { json } = await open.ask('/admin/keys', { method: 'POST', key: token, body })
      await expect.poll(async () => (await open.ask('/v1/tools')).status, { timeout: 1_200 }).toBe(401)
      expect((await open.ask('/v1/tools', { key: json.key })).status).toBe(200)
      expect((await open.ask('/metrics')).status).toBe(401)
      expect((await open.ask('/metrics', { key: json.key })).status).toBe(200)
      await open.ask(`/admin/keys/${json.key_id}`, { method: 'DELETE', key: token })
      await expect
        .poll(async () => (await open.ask('/v1/tools', { key: json.key })).status, { timeout: 1_200 })
        .toBe(401)
      expect((await open.ask('/v1/tools')).status).toBe(401)
    } finally {
      await open.stop()
    }
  })

  it.each(['/admin/secrets', '/admin/approvals', '/admin/calls', '/admin/audit'])(
    'rule 26: the first key is accepted on %s, even as the very first request',
    async (path) => {
      const open = await startPrincipalsServer({}, 'sqlite')
      try {
        const token = readFileSync(open.startTokenFile, 'utf8').trim()
        const body = { principal: 'ann', scopes: ['*'] }
        const { json } = await open.ask('/admin/keys', { method: 'POST', key: token, body })
        const status = async () => (await open.ask(path, { key: json.key })).status
        await expect.poll(status, { interval: 50, timeout: 1_200 }).toBe(200)
      } finally {
        await open.stop()
      }
    },
  )

  it('refuses anonymous callers with auth.required before there is any key', async () => {
    const closed = await startPrincipalsServer({ auth: { apiKeys: [], jwt: undefined, required: true } })
    expect((await closed.ask('/v1/tools')).status).toBe(401)
    await closed.stop()
  })
})

describe('server.metricsPort', () => {
  it('serves metrics and nothing else, without a credential', async () => {
    const base = startPrincipalsServer({
      auth: { apiKeys: [key('root', ['*'])], jwt: undefined },
      server: {
        host: '127.0.0.1',
        port: 0,
        publicUrl: undefined,
        bodyLimitBytes: 1_024,
        allowedOrigins: [],
        maxConnections: 100,
        metricsPort: 0,
      },
    })
    const both = await base
    const url = both.metricsUrl ?? ''
    const answer = await fetch(`${url}/metrics`)
    expect([answer.status, (await answer.text()).includes('collet_calls_total')]).toEqual([200, true])
    for (const path of ['/tools', '/v1/tools', '/admin/keys', '/health']) {
      expect((await fetch(`${url}${path}`)).status).toBe(404)
    }
    expect((await both.ask('/metrics')).status).toBe(401)
    await both.stop()
    await expect(fetch(`${url}/metrics`)).rejects.toThrow()
  })
})
