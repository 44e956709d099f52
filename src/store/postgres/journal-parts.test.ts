import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import { attemptAt, sampleCall, success } from '../../../test/contracts/samples.ts'
import { createDatabase } from '../../../test/store/databases.ts'
import { openPostgresStore } from './open.ts'

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 10, 16, 12)
/** With this retention a partition is two days wide. */
const POLICY = { resultsMs: DAY_MS, journalMs: 24 * DAY_MS }
const masterKey = randomBytes(32)

let database = 0
let client: Client
let nowMs = START
const open: Store[] = []

afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  await client.end()
  nowMs = START
})

async function newDatabase(): Promise<string> {
  database += 1
  const url = await createDatabase(`parts${database}`)
  client = new Client({ connectionString: url })
  await client.connect()
  return url
}

async function openStore(url: string): Promise<Store> {
  const store = await openPostgresStore({ url, masterKey, nowMs: () => nowMs })
  open.push(store)
  return store
}

async function rowsOf<Found>(text: string): Promise<readonly Found[]> {
  return (await client.query(text)).rows
}

/** The groups in each partition, by their positions in their chains. */
async function groupsByPart(): Promise<Record<string, readonly number[]>> {
  const rows = await rowsOf<{ part: string; n: string }>(
    'SELECT CAST(CAST(tableoid AS regclass) AS text) AS part, n FROM commit_groups ORDER BY writer, n',
  )
  const found = Map.groupBy(rows, ({ part }) => part)
  return Object.fromEntries([...found].map(([part, groups]) => [part, groups.map(({ n }) => Number(n))]))
}

async function finishedCall(store: Store, record: string): Promise<void> {
  const call = sampleCall({ record, atMs: nowMs })
  await store.claim(call)
  await store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: nowMs })
}

async function purgeAll(store: Store): Promise<void> {
  while (await store.purge(nowMs, POLICY));
}

describe('the journal on PostgreSQL', () => {
  it('is partitioned by days, and drops whole partitions except the groups that calls need', async () => {
    const url = await newDatabase()
    const store = await openStore(url)
    await finishedCall(store, 'first')
    await purgeAll(store)
    expect(await groupsByPart()).toEqual({ commit_groups_rest: [0, 1, 2] })

    nowMs += DAY_MS
    await finishedCall(store, 'second')
    await store.claim(sampleCall({ record: 'runs on', atMs: nowMs }))
    nowMs += 2 * DAY_MS
    await purgeAll(store)
    nowMs += DAY_MS
    await finishedCall(store, 'third')
    const { heads } = await store.verify()
    const parts = await groupsByPart()
    expect(parts.commit_groups_20261117).toEqual([3, 4, 5])
    expect(parts.commit_groups_20261120).toHaveLength(2)

    nowMs = START + 28 * DAY_MS
    await purgeAll(store)
    const left = await groupsByPart()
    expect(left.commit_groups_20261117).toBeUndefined()
    expect(left.commit_groups_20261120).toEqual(parts.commit_groups_20261120)
    expect(left.commit_groups_rest?.[0]).toBe(5)
    expect(await store.verify(heads[0])).toMatchObject({ ok: true, chains: 1 })
    const call = sampleCall({ record: 'runs on' })
    expect(await store.find(call)).toMatchObject({ state: 'running' })
    expect(
      await store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('2'), atMs: nowMs }),
    ).toEqual({ kind: 'recorded' })
    const journal = await store.readJournal([], 1_000)
    expect(journal.flatMap(({ events }) => events)).toContainEqual(
      expect.objectContaining({ type: 'retention.purged', groups: 2 + 3 }),
    )

    // The group is deleted once its result expires, and the signed checkpoint never moves back.
    const [before] = await rowsOf<{ n: string }>('SELECT n FROM checkpoints')
    nowMs += 2 * DAY_MS
    await purgeAll(store)
    expect((await groupsByPart()).commit_groups_rest).not.toContain(5)
    const [after] = await rowsOf<{ n: string }>('SELECT n FROM checkpoints')
    expect(Number(after?.n)).toBeGreaterThanOrEqual(Number(before?.n))
    expect(await store.verify()).toMatchObject({ ok: true })
  })

  it('keeps a partition while another transaction reads an older snapshot', async () => {
    const url = await newDatabase()
    const store = await openStore(url)
    await finishedCall(store, 'first')
    await purgeAll(store)
    nowMs += DAY_MS
    await finishedCall(store, 'second')
    nowMs = START + 40 * DAY_MS
    await client.query(
      'BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE ONLY commit_groups IN ACCESS SHARE MODE',
    )
    await purgeAll(store)
    expect(Object.keys(await groupsByPart())).toContain('commit_groups_20261117')
    await client.query('COMMIT')
    await purgeAll(store)
    expect(Object.keys(await groupsByPart())).not.toContain('commit_groups_20261117')
    expect(await store.verify()).toMatchObject({ ok: true })
  })

  it('numbers every group of every process uniquely, even after groups that were copied from another database', async () => {
    const url = await newDatabase()
    const [one, two] = [await openStore(url), await openStore(url)]
    await Promise.all(
      ['a', 'b', 'c'].flatMap((name) => [one, two].map((store, at) => finishedCall(store, `${name}${at}`))),
    )
    const before = await rowsOf<{ id: string }>('SELECT max(id) AS id FROM commit_groups')
    await client.query('DELETE FROM journal_volumes')
    const three = await openStore(url)
    await finishedCall(three, 'd')
    const own = await rowsOf<{ id: string }>(
      'SELECT min(id) AS id FROM commit_groups WHERE writer = (SELECT max(no) FROM writers)',
    )
    expect(Number(own[0]?.id)).toBeGreaterThan(Number(before[0]?.id))
    expect(await three.verify()).toMatchObject({ ok: true, chains: 3 })
  })
})
