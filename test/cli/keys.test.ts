import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { type RunningServer, startServer } from '#server/start-server'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { createDatabase } from '../store/databases.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })

let folder: string

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-keys-'))
  const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
  await store.probe()
  await store.close()
})

afterEach(() => rmSync(folder, { recursive: true }))

async function run(...argv: string[]) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
  const code = await io.run(...argv, '--store', 'sqlite:collet.db')
  return { code, stdout: io.stdout, stderr: io.stderr }
}

const json = async (...argv: string[]) => JSON.parse((await run(...argv, '--json')).stdout)

describe('collet keys create with a config', () => {
  const config = {
    toolsets: { crm: { include: ['Crm.*'] } },
    auth: { roles: { viewer: ['mail:read'] }, apiKeys: [{ id: 'taken', key: 'x'.repeat(40) }] },
    sources: { Crm: { type: 'mcp', command: 'no-such-program' } },
  }

  async function withConfig(...argv: string[]) {
    const own = join(folder, 'project')
    mkdirSync(own, { recursive: true })
    writeFileSync(join(own, 'collet.config.json'), JSON.stringify(config))
    const io = new FakeIo(REAL_SERVICES, { workingFolder: own, environment })
    return { code: await io.run(...argv), stdout: io.stdout, stderr: io.stderr }
  }

  it('F15: creates the database, so that a server never has to start without credentials', async () => {
    const made = await withConfig('keys', 'create', 'ci', '--toolset', 'crm', '--role', 'viewer')
    expect([made.code, made.stderr]).toEqual([0, expect.stringMatching(/Created \.collet.collet\.db/)])
    const again = await withConfig('keys', 'create', 'cd', '--tool', 'Crm.find')
    expect([again.code, again.stderr]).toEqual([0, expect.not.stringMatching(/Made/)])
    const listed = await withConfig('keys', 'list')
    expect(listed.stdout).toMatch(/ci .*role viewer \(only toolset crm\)/)
    expect(listed.stdout).toMatch(/cd .*\(only Crm\.find\)/)
  })

  it.each([
    [['--toolset', 'crn'], 2, 'There is no toolset "crn". Did you mean "crm"?'],
    [['--role', 'veiwer'], 2, 'There is no role "veiwer" in auth.roles. Did you mean "viewer"?'],
    [['--tool', 'Mail.Send'], 2, 'There is no tool "Mail.Send".'],
    [['--tool', 'source:Crn'], 0, 'There is no source "Crn". Did you mean "Crm"?'],
    [
      ['--scope', 'admin:kees'],
      0,
      'No tool or route here needs the scope "admin:kees". Did you mean "admin:keys"?',
    ],
  ])('F15: refuses %j with the reason', async (argv, code, message) => {
    const made = await withConfig('keys', 'create', 'x', ...argv)
    expect([made.code, made.stderr]).toEqual([code, expect.stringContaining(message)])
  })

  it('creates no key for a principal that has keys in the config', async () => {
    const refused = await withConfig('keys', 'create', 'taken')
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('has its keys in the configuration'),
    ])
  })
})

describe('collet keys create in an empty folder', () => {
  const inEmptyFolder = async (...argv: string[]) => {
    const empty = mkdtempSync(join(tmpdir(), 'collet-keys-none-'))
    const io = new FakeIo(REAL_SERVICES, { workingFolder: empty })
    const code = await io.run('keys', 'create', ...argv)
    const left = readdirSync(empty).sort()
    rmSync(empty, { recursive: true })
    return { code, left, stdout: io.stdout, stderr: io.stderr }
  }

  it('creates nothing in a folder without a config, and explains what to do', async () => {
    const { code, left, stderr } = await inEmptyFolder('teamx')
    expect([code, left]).toEqual([2, []])
    expect(stderr).toContain('There is no server here')
    expect(stderr).toContain('--init')
  })

  it('creates the config and the database with --init', async () => {
    const { code, left, stdout } = await inEmptyFolder('teamx', '--init')
    expect([code, left]).toEqual([0, ['.collet', 'collet.config.json']])
    expect(stdout).toMatch(/^clt_/)
  })

  it('refuses an invalid name before it creates anything', async () => {
    const { code, left, stderr } = await inEmptyFolder('bad name', '--init')
    expect([code, left]).toEqual([2, []])
    expect(stderr).toContain('principal')
  })

  it('creates the tables of an empty PostgreSQL database', async () => {
    const store = await createDatabase('first_key')
    const io = new FakeIo(REAL_SERVICES, { workingFolder: tmpdir(), environment })
    expect([await io.run('keys', 'create', 'teamx', '--store', store), io.stderr]).toEqual([
      0,
      expect.stringContaining('Created the tables in postgres://'),
    ])
    expect(await io.run('keys', 'create', 'teamy', '--store', store)).toBe(0)
    expect(io.stderr.match(/Created the tables/g)).toHaveLength(1)
  })
})

describe('collet keys create --from', () => {
  it('creates a key for each entry, on a store or through a server, and marks the refused entries', async () => {
    const file = join(folder, 'teams.json')
    const write = (entries: unknown) => writeFileSync(file, JSON.stringify(entries))
    write([
      { principal: 'agent', tenant: 't1' },
      { principal: 'agent', tenant: 't2', scopes: ['a:b'] },
    ])
    const made = await run('keys', 'create', '--from', file, '--expires', '90d')
    expect([made.code, made.stdout]).toEqual([
      0,
      expect.stringMatching(/^t1\tagent\tclt_\w{24}_.{43}\nt2\tagent\tclt_\w{24}_.{43}\n$/),
    ])
    const keys: readonly { expires_at: string | null }[] = await json('keys', 'list')
    expect(keys.filter(({ expires_at: end }) => end !== null)).toHaveLength(2)
    write([{ principal: 'agent', tenant: 't1' }, { principal: 'agent', tenant: 't3' }, { principle: 'x' }])
    const again = await run('keys', 'create', '--from', file)
    expect([again.code, again.stdout]).toEqual([2, expect.stringMatching(/^t3\tagent\tclt_/)])
    expect(again.stderr).toContain('entry 1 (agent): ')
    expect(again.stderr).toContain('entry 3 (undefined): ')
    expect(again.stderr).toContain('1 key created; they are shown only this once. 2 refused.')
    for (const [text, message] of [
      ['{', 'is not JSON'],
      ['{}', 'is not a list of objects'],
    ] as const) {
      writeFileSync(file, text)
      expect((await run('keys', 'create', '--from', file)).stderr).toContain(message)
    }
    expect((await run('keys', 'create', 'x', '--from', file)).stderr).toContain(
      'Name one principal, or a file',
    )
    expect((await run('keys', 'create', '--from', 'none.json')).stderr).toContain('none.json cannot be read')
  })
})

describe('collet keys on a store', () => {
  it('OTC-103, OWP-63: shows a key once, and lists everything about it but the key', async () => {
    const made = await run(
      'keys',
      'create',
      'ci',
      '--scope',
      'mail:read',
      '--scope',
      'fs:*',
      '--label',
      'build',
      '--expires',
      '90d',
    )
    expect(made.code).toBe(0)
    expect(made.stdout).toMatch(/^clt_[0-9a-f]{24}_[\w-]{43}\n$/)
    expect(made.stderr).toMatch(/for ci \(tenant default\) expires 20.*shown only this once/s)
    const list = await run('keys', 'list')
    expect(list.stdout).toMatch(/ci +default +valid +20[^ ]+Z .*mail:read fs:\* +build/)
    expect(list.stdout).not.toContain(made.stdout.trim())
    expect((await run('journal')).stdout).toMatch(
      /key\.created tenant=default principal=key:ci key=[0-9a-f]{24} by=cli:/,
    )
    expect((await run('journal')).stdout).not.toContain(made.stdout.trim().slice(-43))
  })

  it('rule 3: rotates, revokes one key, ends a principal, and never reuses its name', async () => {
    const first = await json('keys', 'create', 'ann', '--tenant', 'acme', '--role', 'viewer')
    const second = await json('keys', 'rotate', 'ann', '--tenant', 'acme', '--old-ends', '24h')
    expect(second).toMatchObject({ tenant: 'acme', principal: 'ann', expires_at: null })
    const rows = await json('keys', 'list')
    expect(rows).toMatchObject([
      { key_id: second.key_id, roles: ['viewer'], expires_at: null },
      { key_id: first.key_id, expires_at: expect.any(String) },
    ])
    expect((await run('keys', 'revoke', first.key_id)).stdout).toBe(`${first.key_id} is revoked.\n`)
    const again = await run('keys', 'revoke', first.key_id)
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('already been revoked')])
    expect((await run('keys', 'revoke', '--principal', 'ann', '--tenant', 'acme')).code).toBe(0)
    for (const word of ['create', 'rotate']) {
      const refused = await run('keys', word, 'ann', '--tenant', 'acme')
      expect([refused.code, refused.stderr]).toEqual([
        2,
        expect.stringContaining('names are never used again'),
      ])
    }
    expect(
      (await json('keys', 'list')).every((row: { revoked_at: unknown }) => row.revoked_at !== null),
    ).toBe(true)
  })

  it('accepts a tool under any of its names', async () => {
    const names = ['Mail.Send', 'Mail.Send@1.0.0', 'Mail_Send', 'openwop:Mail.Send']
    const made = await json('keys', 'create', 'agent', ...names.flatMap((name) => ['--tool', name]))
    expect(await json('keys', 'list')).toMatchObject([
      { key_id: made.key_id, principal: 'agent', tools: names },
    ])
  })

  it.each([
    [['keys', 'create', 'a', '--tool', 'Mail Send'], /tools.0: is neither a tool name nor a pattern/],
    [['keys', 'create'], /PRINCIPAL|which principal/i],
    [['keys', 'create', 'a b'], /principal/],
    [['keys', 'create', 'x', '--scope', 'a b'], /scopes/],
    [['keys', 'create', 'x', '--expires', 'soon'], /--expires expects/],
    [['keys', 'create', 'x', '--expires', '2001-01-01T00:00:00Z'], /must be in the future/],
    [['keys', 'rotate', 'nobody'], /no principal/],
    [['keys', 'rotate', 'nobody', '--old-ends', 'never'], /--old-ends expects/],
    [['keys', 'revoke'], /one key by its id/],
    [['keys', 'revoke', 'abc', '--principal', 'x'], /one key by its id/],
    [['keys', 'revoke', 'abc'], /no key whose id is "abc"/],
  ])('refuses %j', async (argv, message) => {
    const refused = await run(...argv)
    expect([refused.code, refused.stdout]).toEqual([2, ''])
    expect(refused.stderr).toMatch(message)
  })
})

describe('collet keys through a server', () => {
  let server: RunningServer

  beforeEach(async () => {
    server = await startServer(
      testSettings({ dataFolder: folder, masterKey, store: `sqlite:${join(folder, 'collet.db')}` }),
      { graceMs: 0 },
    )
  })

  afterEach(() => server.close())

  it('rule 29: creates and revokes keys with the start token', async () => {
    const made = await json('keys', 'create', 'ci', '--scope', 'mail:read', '--url', server.url)
    expect(made).toMatchObject({ principal: 'ci', key: expect.stringMatching(/^clt_/) })
    const statusOf = async (key: string) =>
      (await fetch(`${server.url}/tools`, { headers: { 'x-api-key': key } })).status
    await expect.poll(() => statusOf(made.key), { timeout: 1_500 }).toBe(200)
    expect((await run('keys', 'list', '--url', server.url)).stdout).toMatch(/ci +default +valid/)
    const rotated = await json('keys', 'rotate', 'ci', '--old-ends', '0s', '--url', server.url)
    await expect.poll(() => statusOf(made.key), { timeout: 1_500 }).toBe(401)
    expect(await statusOf(rotated.key)).toBe(200)
    expect((await run('keys', 'revoke', '--principal', 'ci', '--url', server.url)).code).toBe(0)
    await expect.poll(() => statusOf(rotated.key), { timeout: 1_500 }).toBe(401)
    expect((await run('keys', 'create', 'ci', '--url', server.url)).stderr).toContain(
      'names are never used again',
    )
  })

  it('--from reports the created keys and how to continue if the server stops it', async () => {
    const { key } = await json('keys', 'create', 'manager', '--scope', 'admin:keys')
    const file = join(folder, 'teams.json')
    const write = (...tenants: readonly string[]) =>
      writeFileSync(file, JSON.stringify(tenants.map((tenant, at) => ({ principal: `p${at}`, tenant }))))
    write('default', 'elsewhere', 'default')
    const from = ['keys', 'create', '--from', file, '--url', server.url, '--key', key] as const
    await expect.poll(async () => (await fetch(`${server.url}/tools`)).status, { timeout: 1_500 }).toBe(401)
    const stopped = await run(...from)
    expect([stopped.code, stopped.stdout]).toEqual([3, expect.stringMatching(/^default\tp0\tclt_\S+\n$/)])
    expect(stopped.stderr).toContain('teams.json: stopped at entry 2 (p1). 1 key created before; shown above')
    expect(stopped.stderr).toContain('run the same command again')
    write('default', 'default', 'default')
    const again = await run(...from)
    expect([again.code, again.stdout]).toEqual([
      2,
      expect.stringMatching(/^default\tp1\tclt_\S+\ndefault\tp2\tclt_\S+\n$/),
    ])
    expect(again.stderr).toContain('2 keys created; they are shown only this once. 1 refused.')
  })

  it('F12: collet audit lists refusals by caller, through the server and on the store', async () => {
    const { key } = await json('keys', 'create', 'nosy')
    const ask = async () =>
      (await fetch(`${server.url}/admin/secrets`, { headers: { 'x-api-key': key } })).status
    await expect.poll(ask, { timeout: 1_500 }).toBe(403)
    for (const there of [[], ['--url', server.url]])
      await expect
        .poll(async () => (await run('audit', '--since', '1h', ...there)).stdout)
        .toMatch(
          /AT +TENANT +PRINCIPAL.*\n(?:.* authenticate .*\n)?.* default +key:nosy +\S+ +admin:secrets +\S+ +1\n/,
        )
    expect((await json('audit', '--principal', 'key:nosy', '--limit', '1'))[0]).toMatchObject({
      principal_id: 'key:nosy',
    })
    expect((await run('audit', '--principal', 'key:nobody')).stderr).toContain('No request was refused.')
  })

  it('rule 26: a key created and revoked directly on the store takes effect within a second', async () => {
    const made = await json('keys', 'create', 'ann')
    const status = async () =>
      (await fetch(`${server.url}/tools`, { headers: { 'x-api-key': made.key } })).status
    await expect.poll(status, { timeout: 1_500 }).toBe(200)
    await expect.poll(async () => (await fetch(`${server.url}/tools`)).status, { timeout: 1_500 }).toBe(401)
    await run('keys', 'revoke', made.key_id)
    await expect.poll(status, { timeout: 1_500 }).toBe(401)
  })
})
