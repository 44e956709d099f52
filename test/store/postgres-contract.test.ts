import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest'
import type { Store } from '#core/ports/store'
import { openPostgresStore } from '#store/postgres/open'
import { STORE_CONTRACT } from '#testing/store-contract'
import { emptyDatabase, type PostgresServer, startPostgres } from './postgres-server.ts'

const masterKey = randomBytes(32)
const open: Store[] = []
let server: PostgresServer
let url: string

beforeAll(async () => {
  server = await startPostgres()
  url = await server.createDatabase('contract')
})
afterAll(() => server.stop())
afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  await emptyDatabase(url)
})

async function openStore(): Promise<Store> {
  const store = await openPostgresStore({ url, masterKey })
  open.push(store)
  return store
}

describe('a store in PostgreSQL', () => {
  for (const { name, run } of STORE_CONTRACT) it(name, () => run(openStore))
})
