import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'
import { query, useDatabase, useProxy } from './databases.ts'

const database = useDatabase('outage')
const proxy = useProxy(database)

/** Ends all connections, as an administrator or a failover does. */
const END_CONNECTIONS = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name LIKE 'collet%'`

describe('a store whose connections are ended', () => {
  it('opens others, and continues its chain', async () => {
    const store = await database.open()
    await store.claim(sampleCall({ record: 'before' }))
    await query(database.url, END_CONNECTIONS)
    const finished = { state: 'succeeded' as const, outcome: success('1'), atMs: 2_000 }
    const before = sampleCall({ record: 'before' })
    expect(await store.finish({ run: attemptAt(before, 1), ...finished })).toEqual({ kind: 'recorded' })
    await query(database.url, END_CONNECTIONS)
    await store.claim(sampleCall({ record: 'after' }))
    expect((await store.find(before))?.state).toBe('succeeded')
    expect(await store.verify()).toMatchObject({ ok: true, chains: 1 })
  })

  it('rule 17: stays visible to others as alive', async () => {
    const [store, other] = [await database.open(), await database.open()]
    await store.claim(sampleCall())
    await other.recover(5_000)
    expect((await other.find(sampleCall()))?.state).toBe('running')
    await store.close()
    await other.recover(5_000)
    expect((await other.find(sampleCall()))?.state).toBe('ambiguous')
  })
})

describe('a lock that another process holds', () => {
  it('rule 18: delays a change even beyond its timeout; the change is made after the release', async () => {
    const store = await database.open()
    await store.probe()
    // A store without a writer yet: it waits where it would create one.
    const fresh = await database.open()
    const holder = new Client({ connectionString: database.url })
    await holder.connect()
    try {
      // Like a replica that was paused during a change that reads before it writes.
      await holder.query('SELECT pg_advisory_lock(20417)')
      const rotated = [store, fresh].map(({ vault }) => vault.rotate('cli:ann', 1))
      await until(holder, BOTH_WAIT)
      const { rows } = await holder.query<{ since: string }>(BOTH_WAIT)
      // They timed out and retry, which takes a moment.
      await until(holder, `${BOTH_WAIT} AND min(query_start) > CAST('${rows[0]?.since}' AS TIMESTAMPTZ)`)
      await holder.query('SELECT pg_advisory_unlock(20417)')
      const nothing = { tenants: 0, entries: 0 }
      expect(await Promise.all(rotated)).toEqual([nothing, nothing])
    } finally {
      await holder.end()
    }
  })
})

const BOTH_WAIT = `SELECT CAST(max(query_start) AS TEXT) AS since FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory' HAVING count(*) = 2`

async function until(client: Client, question: string): Promise<void> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    if ((await client.query(question)).rows.length > 0) return
    await wait(10)
  }
  expect.fail(question)
}

describe('a connection that is lost', () => {
  it.each(['before', 'after'] as const)('%s the commit arrives: every call is claimed once', async (cut) => {
    const store = await database.open({ url: proxy().url })
    await store.probe()
    proxy().cut = cut
    const claims = await Promise.all(['a', 'b', 'c'].map((record) => store.claim(sampleCall({ record }))))
    expect(proxy().cut).toBe('never')
    expect(claims).toEqual(Array.from(claims, () => ({ kind: 'claimed', attempt: 1 })))
    const groups = await store.readJournal([], 100)
    const claimed = groups.flatMap(({ events }) => events).filter(({ type }) => type === 'call.claimed')
    expect(claimed).toHaveLength(3)
    expect(await store.verify()).toMatchObject({ ok: true, chains: 1 })
  })

  it.each([
    ['before', 1],
    ['after', 2],
  ] as const)('%s the commit of a writer arrives: another one begins', async (cut, chains) => {
    const store = await database.open({ url: proxy().url })
    proxy().cut = cut
    expect(await store.claim(sampleCall())).toEqual({ kind: 'claimed', attempt: 1 })
    expect(proxy().cut).toBe('never')
    expect(await store.verify()).toMatchObject({ ok: true, chains })
  })

  it('during a commit that is not in the chain leaves its outcome unknown', async () => {
    const store = await database.open({ url: proxy().url })
    await store.probe()
    proxy().cut = 'after'
    await expect(store.probe()).rejects.toMatchObject({ code: 'unknown' })
    await store.probe()
  })

  it('and a database that cannot be reached are failures of the store', async () => {
    const store = await database.open({ url: proxy().url })
    await store.probe()
    proxy().refuse = true
    proxy().cut = 'before'
    await expect(store.claim(sampleCall())).rejects.toThrow(StoreError)
    await expect(store.probe()).rejects.toThrow('cannot write to the database')
    proxy().refuse = false
    expect(await store.claim(sampleCall())).toMatchObject({ kind: 'claimed' })
  })
})
