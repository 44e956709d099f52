import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import type { JournalHead } from '#kernel/journal/events'
import type { Store } from '#store/collet-store'
import { attemptAt, sampleCall, success } from '../../../test/contracts/samples.ts'
import { STORE_CONTRACT } from '../../../test/contracts/store-contract.ts'
import { openSqliteStore } from './sqlite-store.ts'

const masterKey = randomBytes(32)
let folder: string
let path: string
const open: Store[] = []

function openStore(changes: { readonly masterKey?: Uint8Array; readonly nowMs?: () => number } = {}): Store {
  const store = openSqliteStore({ path, masterKey, ...changes })
  open.push(store)
  return store
}

async function close(store: Store): Promise<void> {
  open.splice(open.indexOf(store), 1)
  await store.close()
}

/** Changes the file without the store, as a tamperer would. */
function tamper(sql: string): void {
  const database = new DatabaseSync(path)
  database.exec(sql)
  database.close()
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-store-'))
  path = join(folder, 'collet.db')
})

afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  rmSync(folder, { recursive: true })
})

describe('the SQLite store', () => {
  for (const { name, run } of STORE_CONTRACT) it(name, () => run(async () => openStore()))

  it('returns acknowledged data after a restart', async () => {
    const first = openStore()
    const call = sampleCall({ userId: 'u' })
    await first.claim(call)
    await first.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('[1]'), atMs: 2_000 })
    const before = first.find(call)
    await close(first)
    expect(openStore().find(call)).toEqual(before)
  })

  it('OWP-22: also writes and syncs for an empty list of denials, so that timing reveals nothing', async () => {
    const store = openStore()
    await store.claim(sampleCall())
    const before = readFileSync(`${path}-wal`)
    await store.audit.recordDenials([])
    expect(readFileSync(`${path}-wal`).equals(before)).toBe(false)
    expect(store.audit.readDenials({ after: 0, limit: 10 })).toEqual([])
  })

  it("rule 14: writes no input, output or caller's text in plain text", async () => {
    const store = openStore()
    const call = sampleCall({
      callId: 'CLEAR-CALL',
      traceId: 'CLEAR-TRACE',
      userId: 'CLEAR-USER',
      inputJson: '"CLEAR-INPUT"',
    })
    await store.claim(call)
    await store.finish({
      run: attemptAt(call, 1),
      state: 'succeeded',
      outcome: success('"CLEAR-OUTPUT"'),
      atMs: 2_000,
    })
    const files = ['', '-wal'].map((suffix) => readFileSync(`${path}${suffix}`, 'latin1')).join('')
    expect(files).toContain('Doorbell.Ring@0.1.0')
    expect(files).not.toContain('CLEAR-')
  })

  it('rule 14: refuses to start with another key', async () => {
    await close(openStore())
    expect(() => openStore({ masterKey: randomBytes(32) })).toThrow(
      /the key does not fit this database.*COLLET_KEY/,
    )
  })

  it('rule 14: sealed bytes that were changed are an error, never "not found"', async () => {
    const store = openStore()
    const call = sampleCall()
    await store.insertFinished(call, { state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    await close(store)
    tamper('UPDATE commit_groups SET payload = zeroblob(64) WHERE payload IS NOT NULL')
    expect(() => openStore().find(call)).toThrow(/cannot be decrypted/)
  })

  it.each(['outcome_length - 1', 'outcome_length - 2', 'outcome_length + 1'])(
    'rule 14: a truncated sealed value cannot be read: %s',
    async (length) => {
      const store = openStore()
      const call = sampleCall()
      const next = sampleCall({ record: 'record-2' })
      const finished = { state: 'succeeded', outcome: success('1200'), atMs: 2_000 } as const
      await Promise.all([store.insertFinished(call, finished), store.insertFinished(next, finished)])
      await close(store)
      tamper(`UPDATE calls SET outcome_length = ${length} WHERE record = '${call.record}'`)
      const opened = openStore()
      expect(() => opened.find(call)).toThrow(StoreError)
      expect(await opened.find(next)).toMatchObject({ outcome: { valueJson: '1200' } })
    },
  )

  it('reports a file that is not a database', () => {
    writeFileSync(path, 'this is not a database, but it is long enough to be looked at as if it were one')
    expect(() => openStore()).toThrow(/not a SQLite database, or it is damaged/)
  })

  it('rule 19: a change that fails does not affect the other changes of its group', async () => {
    const store = openStore()
    const bad = { ...sampleCall({ record: 'record-2' }), rerunUntilMs: Number.NaN }
    const results = await Promise.allSettled([
      store.claim(sampleCall()),
      store.claim(bad),
      store.claim(sampleCall({ record: 'record-3' })),
    ])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((await store.verify()).ok).toBe(true)
  })

  it('with two writers on one file, each sees the other, and both chains verify', async () => {
    const left = openStore()
    const right = openStore()
    const claims = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        (index % 2 === 0 ? left : right).claim(sampleCall({ record: `record-${index >> 1}` })),
      ),
    )
    expect(claims.filter(({ kind }) => kind === 'claimed')).toHaveLength(20)
    expect(left.isWriterAlive(right.writer)).toBe(true)
    expect(await left.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    expect(left.verify()).toMatchObject({ ok: true, chains: 2, firstBad: undefined })
  })
})

describe('verifying the SQLite journal', () => {
  async function writeCalls(store: Store, count: number, atMs = 1_000): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      await store.claim(sampleCall({ record: `record-${atMs}-${index}`, atMs }))
    }
  }

  it('rule 15: an unchanged journal verifies', async () => {
    const store = openStore()
    await writeCalls(store, 5)
    expect(store.verify()).toMatchObject({ ok: true, chains: 1, groups: 6, events: 6 })
  })

  it.each([
    [
      'a changed event',
      "UPDATE commit_groups SET events = replace(events, 'key:alice', 'key:mallory') WHERE n = 3",
      3,
    ],
    ['a changed time', 'UPDATE commit_groups SET at = at + 1 WHERE n = 2', 2],
    ['changed caller text', 'UPDATE commit_groups SET callers = zeroblob(40) WHERE n = 4', 4],
    ['a changed link', "UPDATE commit_groups SET link = 'x' WHERE n = 1", 1],
    ['a removed group', 'DELETE FROM commit_groups WHERE n = 2', 2],
    ['a removed first group', 'DELETE FROM commit_groups WHERE n = 0', 0],
  ])('rule 15: names the first bad group after %s', async (_what, sql, group) => {
    const store = openStore()
    await writeCalls(store, 5)
    await close(store)
    tamper(sql)
    const verification = await openStore().verify()
    expect(verification.ok).toBe(false)
    expect(verification.firstBad).toMatchObject({ writer: store.writer, group })
  })

  it('rule 15: a truncated chain is detected by the heads that the next writer recorded', async () => {
    const first = openStore()
    await writeCalls(first, 3)
    await close(first)
    const second = openStore()
    await writeCalls(second, 1, 2_000)
    await close(second)
    tamper('DELETE FROM commit_groups WHERE writer = 1 AND n >= 3')
    expect((await openStore().verify()).firstBad).toMatchObject({
      writer: first.writer,
      reason: expect.stringContaining('missing at the end'),
    })
  })

  it('rule 15: preventing the recording of a head is detected', async () => {
    const first = openStore()
    await writeCalls(first, 3)
    await close(first)
    tamper('UPDATE writers SET recorded_n = (SELECT max(n) FROM commit_groups), recorded_by = 2')
    const second = openStore()
    await writeCalls(second, 1, 2_000)
    tamper('UPDATE writers SET recorded_n = 2, recorded_by = 2 WHERE no = 1')
    expect(await second.verify()).toMatchObject({ ok: false, firstBad: { writer: first.writer, group: 2 } })
  })

  it("rule 16: groups of several writers are read in the order of their times, from each writer's position", async () => {
    let nowMs = 1_000
    const [left, right] = [openStore({ nowMs: () => nowMs }), openStore({ nowMs: () => nowMs })]
    const reported = async (after: readonly JournalHead[]) =>
      (await left.readJournal(after, 100)).map(
        ({ writer, group }) => `${writer === left.writer ? 'left' : 'right'} ${group}`,
      )
    await left.probe()
    const early = await left.readJournal([], 100)
    for (const store of [right, left, right]) {
      nowMs += 10
      await store.claim(sampleCall({ record: `at ${nowMs}` }))
    }
    expect(await reported([])).toEqual(['left 0', 'right 0', 'right 1', 'left 1', 'right 2'])
    expect(await reported(early)).toEqual(['right 0', 'right 1', 'left 1', 'right 2'])
  })

  it('rule 15: a writer records each head once, so the journal grows linearly with the number of writers', async () => {
    for (let index = 0; index < 6; index += 1) {
      const store = openStore()
      await store.probe()
      await close(store)
    }
    const started = (await openStore().readJournal([], 100))
      .flatMap(({ events }) => events)
      .filter((event) => event.type === 'writer.started')
    expect(started.map(({ heads }) => heads.length)).toEqual([0, 1, 1, 1, 1, 1])
  })

  it('rule 15: a truncated chain is detected even if many writers have started since, and even if the clock went back', async () => {
    let nowMs = 9_000
    const first = openStore({ nowMs: () => nowMs })
    await writeCalls(first, 1)
    nowMs = 1_000
    const second = openStore()
    await writeCalls(second, 1, 2_000)
    await writeCalls(first, 2, 3_000)
    await close(first)
    for (let index = 0; index < 3; index += 1) {
      const later = openStore()
      await later.probe()
      await close(later)
    }
    expect((await openStore().verify()).ok).toBe(true)
    tamper(
      'DELETE FROM commit_groups WHERE writer = 1 AND n = (SELECT max(n) FROM commit_groups WHERE writer = 1)',
    )
    expect((await openStore().verify()).firstBad).toMatchObject({
      writer: first.writer,
      reason: expect.stringContaining('missing at the end'),
    })
  })

  it('rule 15: reads and refusals leave no trace in the journal', async () => {
    const first = openStore()
    const call = sampleCall()
    await first.claim(call)
    const before = first.readJournal([], 100)
    const second = openStore()
    second.checkWritable()
    const settlement = {
      as: 'not-run',
      valueJson: undefined,
      error: undefined,
      who: 'w',
      why: 'x',
      atMs: 1,
    } as const
    expect(await second.settle({ ...settlement, record: 'nobody' })).toBe('not_found')
    expect(await second.settle({ ...settlement, record: call.record })).toBe('not_ambiguous')
    await close(second)
    expect(first.readJournal([], 100)).toEqual(before)
  })

  it('reports a database that cannot be written', async () => {
    const store = openStore()
    await store.probe()
    const blocker = new DatabaseSync(path)
    blocker.exec('BEGIN IMMEDIATE')
    expect(() => store.checkWritable(0)).toThrow(/locked/)
    blocker.exec('ROLLBACK')
    blocker.close()
    expect(() => store.checkWritable()).not.toThrow()
  })

  it('rule 15: a truncated chain is detected by a head that was kept elsewhere', async () => {
    const store = openStore()
    await writeCalls(store, 3)
    await close(store)
    const [head] = (await openStore().verify()).heads
    tamper('DELETE FROM commit_groups WHERE n >= 3')
    expect((await openStore().verify()).ok).toBe(true)
    expect((await openStore().verify(head)).ok).toBe(false)
  })

  it('rule 15: retention leaves a signed checkpoint that verifies and cannot be forged', async () => {
    let nowMs = 1_000
    const store = openStore({ nowMs: () => nowMs })
    const call = sampleCall({ tier: 'read' })
    for (let index = 0; index < 4; index += 1) {
      await store.insertFinished(
        { ...call, record: `record-${index}` },
        { state: 'succeeded', outcome: success('1'), atMs: 1_000 },
      )
    }
    nowMs = 200 * 86_400_000
    const policy = { resultsMs: 86_400_000, journalMs: 90 * 86_400_000 }
    for (let step = 0; step < 5; step += 1) await store.purge(nowMs, policy)
    expect(store.verify()).toMatchObject({ ok: true, groups: 1 })
    await close(store)
    tamper('UPDATE checkpoints SET n = n - 1')
    expect(openStore().verify()).toMatchObject({
      ok: false,
      firstBad: { reason: expect.stringContaining('checkpoint') },
    })
  })

  it('rule 15: a head is recorded again if retention removes its record', async () => {
    const dayMs = 86_400_000
    let nowMs = 1_000
    const begin = () => openStore({ nowMs: () => nowMs })
    const first = begin()
    await writeCalls(first, 1)
    await close(first)
    const second = begin()
    await second.probe()
    await close(second)
    nowMs = 200 * dayMs
    const third = begin()
    for (let step = 0; step < 3; step += 1)
      await third.purge(nowMs, { resultsMs: dayMs, journalMs: 90 * dayMs })
    await close(third)
    const fourth = begin()
    await fourth.probe()
    await close(fourth)
    expect((await openStore().verify()).ok).toBe(true)
    tamper('DELETE FROM commit_groups WHERE writer = 1 AND n = 2')
    expect((await openStore().verify()).firstBad).toMatchObject({ writer: first.writer })
  })

  it('rule 13: the payload of a group is removed when its last call has expired', async () => {
    const store = openStore()
    const calls = ['a', 'b'].map((record) => sampleCall({ record, tier: 'read' }))
    await Promise.all(
      calls.map((call, index) =>
        store.insertFinished(call, { state: 'succeeded', outcome: success('1'), atMs: 1_000 + index }),
      ),
    )
    const policy = { resultsMs: 100, journalMs: 1e12 }
    await store.purge(1_101, policy)
    expect(store.find({ tenant: 'default', record: 'a' })).toBeUndefined()
    expect((await store.find({ tenant: 'default', record: 'b' }))?.outcome).toEqual(success('1'))
    await store.purge(1_102, policy)
    await close(store)
    const database = new DatabaseSync(path)
    expect(
      database.prepare('SELECT count(*) AS n FROM commit_groups WHERE payload IS NOT NULL').get(),
    ).toEqual({ n: 0 })
    database.close()
  })

  it('reports writes by other processes, but not its own', async () => {
    const [own, other] = [openStore(), openStore()]
    await Promise.all([own.probe(), other.probe()])
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      let notified = 0
      const watcher = own.watch(() => {
        notified += 1
      })
      await own.claim(sampleCall({ record: 'own' }))
      vi.advanceTimersByTime(5_000)
      expect(notified).toBe(0)
      await other.claim(sampleCall())
      vi.advanceTimersByTime(5_000)
      expect(notified).toBe(1)
      watcher.end()
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })
})
