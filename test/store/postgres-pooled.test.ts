import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { NewCall, RunAddress } from '#kernel/call/call-record'
import type { Store } from '#store/collet-store'
import {
  attemptAt,
  POLICY,
  purgeAll,
  runThrough,
  sampleCall,
  scopeAt,
  success,
} from '../contracts/samples.ts'
import { useDatabase, useProxy } from './databases.ts'
import { PGBOUNCER, startPgBouncer } from './pgbouncer.ts'
import { type Pooler, startPooler } from './postgres-pooler.ts'

const database = useDatabase('pooled')
const network = useProxy(database)
/** Runs many calls from claim to outcome, reads them back, and verifies the chain. */
async function work(store: Store, name: string): Promise<void> {
  const calls = Array.from({ length: 40 }, (_, index) => sampleCall({ record: `${name}-${index}` }))
  const claims = await Promise.all(calls.map((call) => store.claim(call)))
  expect(new Set(claims.map(({ kind }) => kind))).toEqual(new Set(['claimed']))
  await Promise.all(
    calls.map((call) =>
      store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 }),
    ),
  )
  const found = await Promise.all(calls.map((call) => store.find(call)))
  expect(new Set(found.map((call) => call?.state))).toEqual(new Set(['succeeded']))
  expect(await store.verify()).toMatchObject({ ok: true })
}

/** A simulated PgBouncer everywhere, and PgBouncer itself where it is installed. */
const POOLERS = [
  ['a pooler', startPooler, true],
  ['PgBouncer', startPgBouncer, PGBOUNCER !== undefined],
] as const

for (const [name, start, isHere] of POOLERS)
  describe.runIf(isHere)(`behind ${name} in transaction mode`, () => {
    let pooler: Pooler
    beforeAll(async () => {
      pooler = await start(database.url, 4)
    })
    afterAll(() => pooler.close())

    it('a store reads through it, and changes, lease and notices go to the database itself', async () => {
      const [store, other] = [
        await database.open({ url: pooler.url, direct: database.url }),
        await database.open(),
      ]
      const received: unknown[] = []
      store.watch((names) => received.push(names))
      await vi.waitUntil(() => received.length > 0, 20_000)
      await Promise.all([work(store, 'pooled'), work(other, 'direct')])
      received.length = 0
      await store.claim(sampleCall())
      await other.requestCancel(sampleCall(), 'key:alice', 2_000)
      await vi.waitUntil(() => received.length > 0, 20_000)
    })

    it('a store without a direct address works too, and polls for changes of others', async () => {
      const [store, other] = [
        await database.open({ url: pooler.url }),
        await database.open({ url: pooler.url }),
      ]
      const received: unknown[] = []
      store.watch((names) => received.push(names))
      await Promise.all([work(store, 'one'), work(other, 'two')])
      received.length = 0
      await other.claim(sampleCall())
      await vi.waitUntil(() => received.length > 0, 20_000)
      expect(await store.isWriterAlive(other.writer)).toBe(true)
    })

    it('leaves no settings behind for the next user of the connection', async () => {
      await work(await database.open({ url: pooler.url }), 'settings')
      const client = new Client({ connectionString: pooler.url })
      await client.connect()
      for (let turn = 0; turn < 8; turn += 1) {
        expect((await client.query('SHOW plan_cache_mode')).rows).toEqual([{ plan_cache_mode: 'auto' }])
      }
      await client.end()
    })
  })

describe('a database with high latency', () => {
  it('costs a group of changes a few round trips, however many changes are in it', async () => {
    const proxy = network()
    const store = await database.open({ url: proxy.url })
    await store.probe()
    proxy.delayMs = 20
    const trips = async (count: number) => {
      const calls = Array.from({ length: count }, (_, index) => sampleCall({ record: `${count}-${index}` }))
      const startedMs = performance.now()
      const finished = { state: 'succeeded' as const, outcome: success('1'), atMs: 2_000 }
      await Promise.all(calls.map((call) => store.insertFinished(call, finished)))
      return (performance.now() - startedMs) / (2 * proxy.delayMs)
    }
    const [alone, together] = [await trips(1), await trips(200)]
    expect(alone).toBeLessThan(6)
    // Not sequentially, which would take four hundred.
    expect(together).toBeLessThan(20)
    proxy.delayMs = 1
    await work(store, 'far')
  })

  it('rule 13: costs a purge step one round trip for many rows, because all changes wait for it', async () => {
    const proxy = network()
    const store = await database.open({ url: proxy.url })
    // Reads leave nothing, not even their own run; writes leave a tombstone, and a run of many calls its events.
    const calls = Array.from({ length: 120 }, (_, index) =>
      index % 2 === 0
        ? sampleCall({
            record: `old-${index}`,
            tier: 'read',
            session: { sessionId: `s-${index}`, isOwn: true },
          })
        : sampleCall({ record: `old-${index}`, scope: scopeAt(`run-${index}`) }),
    )
    // One after another, so that each is in a commit group of its own.
    for (const call of calls) await runThrough(store, call)
    const tripsOf = async (purgeAtMs: number) => {
      const before = proxy.sent
      await store.purge(purgeAtMs, POLICY)
      return proxy.sent - before
    }
    expect(await tripsOf(1_001 + POLICY.resultsMs)).toBeLessThan(50)
    const left = await Promise.all(calls.map(async (call) => (await store.find(call))?.expired))
    expect(left).toEqual(calls.map(({ tier }) => (tier === 'write' ? true : undefined)))
    const runs = await Promise.all(calls.map((call) => store.findRun(addressOfRun(call))))
    expect(runs.map((run) => run !== undefined)).toEqual(calls.map(({ tier }) => tier === 'write'))
    expect(await tripsOf(1_001 + POLICY.journalMs)).toBeLessThan(50)
    await purgeAll(store, 1_001 + POLICY.journalMs)
    expect(await Promise.all(calls.map((call) => store.findRun(addressOfRun(call))))).toEqual(
      calls.map(() => undefined),
    )
  })
})

function addressOfRun({ tenant, record, scope }: NewCall): RunAddress {
  return { tenant, run: scope?.run ?? record }
}
