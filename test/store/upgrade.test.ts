import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { MIGRATIONS } from '#store/schema'
import { migrateStore, openStore } from '#store/stores'
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
    const file = join(dataFolder, `${version}.db`)
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
      expect(await migrateStore(url, key, 'look')).toEqual({ from: MIGRATIONS.length, to: MIGRATIONS.length })
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

const IN_THE_MIDDLE = `SELECT 1 FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event = 'PgSleep' AND state = 'active'`

function read(version: string, name: string): string {
  return readFileSync(new URL(`${version}/${name}`, FOLDER), 'utf8')
}
