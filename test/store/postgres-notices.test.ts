import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { StoreWatcher } from '#kernel/store/engine'
import type { Store } from '#store/collet-store'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'
import { useDatabase } from './databases.ts'

const LIMIT = { timeout: 20_000, interval: 5 }

const database = useDatabase('notices')
/** Collects every notification in the database. */
let listener: Client
const payloads: string[] = []

beforeAll(async () => {
  listener = new Client({ connectionString: database.url })
  await listener.connect()
  listener.on('notification', ({ payload = '' }) => payloads.push(payload))
  await listener.query('LISTEN collet')
})
afterAll(() => listener.end())
afterEach(() => {
  payloads.length = 0
})

/** A store, its notifications and its watcher; both are connected. */
async function openWatching(): Promise<{
  store: Store
  changes: (readonly string[] | undefined)[]
  watcher: StoreWatcher
}> {
  const store = await database.open()
  const changes: (readonly string[] | undefined)[] = []
  const watcher = store.watch((names) => changes.push(names))
  await vi.waitUntil(() => changes.length > 0, LIMIT)
  return { store, changes, watcher }
}

/** Resolves after the two polls that a store makes once it waits for a record. */
async function untilLooked(
  changes: readonly (readonly string[] | undefined)[],
  record: string,
): Promise<void> {
  await vi.waitUntil(() => changes.filter((names) => names?.includes(record)).length === 2, LIMIT)
}

const announcements = () => payloads.filter((text) => text.includes('changed'))

function finish(store: Store, record: string) {
  const run = attemptAt(sampleCall({ record }), 1)
  return store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 2_000 })
}

describe('replicas of one database', () => {
  it('notify each other of a call only while a replica waits for it', async () => {
    const [here, there] = [await openWatching(), await openWatching()]
    for (const record of ['waited', 'other']) await there.store.claim(sampleCall({ record }))
    here.watcher.want('waited')
    await untilLooked(here.changes, 'waited')
    here.changes.length = 0
    await finish(there.store, 'other')
    await finish(there.store, 'waited')
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
    expect(here.changes).toEqual([['waited']])
    expect(announcements()).toHaveLength(1)
    expect(there.changes.slice(1)).toEqual([])
  })

  it('poll soon after they began to wait, in case their request arrived too late', async () => {
    const here = await openWatching()
    here.changes.length = 0
    here.watcher.want('waited')
    await untilLooked(here.changes, 'waited')
    expect(here.changes).toEqual([['waited'], ['waited']])
  })

  it('send notifications of rare changes without a request: of a cancellation, for example', async () => {
    const [here, there] = [await openWatching(), await openWatching()]
    await here.store.claim(sampleCall())
    here.changes.length = 0
    await there.store.requestCancel(sampleCall(), 'key:alice', 2_000)
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
    expect(here.changes).toEqual([undefined])
    expect(await here.store.cancelRequests()).toHaveLength(1)
  })

  it('repeat what they wait for when another replica joins later', async () => {
    const here = await openWatching()
    here.watcher.want('waited')
    const late = await openWatching()
    await vi.waitUntil(() => payloads.filter((text) => text.includes('"want":["waited"]')).length >= 2, LIMIT)
    await untilLooked(here.changes, 'waited')
    here.changes.length = 0
    await late.store.claim(sampleCall({ record: 'waited' }))
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
    expect(here.changes).toEqual([['waited']])
  })

  it('reconnect after their connection was ended, and then poll everything', async () => {
    const [here, there] = [await openWatching(), await openWatching()]
    for (const { changes } of [here, there]) changes.length = 0
    await listener.query(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'collet notices'`,
    )
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
    expect(here.changes).toEqual([undefined])
    await vi.waitUntil(() => there.changes.includes(undefined), LIMIT)
    await here.store.claim(sampleCall())
    here.changes.length = 0
    await there.store.requestCancel(sampleCall(), 'key:alice', 2_000)
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
  })

  it('ignore foreign messages on the same channel', async () => {
    const here = await openWatching()
    here.changes.length = 0
    for (const text of [
      '',
      'x',
      '{}',
      '{"by":1}',
      '{"by":"a","changed":[1]}',
      '{"by":"a","want":{"length":1}}',
      'null',
    ]) {
      await listener.query("SELECT pg_notify('collet', $1)", [text])
    }
    await listener.query("SELECT pg_notify('collet', $1)", ['{"by":"a","changed":["end"]}'])
    await vi.waitUntil(() => here.changes.length > 0, LIMIT)
    expect(here.changes).toEqual([['end']])
  })
})
