import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { connect } from '#client/index'
import { chunks, FakeIo } from '../cli/fake-io.ts'
import { Browser } from './browser.ts'
import { ADMIN, AGENT, OTHER, openStage, type Stage } from './oauth-stage.ts'

const VALUE = 'twilio-key-8c1f-0123456789'

async function admin(
  stage: Stage,
  method: string,
  path: string,
  sent: { readonly key?: string; readonly body?: unknown } = {},
) {
  const { key = ADMIN, body } = sent
  const response = await fetch(`${stage.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = JSON.parse(text)
  return { status: response.status, text, json }
}

const set = (stage: Stage, changes: object = {}) =>
  admin(stage, 'POST', '/admin/secrets', {
    body: { name: 'API_KEY', principal: 'key:agent', value: VALUE, ...changes },
  })

async function collet(stage: Stage, argv: readonly string[], stdin = '') {
  const io = new FakeIo(REAL_SERVICES, { stdin: chunks(stdin), workingFolder: stage.settings.dataFolder })
  const code = await io.run(...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

describe('the vault over HTTP', () => {
  it.each(['otc', 'opentool'] as const)(
    'OTC/T-32: the client sends a call whose secret is in the vault, and reports a missing one, over %s',
    async (protocol) => {
      await using stage = await openStage()
      const client = connect(stage.url, { apiKey: AGENT, protocol })
      expect(await client.tryCall('Text.Secret')).toMatchObject({
        ok: false,
        error: { class: 'requirements', code: 'requirement_missing', missing: { secrets: ['API_KEY'] } },
      })
      await set(stage)
      expect(await client.call('Text.Secret')).toMatchObject({ value: 'done' })
      expect(stage.given.at(-1)?.token).toBe(VALUE)
    },
  )

  it('OTC/T-32: the command line does the same, and reports a missing secret in terms of its own options', async () => {
    await using stage = await openStage()
    const call = ['call', 'Text.Secret', '--url', stage.url, '--key', AGENT]
    const refused = await collet(stage, call)
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('API_KEY')
    expect(refused.stderr).toContain('--secret ID=VALUE')
    expect(refused.stderr).not.toContain('requirements.')
    await set(stage)
    expect(await collet(stage, call)).toMatchObject({ code: 0, stdout: '"done"\n' })
  })

  it('OTC-74, OWP-74: storing a secret returns a reference, and the tool gets the value', async () => {
    await using stage = await openStage()
    expect((await stage.call({ tool: 'Text.Secret', callId: 's' })).status).toBe(400)
    const { status, json } = await set(stage)
    expect([status, json]).toEqual([200, { ref: expect.stringMatching(/^cred_[\w-]{24}$/) }])
    expect((await stage.call({ tool: 'Text.Secret', callId: 's' })).value).toBe('done')
    expect(stage.given.at(-1)?.token).toBe(VALUE)
    const listed = await admin(stage, 'GET', '/admin/secrets')
    expect(listed.text).not.toContain(VALUE)
    expect(listed.json.secrets).toMatchObject([
      {
        ref: json.ref,
        kind: 'secret',
        name: 'API_KEY',
        tenant: 'default',
        principal: 'key:agent',
        user: null,
        state: 'live',
      },
    ])
  })

  it('OWP-77: a new value replaces the old one at once, and no overlap is advertised', async () => {
    await using stage = await openStage()
    const first = await set(stage)
    const second = await set(stage, { value: 'another-value-0123' })
    await stage.call({ tool: 'Text.Secret' })
    expect(stage.given.at(-1)?.token).toBe('another-value-0123')
    expect((await admin(stage, 'DELETE', `/admin/secrets/${first.json.ref}`)).status).toBe(404)
    expect((await admin(stage, 'DELETE', `/admin/secrets/${second.json.ref}`)).status).toBe(200)
    expect((await stage.call({ tool: 'Text.Secret' })).status).toBe(400)
    const discovery = await fetch(`${stage.url}/.well-known/openwop`)
    expect(await discovery.text()).not.toContain('two-key-overlap')
  })

  it('rule 24: a secret of one user is not used for the caller itself, nor for other users', async () => {
    await using stage = await openStage()
    await set(stage, { user_id: 'u1' })
    expect((await stage.call({ tool: 'Text.Secret', userId: 'u1' })).value).toBe('done')
    for (const asked of [{}, { userId: 'u2' }, { key: OTHER, userId: 'u1' }])
      expect((await stage.call({ tool: 'Text.Secret', ...asked })).status).toBe(400)
  })

  it('rule 29: only admin:secrets and the start token give access', async () => {
    await using stage = await openStage()
    const startToken = readFileSync(stage.server.startTokenFile, 'utf8').trim()
    expect((await admin(stage, 'GET', '/admin/secrets', { key: startToken })).status).toBe(200)
    for (const key of [AGENT, OTHER]) {
      expect((await admin(stage, 'GET', '/admin/secrets', { key })).status).toBe(403)
      expect((await admin(stage, 'DELETE', '/admin/secrets/x', { key })).status).toBe(403)
      const body = { name: 'API_KEY', principal: 'key:agent', value: VALUE }
      expect((await admin(stage, 'POST', '/admin/secrets', { key, body })).status).toBe(403)
    }
    expect((await fetch(`${stage.url}/admin/secrets`)).status).toBe(401)
  })

  it('tenants: an administrator sees, sets and removes nothing of another tenant', async () => {
    await using stage = await openStage()
    const startToken = readFileSync(stage.server.startTokenFile, 'utf8').trim()
    const body = { name: 'API_KEY', principal: 'key:agent', value: VALUE, tenant: 'other' }
    expect((await admin(stage, 'POST', '/admin/secrets', { body })).status).toBe(403)
    const { json } = await admin(stage, 'POST', '/admin/secrets', { body, key: startToken })
    expect((await admin(stage, 'GET', '/admin/secrets')).json.secrets).toEqual([])
    const foreign = await admin(stage, 'DELETE', `/admin/secrets/${json.ref}`)
    const unknown = await admin(stage, 'DELETE', '/admin/secrets/cred_none')
    expect([foreign.status, foreign.text]).toEqual([404, unknown.text])
    expect((await stage.call({ tool: 'Text.Secret' })).status).toBe(400)
  })

  it.each([
    ['no object', []],
    ['no value', { name: 'K', principal: 'key:a' }],
    ['an empty value', { name: 'K', principal: 'key:a', value: '' }],
    ['a value that is not a string', { name: 'K', principal: 'key:a', value: { VALUE } }],
    ['no name', { principal: 'key:a', value: VALUE }],
    ['an invalid principal', { name: 'K', principal: 'agent', value: VALUE }],
    ['the anonymous principal', { name: 'K', principal: 'anonymous', value: VALUE }],
    ['a stranger', { name: 'K', principal: 'key:a', value: VALUE, note: VALUE }],
    ['scopes of a secret', { name: 'K', principal: 'key:a', value: VALUE, scopes: ['x'] }],
    ['an unknown kind', { name: 'K', principal: 'key:a', value: VALUE, kind: VALUE }],
    ['a control character', { name: 'K\u0000', principal: 'key:a', value: VALUE }],
  ])('refuses %s without repeating it', async (_title, body) => {
    await using stage = await openStage()
    const refused = await admin(stage, 'POST', '/admin/secrets', { body })
    expect(refused.status).toBe(400)
    expect(refused.text).not.toContain(VALUE)
  })

  it('OWP-79: the journal records the actor and the reference of each change', async () => {
    await using stage = await openStage()
    const { json } = await set(stage)
    await admin(stage, 'DELETE', `/admin/secrets/${json.ref}`)
    await new Browser().visit((await stage.challenge()).url, { login: 'ann' })
    const { stdout } = await collet(stage, ['journal', '--json', '--store', stage.settings.store])
    const changes = stdout.split('\n').flatMap((line) => (line.includes('"vault.') ? [JSON.parse(line)] : []))
    expect(changes).toMatchObject([
      { type: 'vault.set', ref: json.ref, by: 'key:admin', provider: 'API_KEY', kind: 'secret' },
      { type: 'vault.removed', ref: json.ref, by: 'key:admin' },
      {
        type: 'vault.set',
        ref: expect.stringMatching(/^cred_/),
        by: 'consent',
        provider: 'mailer',
        kind: 'token',
      },
    ])
  })

  it('a removed token is revoked at its provider', async () => {
    await using stage = await openStage()
    await new Browser().visit((await stage.challenge()).url, { login: 'ann' })
    const { json } = await admin(stage, 'GET', '/admin/secrets')
    const removed = await admin(stage, 'DELETE', `/admin/secrets/${json.secrets[0].ref}`)
    expect(removed.json).toMatchObject({ revoked: true })
    expect(stage.provider.requests).toContain('POST /token/revocation')
    expect((await stage.call()).status).toBe(400)
  })
})

describe('collet secrets', () => {
  it('sets, lists and removes secrets in the store while a server uses it', async () => {
    await using stage = await openStage()
    const { store } = stage.settings
    const at = ['--store', store]
    const put = await collet(
      stage,
      ['secrets', 'set', 'API_KEY', '--principal', 'key:agent', ...at],
      `${VALUE}\n`,
    )
    expect([put.code, put.stderr]).toEqual([0, 'Acting as cli:tester, directly on the store\n'])
    const ref = put.stdout.trim()
    await stage.call({ tool: 'Text.Secret' })
    expect(stage.given.at(-1)?.token).toBe(VALUE)
    const listed = await collet(stage, ['secrets', 'list', ...at])
    expect(listed.stdout).toContain(ref)
    expect(listed.stdout + listed.stderr).not.toContain(VALUE)
    expect((await collet(stage, ['vault', 'rotate', ...at])).stdout).toBe(
      'Re-encrypted 1 credential of 1 tenant.\n',
    )
    await stage.call({ tool: 'Text.Secret' })
    expect(stage.given.at(-1)?.token).toBe(VALUE)
    expect((await collet(stage, ['secrets', 'rm', ref, ...at])).stdout).toBe(`${ref} is removed.\n`)
    expect((await collet(stage, ['secrets', 'rm', ref, ...at])).code).toBe(2)
    expect((await stage.call({ tool: 'Text.Secret' })).status).toBe(400)
  })

  it('sets, lists and removes secrets through a server, with its start token', async () => {
    await using stage = await openStage()
    const at = ['--url', stage.url, '--store', stage.settings.store]
    const put = await collet(
      stage,
      [
        'secrets',
        'set',
        'mailer',
        '--token',
        '--scope',
        'mail.read',
        '--principal',
        'key:agent',
        '--user',
        'u1',
        '--json',
        ...at,
      ],
      VALUE,
    )
    const { ref } = JSON.parse(put.stdout)
    expect((await stage.call({ userId: 'u1' })).value).toBe('mail')
    expect((await stage.call({ userId: 'u1', tool: 'Mail.Send' })).json.developer_message).toContain(
      'credential_scope_unsupported',
    )
    const rows = JSON.parse((await collet(stage, ['secrets', 'list', '--json', ...at])).stdout)
    expect(rows).toMatchObject([{ ref, kind: 'token', name: 'mailer', scopes: ['mail.read'] }])
    expect(JSON.parse((await collet(stage, ['secrets', 'rm', ref, '--json', ...at])).stdout)).toMatchObject({
      ref,
    })
  })

  it('reads a value from stdin only, and reports missing arguments', async () => {
    await using stage = await openStage()
    const at = ['--store', stage.settings.store]
    expect(
      (await collet(stage, ['secrets', 'set', 'K', VALUE, '--principal', 'key:a', ...at], 'x')).code,
    ).toBe(2)
    expect((await collet(stage, ['secrets', 'set', 'K', '--principal', 'key:a', ...at])).stderr).toContain(
      'no value',
    )
    expect((await collet(stage, ['secrets', 'set', 'K', ...at], 'x')).stderr).toContain('--principal')
  })

  it('does not echo a value typed on a terminal, and allows corrections', async () => {
    await using stage = await openStage()
    const modes: boolean[] = []
    const stdin = Object.assign(chunks('wrong\u007f\u007f\u007f\u007f\u007f', `${VALUE}\r`, 'later'), {
      isTTY: true,
      setRawMode: (on: boolean) => modes.push(on),
    })
    const io = new FakeIo(REAL_SERVICES, { stdin, workingFolder: stage.settings.dataFolder })
    expect(
      await io.run('secrets', 'set', 'API_KEY', '--principal', 'key:agent', '--store', stage.settings.store),
    ).toBe(0)
    expect(modes).toEqual([true, false])
    expect(io.stdout + io.stderr).not.toContain(VALUE)
    await stage.call({ tool: 'Text.Secret' })
    expect(stage.given.at(-1)?.token).toBe(VALUE)
  })
})
