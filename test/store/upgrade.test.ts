import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { pinHash } from '#core/imports/definition-diff'
import { Pins } from '#core/imports/pins'
import { SILENT_LOGGER } from '#core/runtime'
import { pinnedCommand } from '#core/source-facts'
import { KeyRing } from '#store/key-ring'
import { prepareDatabase } from '#store/postgres/open'
import { openPostgresTables } from '#store/postgres/tables'
import { rowMac } from '#store/rows'
import { MIGRATIONS } from '#store/schema'
import { openDatabase } from '#store/sqlite/database'
import { openSqliteTables } from '#store/sqlite/tables'
import { migrateStore, openStore } from '#store/stores'
import { sampleOffer } from '#testing/source-contract'
import { FakeClock } from '#testing/test-gateway'
import { sampleDiscovery, sampleSource } from '../samples/sources.ts'
import { createDatabase, query } from './databases.ts'
import { goOn, lookAround } from './lived-in.ts'

const FOLDER = new URL('upgrade/', import.meta.url)

let dataFolder: string

beforeAll(() => {
  dataFolder = mkdtempSync(join(tmpdir(), 'collet-upgrade-'))
})
afterAll(() => rmSync(dataFolder, { recursive: true }))

/** A database as an earlier version left it. */
const LOADS = {
  async sqlite(version: string) {
    const file = join(mkdtempSync(join(dataFolder, 'store-')), `${version}.db`)
    const database = new DatabaseSync(file)
    database.exec(read(version, 'sqlite.sql'))
    database.close()
    return `sqlite:${file}`
  },
  async postgres(version: string) {
    const url = await createDatabase(`upgrade_${version.replaceAll(/\W/g, '_')}`)
    await query(url, read(version, 'postgres.sql'))
    return url
  },
}

describe.each(readdirSync(FOLDER))('a store that version %s wrote', (version) => {
  const facts = JSON.parse(read(version, 'facts.json'))
  const key = { dataFolder: '.', masterKey: Buffer.from(facts.masterKey, 'base64') }

  it('lacks only steps at the end: those that it has taken are never changed', () => {
    const steps = hash('sha256', MIGRATIONS.slice(0, facts.schema).join('\0'), 'base64url')
    expect(
      steps,
      'add a step to MIGRATIONS; before the first release, run scripts/make-upgrade-fixture.ts',
    ).toBe(facts.steps)
  })

  it.each(['sqlite', 'postgres'] as const)(
    'on %s opens, migrates, gives its outcomes again and goes on',
    async (kind) => {
      const { heads, seen } = facts[kind]
      const url = await LOADS[kind](version)
      expect(await migrateStore(url, key, 'look')).toEqual({ from: facts.schema, to: MIGRATIONS.length })
      const store = await openStore(url, { ...key, mode: 'server' })
      try {
        expect(JSON.parse(JSON.stringify(await lookAround(store)))).toMatchObject(seen)
        expect(seen.states).toEqual(['succeeded', 'succeeded', 'parked', 'parked', 'ambiguous'])
        expect(await goOn(store, heads)).toEqual(['found', 'claimed', 'settled', true])
        expect(await store.verify()).toMatchObject({ ok: true })
      } finally {
        await store.close()
      }
      // Writers of earlier versions did not say where they run.
      const places = await placesOf(url)
      expect(places.slice(0, -1)).toEqual(places.slice(1).map(() => null))
      expect(places.length).toBeGreaterThan(1)
      expect(places.at(-1)).toBe(`${hostname()} pid ${process.pid}`)
      expect(await migrateStore(url, key, 'look')).toEqual({ from: MIGRATIONS.length, to: MIGRATIONS.length })
    },
  )
})

describe('a pin that schema 2 kept with the arguments of its program in the clear', () => {
  const args = ['-y', 'server-files', '--api-key=canary-argument', 'postgresql://app:canary-password@db/x']
  const server = { name: 'files', version: '1' }
  const endpoint = { transport: 'stdio', command: 'npx', args }
  const offered = sampleOffer('read', { binding: { endpoint, isStructured: false } })
  const facts = JSON.parse(read('0.1.0', 'facts.json'))
  const key = { dataFolder: '.', masterKey: Buffer.from(facts.masterKey, 'base64') }

  /** The row as schema 2 wrote it, signed with the key of the store. */
  function plainRow(keys: KeyRing) {
    const identity = { ...endpoint, server }
    const kept = { hash: pinHash(identity, offered), identity, offered }
    const row = {
      ...{ source: 'Files', native_name: 'read', local: 'read', served: 1 },
      accepted: JSON.stringify({ ...kept, version: '1.0.0', by: 'first sight', atMs: 1 }),
      waiting: JSON.stringify({
        kind: 'change',
        class: 'breaking',
        seenAtMs: 1,
        reasons: [],
        definition: kept,
      }),
    }
    const values = [...Object.values(row), rowMac(keys.current, 'pins', row)]
    const literals = values.map((value) => (typeof value === 'number' ? value : `'${value}'`))
    return [
      "INSERT INTO pin_sources (source, revision) VALUES ('Files', 1)",
      `INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES (${literals})`,
      // What an earlier change left behind in pages that are free now.
      "UPDATE pins SET local = 'read' WHERE source = 'Files'",
    ]
  }

  async function plant(kind: 'sqlite' | 'postgres', url: string): Promise<void> {
    const keys = new KeyRing({ current: key.masterKey })
    const migrations = MIGRATIONS.slice(0, 2)
    if (kind === 'postgres') {
      await prepareDatabase(url, keys, { migrations })
      for (const statement of plainRow(keys)) await query(url, statement)
    } else {
      const database = openDatabase(url.slice('sqlite:'.length), keys, { migrations })
      for (const statement of plainRow(keys)) database.exec(statement)
      database.close()
    }
  }

  /** Everything that lies on the disk of it. */
  async function remains(kind: 'sqlite' | 'postgres', url: string): Promise<string> {
    if (kind === 'sqlite') {
      const file = url.slice('sqlite:'.length)
      const log = existsSync(`${file}-wal`) ? readFileSync(`${file}-wal`, 'latin1') : ''
      return readFileSync(file, 'latin1') + log
    }
    await query(url, 'CHECKPOINT')
    const found = await query<{ bytes: Buffer }>(
      url,
      "SELECT pg_read_binary_file(pg_relation_filepath('pins')) AS bytes",
    )
    return found.map(({ bytes }) => bytes.toString('latin1')).join('')
  }

  it.each(['sqlite', 'postgres'] as const)(
    'on %s is sealed by the upgrade, is not on the disk any more and is still the definition that is served',
    async (kind) => {
      const url = await LOADS[kind]('0.1.0')
      await plant(kind, url)
      expect(await remains(kind, url)).toContain('canary-argument')
      const store = await openStore(url, { ...key, mode: 'server' })
      try {
        expect(await remains(kind, url)).not.toContain('canary')
        const pins = new Pins({ store, clock: new FakeClock(), log: SILENT_LOGGER })
        const [pin] = await pins.accepted('Files')
        expect(JSON.stringify(pin)).not.toContain('canary')
        const pinned = pinnedCommand('npx', args, (text) => store.digest(text))
        expect(pin?.identity).toEqual({ ...pinned, server })
        const now = { ...offered, binding: { ...offered.binding, endpoint: pinned } }
        const seen = sampleDiscovery([now], { ...pinned, server })
        expect(await pins.observe(sampleSource({ key: 'Files' }), seen)).toMatchObject({ waiting: 0 })
        const other = { ...pinnedCommand('npx', ['-y', 'other'], (text) => store.digest(text)), server }
        expect(
          await pins.observe(sampleSource({ key: 'Files' }), sampleDiscovery([now], other)),
        ).toMatchObject({
          waiting: 1,
        })
      } finally {
        await store.close()
      }
    },
  )
})

/** A step of a later version, which takes a while. */
const NEXT = `ALTER TABLE writers ADD COLUMN host TEXT;
  CREATE TABLE hosts (name TEXT PRIMARY KEY) STRICT;
  INSERT INTO hosts (name) VALUES ('one');
  SELECT pg_sleep(0.5);`
const [OLD, NEW] = [MIGRATIONS.length, MIGRATIONS.length + 1]

describe('the next step', () => {
  const children = new Set<ChildProcess>()
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL')
  })

  /** A process that migrates what it is sent. */
  function startMigrating(masterKey: string) {
    const file = fileURLToPath(new URL('migrate-process.ts', import.meta.url))
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const child = spawn(process.execPath, [...flags, file, masterKey, NEXT], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.add(child)
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    return {
      child,
      next: async () => String((await lines.next()).value),
      send: (url: string) => child.stdin.write(`${url}\n`),
    }
  }

  it('is taken once by three processes that start together, after one that was killed in the middle of it', async () => {
    const version = readdirSync(FOLDER).at(-1) ?? ''
    const facts = JSON.parse(read(version, 'facts.json'))
    const key = { dataFolder: '.', masterKey: Buffer.from(facts.masterKey, 'base64') }
    const old = await LOADS.postgres(version)
    await migrateStore(old, key, 'migrate')
    const [killed, ...others] = Array.from({ length: 4 }, () => startMigrating(facts.masterKey))
    if (killed === undefined) throw new Error('four were started')
    await Promise.all([killed, ...others].map(({ next }) => next()))

    killed.send(old)
    await vi.waitUntil(async () => (await query(old, IN_THE_MIDDLE)).length > 0, { timeout: 30_000 })
    killed.child.kill('SIGKILL')
    await once(killed.child, 'exit')
    for (const [url, from] of [[old, OLD] as const, [await createDatabase('upgrade_empty'), 0] as const]) {
      for (const { send } of others) send(url)
      const seen = (await Promise.all(others.map(({ next }) => next()))).sort()
      expect(seen).toEqual([`${from} ${NEW}`, ...Array(2).fill(`${NEW} ${NEW}`)])
      expect(await query(url, 'SELECT name FROM hosts')).toEqual([{ name: 'one' }])
    }

    // What it holds is what it was. This Collet knows of no such step, so it has to be told that there was none.
    await query(old, `UPDATE meta SET value = '${OLD}' WHERE name = 'schema_version'`)
    const store = await openStore(old, { ...key, mode: 'server' })
    try {
      expect(JSON.parse(JSON.stringify(await lookAround(store)))).toMatchObject(facts.postgres.seen)
      expect(await goOn(store, facts.postgres.heads)).toEqual(['found', 'claimed', 'settled', true])
    } finally {
      await store.close()
    }
  })
})

async function placesOf(url: string): Promise<readonly unknown[]> {
  const tables = await (url.startsWith('sqlite:')
    ? openSqliteTables(url.slice('sqlite:'.length))
    : openPostgresTables(url))
  try {
    return (await tables.query('SELECT place FROM writers ORDER BY no')).map(({ place }) => place)
  } finally {
    await tables.close()
  }
}

const IN_THE_MIDDLE = `SELECT 1 FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event = 'PgSleep' AND state = 'active'`

function read(version: string, name: string): string {
  return readFileSync(new URL(`${version}/${name}`, FOLDER), 'utf8')
}
