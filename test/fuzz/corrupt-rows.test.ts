import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { STORE_CONTRACT } from '../contracts/store-contract.ts'
import { sized } from '../size.ts'
import { useDatabase } from '../store/databases.ts'
import { Random } from './random-input.ts'
import { type Ids, readEverything } from './read-everything.ts'

/**
 * Damages one column after another of rows that the contract tests of stores wrote, and reads everything. A row that cannot be
 * read causes an error for the operator, never a crash, a hang or a wrong answer (rule 14).
 */
const SEED = Number(process.env.COLLET_FUZZ_SEED ?? 20_261_116)
const HANG_MS = 20_000
/** Number of contract cases whose rows are damaged, and of damages per case. */
const CASES = { sqlite: sized(8, 400), postgres: sized(2, 100) }
const DAMAGES = { sqlite: sized(10, 150), postgres: sized(6, 60) }
const masterKey = randomBytes(32)

/** A database whose rows can be changed without the store. */
interface Damaged {
  open(): Promise<Store> | Store
  ask(sql: string): Promise<readonly Record<string, unknown>[]>
  /** Table and column, of tables that have rows. */
  columns(): Promise<readonly (readonly [table: string, column: string])[]>
  /** Restores the undamaged state. */
  restore(): Promise<void>
}

describe(`SQLite, seed ${SEED}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-corrupt-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.each(chosen('sqlite'))('%s', { timeout: 600_000 }, async (name, { run }, turn) => {
    const [written, path] = [join(folder, `${turn}.db`), join(folder, `${turn}-damaged.db`)]
    const stores: Store[] = []
    await run(async () => {
      stores.push(openSqliteStore({ path: written, masterKey }))
      return stores.at(-1) ?? expect.fail()
    })
    for (const store of stores) await store.close()
    const ask = async (sql: string) => {
      const database = new DatabaseSync(path)
      try {
        return database.prepare(sql).all()
      } finally {
        database.close()
      }
    }
    const damaged: Damaged = {
      open: () => openSqliteStore({ path, masterKey }),
      ask,
      async columns() {
        copyFileSync(written, path)
        const tables = await ask(
          "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        )
        const columns = tables.map(async ({ name: table }) => {
          const [row] = await ask(`SELECT * FROM ${table} LIMIT 1`)
          return row === undefined ? [] : Object.keys(row).map((column) => [`${table}`, column] as const)
        })
        return (await Promise.all(columns)).flat()
      },
      async restore() {
        copyFileSync(written, path)
      },
    }
    await damageAll(damaged, new Random(SEED + turn), DAMAGES.sqlite, name)
  })
})

describe(`PostgreSQL, seed ${SEED}`, () => {
  const database = useDatabase('corrupt')
  let client: Client
  beforeAll(async () => {
    client = new Client({ connectionString: database.url })
    await client.connect()
  })
  afterAll(() => client.end())

  it.each(chosen('postgres'))('%s', { timeout: 600_000 }, async (name, { run }, turn) => {
    const stores: Store[] = []
    await run(async () => {
      stores.push(await database.open())
      return stores.at(-1) ?? expect.fail()
    })
    for (const store of stores) await store.close()
    const ask = async (sql: string) => (await client.query<Record<string, unknown>>(sql)).rows
    let saved: ReadonlySet<string> = new Set()
    const damaged: Damaged = {
      open: () => database.open(),
      ask,
      async columns() {
        const all = await ask(
          "SELECT table_name AS t, column_name AS c FROM information_schema.columns JOIN pg_tables ON tablename = table_name WHERE schemaname = 'public'",
        )
        const full: (readonly [string, string])[] = []
        for (const { t, c } of all) {
          if ((await ask(`SELECT 1 FROM ${t} LIMIT 1`)).length > 0) full.push([`${t}`, `${c}`])
        }
        saved = new Set(full.map(([t]) => t))
        for (const table of saved) await ask(`CREATE TEMP TABLE saved_${table} AS TABLE ${table}`)
        return full
      },
      // All rows, because reading everything also recovers calls, which writes.
      async restore() {
        for (const table of saved) {
          await ask(`DELETE FROM ${table}`)
          await ask(`INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM saved_${table}`)
        }
      },
    }
    try {
      await damageAll(damaged, new Random(SEED + turn), DAMAGES.postgres, name)
    } finally {
      await ask('DISCARD TEMP')
    }
  })
})

/** Some cases of the contract, spread over all its parts. */
function chosen(engine: keyof typeof CASES) {
  const step = Math.max(1, Math.floor(STORE_CONTRACT.length / CASES[engine]))
  return STORE_CONTRACT.filter((_, index) => index % step === 0).map(
    (one, turn) => [one.name, one, turn] as const,
  )
}

const DAMAGE_TEXTS = [
  'NULL',
  "''",
  "'garbage'",
  "'{'",
  '-1',
  '0',
  '9007199254740993',
  '2147483648',
  "'9e999'",
] as const

async function damageAll(damaged: Damaged, random: Random, times: number, name: string): Promise<void> {
  const columns = await damaged.columns()
  const [first] = columns
  if (first === undefined) return
  const before = await attempt(damaged, await idsOf(damaged))
  expect(before.foreign, `${name}, undamaged`).toEqual([])
  await damaged.restore()
  for (let turn = 0; turn < times; turn += 1) {
    const [table, column] = random.one([first, ...columns])
    const value = random.isLucky(0.3) ? `(SELECT max(x.${column}) FROM ${table} x)` : random.one(DAMAGE_TEXTS)
    const ids = await idsOf(damaged)
    const sql = `UPDATE ${table} SET ${column} = ${value}`
    const isDone = await damaged.ask(sql).then(
      () => true,
      // The database refuses some values, so they cannot be stored.
      () => false,
    )
    if (isDone) {
      const after = await attempt(damaged, ids)
      expect(after.foreign, `${name}: ${sql}`).toEqual([])
      for (const [record, outcome] of after.outcomes) {
        expect([undefined, before.outcomes.get(record)], `${name}: ${sql}: outcome of ${record}`).toContain(
          outcome,
        )
      }
    }
    await damaged.restore()
  }
}

async function idsOf({ ask }: Damaged): Promise<Ids> {
  const texts = async (sql: string) =>
    (await ask(sql)).map(({ id, tenant }) => ({ id: `${id}`, tenant: `${tenant}` }))
  return {
    calls: await texts('SELECT record AS id, tenant FROM calls'),
    runs: await texts('SELECT key AS id, tenant FROM runs'),
    sessions: await texts('SELECT id, tenant FROM sessions'),
    approvals: await texts('SELECT id, tenant FROM approvals'),
    challenges: await texts('SELECT id, tenant FROM challenges'),
    consents: await texts('SELECT id, tenant FROM consents'),
    callerSessions: await texts('SELECT id, tenant FROM caller_sessions'),
    questions: await texts('SELECT id, tenant FROM caller_questions'),
    keyedRequests: await texts('SELECT id, tenant FROM keyed_requests'),
    buckets: (await ask('SELECT bucket FROM rates')).map(({ bucket }) => `${bucket}`),
  }
}

interface Attempt {
  /** Errors that the store did not raise itself. */
  readonly foreign: readonly string[]
  readonly outcomes: ReadonlyMap<string, string | undefined>
}

async function attempt(damaged: Damaged, ids: Ids): Promise<Attempt> {
  const [foreign, outcomes]: [string[], Map<string, string | undefined>] = [[], new Map()]
  const note = (doing: string, error: unknown): void => {
    if (!(error instanceof StoreError)) foreign.push(`${doing}: ${String(error)}`)
  }
  let store: Store | undefined
  try {
    store = await damaged.open()
  } catch (error) {
    note('open', error)
    return { foreign, outcomes }
  }
  for (const [doing, read] of readEverything(store, ids, outcomes)) {
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(new Error(`hangs: no answer in ${HANG_MS} ms`)), HANG_MS)
    try {
      await Promise.race([read(), late.promise])
    } catch (error) {
      note(doing, error)
    } finally {
      clearTimeout(timer)
    }
  }
  try {
    await store.close()
  } catch (error) {
    note('close', error)
  }
  return { foreign, outcomes }
}
