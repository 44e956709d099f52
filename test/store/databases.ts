import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, inject } from 'vitest'
import type { Store } from '#store/collet-store'
import { openPostgresStore } from '#store/postgres/open'
import { type DatabaseProxy, startProxy } from './postgres-proxy.ts'

type StoreOptions = Partial<Parameters<typeof openPostgresStore>[0]>

/** An empty database of the PostgreSQL that this run of tests shares; `name` is for debugging. */
export async function createDatabase(name: string): Promise<string> {
  const unique = `collet_test_${name}_${randomBytes(4).toString('hex')}`
  const response = await fetch(`${inject('databases')}/${unique}`)
  const text = await response.text()
  if (!response.ok) throw new Error(`no database for the test: ${text}`)
  return text
}

/** The database under a host name that resolves to this machine but is not recognised as local. */
export function elsewhere(url: string): string {
  return Object.assign(new URL(url), { hostname: '0.0.0.0' }).href
}

/** The rows of a statement, over a separate connection. */
export async function query<Found>(url: string, text: string): Promise<Found[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** The database of a test file. */
export interface TestDatabase {
  readonly url: string
  readonly masterKey: Buffer
  /** A store in it, closed after the test. */
  open(options?: StoreOptions): Promise<Store>
  /** Empties its tables, which is far quicker than a new database. */
  empty(): Promise<void>
}

/** Gives a test file a database, which is empty again after each test. */
export function useDatabase(name: string, defaults: StoreOptions = {}): TestDatabase {
  const masterKey = randomBytes(32)
  const stores: Store[] = []
  let url = ''
  let client: Client
  const empty = async () => {
    const { rows } = await client.query<{ name: string }>(TABLES)
    const deletes = rows.map(({ name: table }) => `DELETE FROM ${table}`)
    if (rows.length > 0) await client.query([...deletes, EMPTY_META].join(';'))
  }
  beforeAll(async () => {
    url = await createDatabase(name)
    client = new Client({ connectionString: url })
    await client.connect()
  })
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()))
    await empty()
  })
  afterAll(() => client.end())
  return {
    get url() {
      return url
    },
    masterKey,
    empty,
    async open(options) {
      const store = await openPostgresStore({ url, masterKey, ...defaults, ...options })
      stores.push(store)
      return store
    },
  }
}

/** The key of the store and its version stay. */
const TABLES = `SELECT tablename AS name FROM pg_tables
  WHERE schemaname = 'public' AND tablename NOT IN ('meta', 'key_generations')`
const EMPTY_META = "DELETE FROM meta WHERE name NOT IN ('identity', 'schema_version')"

/** A network in front of a database, which works again after each test. */
export function useProxy(database: TestDatabase): () => DatabaseProxy {
  let proxy: DatabaseProxy
  beforeAll(async () => {
    proxy = await startProxy(database.url)
  })
  // Before the stores of the test are closed: hooks run from the last to the first.
  afterEach(() => {
    Object.assign(proxy, { cut: 'never', refuse: false, delayMs: 0 })
  })
  afterAll(() => proxy.close())
  return () => proxy
}
