import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkClock, checkNode } from '#cli/commands/doctor'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { StoreError } from '#kernel/base/errors'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { migrateStore } from '#store/stores'
import { sampleCall } from '../contracts/samples.ts'
import { createDatabase, elsewhere } from '../store/databases.ts'
import { FakeIo } from './fake-io.ts'

describe('collet doctor', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    config({ server: { port: 0 } })
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function config(content: unknown): void {
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify(content))
  }

  function database(): string {
    mkdirSync(join(folder, '.collet'), { recursive: true })
    const file = join(folder, '.collet', 'collet.db')
    const made = new DatabaseSync(file)
    made.exec('CREATE TABLE t (x)')
    made.close()
    return file
  }

  function key(text = Buffer.alloc(32).toString('base64'), mode = 0o600): void {
    mkdirSync(join(folder, '.collet'), { recursive: true })
    const file = join(folder, '.collet', 'key')
    writeFileSync(file, text)
    chmodSync(file, mode)
  }

  const examine = async (io: FakeIo) => {
    const code = await io.run('doctor', '--json')
    const checks: { subject: string; level: string; message: string; advice?: string }[] = JSON.parse(
      io.stdout,
    )
    return { code, check: (subject: string) => checks.find((each) => each.subject === subject) }
  }
  const here = (changes = {}) =>
    new FakeIo(
      { checkWritable: async () => undefined },
      { workingFolder: folder, clock: SYSTEM_CLOCK, ...changes },
    )

  it('F3, F15: reports names in the config that match nothing, with a suggestion', async () => {
    config({
      server: { port: 0 },
      toolsets: { crm: { include: ['source:Crm'] } },
      auth: { required: true, roles: { boss: ['approvals:respnd'] } },
      limits: { byPrincipal: { 'key:crm': { callsPerMinute: 60 } } },
      budgets: [{ for: 'tenant', of: ['acme'], window: '1d', calls: 5 }],
    })
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
    expect(await io.run('keys', 'create', 'crn', '--tenant', 'acmee')).toBe(0)
    const printed = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
    expect(await printed.run('doctor')).toBe(0)
    expect(printed.stdout.split('\n').filter((line) => line.startsWith('! names'))).toEqual([
      '! names  toolsets.crm.include: there is no source "Crm".',
      '! names  auth.roles.boss: No tool or route here needs the scope "approvals:respnd". Did you mean "approvals:respond"?',
      '! names  limits.byPrincipal: no key belongs to "key:crm". Did you mean "key:crn"?',
      '! names  budgets[0].of: no key belongs to the tenant "acme". Did you mean "acmee"?',
    ])
  })

  it('OWP-57: reports allow-list entries that have no effect because the key lacks a scope', async () => {
    rmSync(join(folder, 'collet.config.json'))
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `const tool = (id, scopes) => ({ [Symbol.for('collet.tool')]: true, id, description: 'Does.', input: {}, output: null,
         policy: { scopes }, run: () => undefined })
       export default { server: { port: 0 }, tools: [tool('Mail.Read@1.0.0', ['mail:read']), tool('Mail.Send@1.0.0', ['mail:send', 'mail:read'])],
         toolsets: { mail: { include: ['Mail.*'] } },
         auth: { roles: { reader: ['mail:read'] }, apiKeys: [
           { id: 'one', key: '${'k'.repeat(40)}', tools: ['Mail.Send'], roles: ['reader'] },
           { id: 'two', key: '${'j'.repeat(40)}', tools: ['Mail.Read'], roles: ['reader'] } ] } }`,
    )
    const run = async (...argv: string[]) => {
      const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
      expect(await io.run(...argv)).toBe(0)
      return io.stdout + io.stderr
    }
    const warning = 'needs the scope mail:read, which this key does not have'
    for (const name of ['bot', 'bat'])
      expect(await run('keys', 'create', name, '--tool', 'openwop:Mail.Read')).toContain(
        `! openwop:Mail.Read ${warning}: add --scope mail:read`,
      )
    expect(await run('keys', 'create', 'sets', '--toolset', 'mail')).toContain(`! toolset:mail ${warning}`)
    expect(await run('keys', 'create', 'good', '--tool', 'Mail.*', '--role', 'reader')).not.toContain(
      'asks for',
    )
    expect(await run('keys', 'create', 'past', '--tool', 'Mail.Send')).toContain(
      '--scope mail:send --scope mail:read',
    )
    expect(await run('keys', 'revoke', '--principal', 'past')).not.toContain('!')
    expect((await run('doctor')).split('\n').filter((line) => line.startsWith('! keys'))).toEqual([
      '! keys   auth.apiKeys of "one": Mail.Send needs the scope mail:send, which this key does not have: add it to `scopes`',
      `! keys   key:sets: toolset:mail ${warning}: create a key with --scope mail:read`,
      `! keys   key:bat and 1 more: openwop:Mail.Read ${warning}: create a key with --scope mail:read`,
    ])
  })

  it.each([
    ['limits.byTool', { limits: { byTool: { 'Mail.Send': { concurrent: 1 } } } }],
    ['approvals.perTool', { approvals: { perTool: { 'Mail.Send': { quorum: 2 } } } }],
  ])('finds what a server would refuse: %s for a tool that does not exist', async (where, content) => {
    config(content)
    const { code, check } = await examine(here())
    expect([code, check('config')]).toEqual([
      2,
      expect.objectContaining({ level: 'fail', message: expect.stringContaining(where) }),
    ])
  })

  it('finds a fresh folder in order', async () => {
    const io = here()
    expect(await io.run('doctor')).toBe(0)
    expect(io.stdout).toContain('✓ node')
    expect(io.stdout).toContain('✓ key    ')
    expect(io.stdout).toContain('will be created at the first start')
    expect(io.stdout).not.toContain('✗')
  })

  it('prints lines to add on separate lines, and commands as the user types them here', async () => {
    const tool = (version: string) => `{
      [Symbol.for('collet.tool')]: true, id: 'Repo.List@${version}', description: 'Lists repositories.',
      input: { type: 'object' }, output: {}, policy: { safetyTier: 'read' },
      requirements: { authorization: [{ id: 'github' }] }, run: () => [],
    }`
    rmSync(join(folder, 'collet.config.json'))
    const text = `export default { server: { port: 0 }, tools: [${tool('1.0.0')}, ${tool('2.0.0')}] }`
    writeFileSync(join(folder, 'collet.config.mjs'), text)
    const io = here({ command: './collet' })
    expect(await io.run('doctor')).toBe(0)
    expect(io.stdout).toContain('✓ tools  1 tool\n')
    expect(io.stdout).toMatch(
      /^! oauth {2}Repo\.List needs github.*\n {9}→ Add to the config:\n {13}oauth: \{\n/m,
    )
    rmSync(join(folder, 'collet.config.mjs'))
    config({ tool: [] })
    const wrong = here({ command: './collet' })
    expect(await wrong.run('doctor')).toBe(2)
    expect(wrong.stdout).toContain('→ Edit the file and run ./collet doctor again.')
  })

  it('finds a used store in order', async () => {
    database()
    key()
    const { code, check } = await examine(here())
    expect(code).toBe(0)
    expect(check('store')).toMatchObject({ level: 'ok' })
    expect(check('key')).toMatchObject({ level: 'ok' })
    expect(check('clock')).toMatchObject({ level: 'ok' })
  })

  it('F13: reports keys, sources and pending items of the store; collet tools lists the sources too', async () => {
    key()
    rmSync(join(folder, 'collet.config.json'))
    const scoped = { type: 'object', properties: {} }
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `export default { tools: [{ [Symbol.for('collet.tool')]: true, id: 'Mail.Read@1.0.0', description: 'Reads.',
         input: ${JSON.stringify(scoped)}, output: { type: 'boolean' }, policy: { scopes: ['mail:read'] }, run: () => true }] }`,
    )
    const run = async (...argv: string[]) => {
      const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
      await io.run(...argv)
      return io.stdout + io.stderr
    }
    expect(await run('doctor')).toContain('No credential is configured')
    expect(await run('keys', 'create', 'ann', '--scope', 'mail:read')).toContain('clt_')
    const path = join(folder, '.collet', 'collet.db')
    const database = new DatabaseSync(path)
    const store = openSqliteStore({ path, masterKey: Buffer.alloc(32) })
    const added = { addedBy: 'cli:tester', addedMs: Date.now(), replace: false }
    await store.sources.put({
      key: 'files',
      options: { type: 'mcp', url: 'http://127.0.0.1:9/mcp' },
      ...added,
    })
    await store.claim(sampleCall())
    await store.close()
    database.exec("UPDATE calls SET state = 'ambiguous'")
    database.close()
    const printed = await run('doctor')
    expect(printed).not.toContain('No credential is configured')
    expect(printed).toContain('✓ keys   1 valid key in the store')
    expect(printed).toContain('✓ source files (no tools read yet), as last seen')
    expect(printed).toContain('! calls  It is unknown whether 1 call took effect')
    expect(printed).toContain('collet calls settle records what happened')
  })

  it('writes nothing to the journal', async () => {
    key()
    const path = join(folder, '.collet', 'collet.db')
    const store = openSqliteStore({ path, masterKey: Buffer.alloc(32) })
    await store.probe()
    const before = store.readJournal([], 10)
    const { check } = await examine(new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK }))
    expect(check('store')).toMatchObject({ level: 'ok' })
    expect(store.readJournal([], 10)).toEqual(before)
    await store.close()
  })

  it('checks a PostgreSQL database, reachable or not, and never prints its password', async () => {
    const url = await createDatabase('doctored')
    const masterKey = Buffer.alloc(32)
    await migrateStore(url, { dataFolder: folder, masterKey }, 'migrate')
    const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })
    const changes = { workingFolder: folder, clock: SYSTEM_CLOCK, environment }
    const examineAt = async (store: string) => {
      config({ server: { port: 0 }, store })
      const io = new FakeIo(REAL_SERVICES, changes)
      return { ...(await examine(io)), printed: io.stdout }
    }
    const living = await examineAt(url)
    expect(living.check('store')).toMatchObject({ level: 'ok' })
    expect(['server', 'schema', 'clocks'].map((subject) => living.check(subject)?.level)).toEqual([
      'ok',
      'ok',
      'ok',
    ])

    expect(living.check('encryption')).toBeUndefined()
    expect((await examineAt(elsewhere(url))).check('encryption')).toMatchObject({
      level: 'warn',
      message: expect.stringContaining('PostgreSQL on 0.0.0.0 is not encrypted. Add sslmode=require'),
    })

    const gone = createServer().listen(0, '127.0.0.1')
    await once(gone, 'listening')
    const address = gone.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    await new Promise((resolve) => gone.close(resolve))
    const dead = await examineAt(`postgres://collet:hunter2@127.0.0.1:${port}/collet`)
    expect([dead.code, dead.check('store')]).toEqual([
      2,
      expect.objectContaining({
        level: 'fail',
        message: expect.stringContaining('ECONNREFUSED'),
        advice: expect.any(String),
      }),
    ])
    expect(dead.printed).not.toContain('hunter2')
  })

  it('reports every problem of the config', async () => {
    config({ prot: 1, server: { hots: 'x' } })
    const io = here()
    expect(await io.run('doctor')).toBe(2)
    expect(io.stdout).toContain('server: unknown key "hots". Did you mean "host"?')
    expect(io.stdout.match(/✗ config/g)).toHaveLength(2)
    expect(io.stdout).toContain('✓ clock')
  })

  it('reports tools that cannot load', async () => {
    config({ server: { port: 0 }, tools: ['./gone/*.ts'] })
    const { code, check } = await examine(here())
    expect(code).toBe(2)
    expect(check('tools')).toMatchObject({ level: 'fail' })
  })

  it('OTC-97: reports what serve would refuse, and OTC-103: what it would warn about', async () => {
    config({ server: { port: 0, host: '0.0.0.0' } })
    const { code, check } = await examine(here())
    expect(code).toBe(2)
    expect(check('access')).toMatchObject({
      level: 'fail',
      message: expect.stringContaining('Refusing to listen on 0.0.0.0 without credentials'),
    })
    config({ server: { port: 0 }, auth: { apiKeys: [{ id: 'a', key: 'weak' }] } })
    const warned = await examine(here())
    expect(warned.code).toBe(0)
    expect(warned.check('access')).toMatchObject({ level: 'warn' })
    config({ server: { port: 0 } })
    expect((await examine(here())).check('access')).toMatchObject({ level: 'ok' })
  })

  it('OWP-57: explains what to do about a name in an allow-list that matches no tool', async () => {
    const strong = 'aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5oQ7sU9w'
    config({ server: { port: 0 }, auth: { apiKeys: [{ id: 'a', key: strong, tools: ['openwop:Gone'] }] } })
    expect((await examine(here())).check('access')).toMatchObject({
      level: 'warn',
      message: expect.stringContaining('openwop:Gone'),
      advice: expect.stringContaining('collet tools'),
    })
  })

  it('reports a key file that others can read, a broken one and a missing one', async () => {
    key(undefined, 0o644)
    expect((await examine(here())).check('key')).toMatchObject({
      level: 'fail',
      advice: expect.stringContaining('chmod 600'),
    })
    key('short', 0o600)
    expect((await examine(here())).check('key')?.message).toContain('does not contain a key of 32 bytes')
    rmSync(join(folder, '.collet', 'key'))
    database()
    expect((await examine(here())).check('key')?.message).toContain('is missing, but its database exists')
  })

  it('checks COLLET_KEY instead of the file', async () => {
    const { code, check } = await examine(here({ environment: readEnvironment({ COLLET_KEY: 'c2hvcnQ=' }) }))
    expect(code).toBe(2)
    expect(check('key')?.message).toContain('the value decodes to 5 bytes')
  })

  it('reports a file that is not a database, and a database that does not open', async () => {
    key()
    writeFileSync(
      join(folder, '.collet', 'collet.db'),
      'this is not a database, whatever its name says'.repeat(100),
    )
    expect((await examine(here())).check('store')).toMatchObject({ level: 'fail' })
    rmSync(join(folder, '.collet', 'collet.db'))
    database()
    const refusing = new FakeIo(
      { checkWritable: () => Promise.reject(new StoreError('unreadable', 'the key does not fit')) },
      { workingFolder: folder },
    )
    expect((await examine(refusing)).check('store')?.message).toContain('the key does not fit')
  })

  it('warns about a port that is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : undefined
    config({ server: { port } })
    const { code, check } = await examine(here())
    server.close()
    expect(code).toBe(0)
    expect(check('port')).toMatchObject({ level: 'warn', message: `127.0.0.1:${port} is in use` })
  })

  it('warns about a clock that is behind the store', async () => {
    utimesSync(database(), new Date(), new Date(Date.now() + 3_600_000))
    key()
    expect((await examine(here())).check('clock')).toMatchObject({ level: 'warn' })
  })
})

describe('checks of the machine', () => {
  it('requires Node 24', () => {
    expect(checkNode('24.0.0').level).toBe('ok')
    expect(checkNode('22.9.0')).toMatchObject({ level: 'fail', advice: 'Install Node 24 or newer.' })
  })

  it('requires a plausible year and a monotonic clock that advances', () => {
    const at = (nowMs: number, ...ticks: number[]) =>
      checkClock({ nowMs: () => nowMs, monotonicMs: () => ticks.shift() ?? 0 })
    expect(at(Date.UTC(2026, 5, 1), 1, 2).level).toBe('ok')
    expect(at(0, 1, 2).level).toBe('fail')
    expect(at(Date.UTC(2026, 5, 1), 2, 1).level).toBe('fail')
  })
})
