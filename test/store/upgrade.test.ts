import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { DEFINITION } from '#store/collet-store'
import { openStore } from '#store/stores'
import { createDatabase, query } from './databases.ts'
import { checkGuarantees, fillStore, readStore } from './filled-store.ts'

/** A step of a later version, which takes a while. */
const NEXT = `ALTER TABLE writers ADD COLUMN host TEXT;
  CREATE TABLE hosts (name TEXT PRIMARY KEY) STRICT;
  INSERT INTO hosts (name) VALUES ('one');
  SELECT pg_sleep(0.5);`
const [OLD, NEW] = [DEFINITION.migrations.length, DEFINITION.migrations.length + 1]

describe('the next migration', () => {
  const children = new Set<ChildProcess>()
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL')
  })

  /** A process that migrates the databases that it is sent. */
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

  it('runs once in three processes that start together, after one that was killed in the middle of it', async () => {
    const masterKey = Buffer.alloc(32, 'upgrade')
    const old = await createDatabase('upgrade_old')
    const open = () => openStore(old, { dataFolder: '.', masterKey, mode: 'server' })
    await fillStore(open)
    const before = await open()
    const seen = await readStore(before)
    const { heads } = await before.verify()
    await before.close()
    const [killed, ...others] = Array.from({ length: 4 }, () => startMigrating(masterKey.toString('base64')))
    if (killed === undefined) throw new Error('four were started')
    await Promise.all([killed, ...others].map(({ next }) => next()))

    killed.send(old)
    await vi.waitUntil(async () => (await query(old, IN_THE_MIDDLE)).length > 0, { timeout: 30_000 })
    killed.child.kill('SIGKILL')
    await once(killed.child, 'exit')
    for (const [url, from] of [[old, OLD] as const, [await createDatabase('upgrade_empty'), 0] as const]) {
      for (const { send } of others) send(url)
      const migrated = (await Promise.all(others.map(({ next }) => next()))).sort()
      expect(migrated).toEqual([`${from} ${NEW}`, ...Array(2).fill(`${NEW} ${NEW}`)])
      expect(await query(url, 'SELECT name FROM hosts')).toEqual([{ name: 'one' }])
    }

    // The rows are unchanged. This version does not know the step, so the version number is set back first.
    await query(old, `UPDATE meta SET value = '${OLD}' WHERE name = 'schema_version'`)
    const store = await open()
    try {
      expect(await readStore(store)).toEqual(seen)
      expect(await checkGuarantees(store, heads)).toEqual(['found', 'claimed', 'settled', true])
    } finally {
      await store.close()
    }
  })
})

const IN_THE_MIDDLE = `SELECT 1 FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event = 'PgSleep' AND state = 'active'`
