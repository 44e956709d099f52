import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import { attemptAt, failure, sampleCall, success } from '../../../test/contracts/samples.ts'
import { openSqliteStore } from './sqlite-store.ts'

const masterKey = randomBytes(32)
let folder: string
let path: string
let open: Store[]

function openStore(at = path): Store {
  const store = openSqliteStore({ path: at, masterKey })
  open.push(store)
  return store
}

/** Ends a store like a process that still had running calls. */
async function leaveBehind(store: Store): Promise<void> {
  open.splice(open.indexOf(store), 1)
  await store.close()
}

function tamper(sql: string): void {
  const database = new DatabaseSync(path)
  database.exec(sql)
  database.close()
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-left-'))
  path = join(folder, 'collet.db')
  open = []
})

afterEach(async () => {
  for (const store of open) await store.close()
  rmSync(folder, { recursive: true })
})

describe('a dead writer', () => {
  it('rule 8: its running call becomes ambiguous, even if it ended gracefully', async () => {
    const first = openStore()
    await first.claim(sampleCall())
    await leaveBehind(first)
    const next = openStore()
    expect(await next.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 1 })
    expect((await next.find(sampleCall()))?.state).toBe('ambiguous')
    expect(await next.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    expect(readdirSync(`${path}-writers`)).toHaveLength(1)
  })

  it('rule 8: many calls that may run again do not hide one that may not', async () => {
    const first = openStore()
    const idempotent = { replay: 'idempotent', rerunUntilMs: 1e12 } as const
    await Promise.all(
      Array.from({ length: 600 }, (_, index) =>
        first.claim(sampleCall({ record: `again-${index}`, ...idempotent })),
      ),
    )
    await first.claim(sampleCall({ record: 'once' }))
    await leaveBehind(first)
    const next = openStore()
    expect((await next.recover(5_000)).ambiguous).toBe(1)
    expect((await next.find({ tenant: 'default', record: 'once' }))?.state).toBe('ambiguous')
    expect((await next.find({ tenant: 'default', record: 'again-1' }))?.state).toBe('running')
    expect((await next.recover(2e12)).ambiguous).toBe(600)
  })

  it.each([
    ['write', 'non-deterministic', 0, 'ambiguous'],
    ['exec', 'non-deterministic', 0, 'ambiguous'],
    ['write', 'idempotent', 1e12, 'running'],
    ['write', 'idempotent', 4_000, 'ambiguous'],
    ['exec', 'idempotent', 4_000, 'ambiguous'],
    ['read', 'non-deterministic', Number.MAX_SAFE_INTEGER, 'released'],
    ['pure', 'deterministic', Number.MAX_SAFE_INTEGER, 'released'],
  ] as const)(
    'rule 8: a cut %s call that is %s (until %d) is %s',
    async (tier, replay, rerunUntilMs, state) => {
      const first = openStore()
      await first.claim(sampleCall({ tier, replay, rerunUntilMs }))
      await leaveBehind(first)
      const next = openStore()
      expect((await next.recover(5_000)).ambiguous).toBe(state === 'ambiguous' ? 1 : 0)
      expect((await next.find(sampleCall()))?.state).toBe(state)
    },
  )

  it('rule 8: a cut read ends without an operator', async () => {
    const first = openStore()
    const call = sampleCall({ tier: 'read', rerunUntilMs: Number.MAX_SAFE_INTEGER })
    await first.insertFinished(call, { state: 'released', outcome: failure(true), atMs: 2_000 })
    const released = await first.find(call)
    if (released === undefined) throw new Error('no call')
    await first.reclaim(released, { session: undefined, atMs: 3_000 })
    await leaveBehind(first)
    const next = openStore()
    expect(await next.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 0 })
    expect(next.find(call)).toMatchObject({ state: 'released', attempt: 2, outcome: { ok: false } })
    expect((await next.verify()).ok).toBe(true)
  })

  it('rule 17: the same database under another name shows the same living writers', async () => {
    const first = openStore()
    await first.claim(sampleCall())
    symlinkSync(path, join(folder, 'link.db'))
    const other = openStore(join(folder, 'link.db'))
    expect(other.isWriterAlive(first.writer)).toBe(true)
    expect(await other.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
  })

  it('rule 17: a removed lock file does not make its writer dead, and the writer restores it', async () => {
    const first = openStore()
    await first.claim(sampleCall())
    const other = openStore()
    await other.probe()
    const lock = join(`${path}-writers`, `${first.writer}.lock`)
    unlinkSync(lock)
    expect(other.isWriterAlive(first.writer)).toBe(true)
    await first.recover(5_000)
    expect(existsSync(lock)).toBe(true)
    expect(other.isWriterAlive(first.writer)).toBe(true)
    expect((await other.find(sampleCall()))?.state).toBe('running')
  })
})

describe('stored contents', () => {
  it('rule 10: a second late result does not replace the first', async () => {
    const store = openStore()
    const call = sampleCall()
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'failed', outcome: failure(false), atMs: 2_000 })
    await store.recordLate(attemptAt(call, 1), success('"first"'), 3_000)
    await store.recordLate(attemptAt(call, 1), success('"second"'), 4_000)
    expect((await store.find(call))?.late).toEqual(success('"first"'))
  })

  it('rule 14: an outcome that was moved to another call cannot be opened', async () => {
    const store = openStore()
    for (const record of ['a', 'b']) {
      await store.insertFinished(sampleCall({ record }), {
        state: 'succeeded',
        outcome: success(`"${record}"`),
        atMs: 2_000,
      })
    }
    await leaveBehind(store)
    tamper(
      `UPDATE calls SET outcome_group = (SELECT outcome_group FROM calls WHERE record = 'b') WHERE record = 'a'`,
    )
    expect(() => openStore().find({ tenant: 'default', record: 'a' })).toThrow(
      /belongs to another call|cannot be/,
    )
    expect((await openStore().list({ limit: 5 })).calls.map(({ record }) => record)).toEqual(['b', 'a'])
  })

  it('rule 15: swapped groups, and a chain that was emptied completely, are detected', async () => {
    const store = openStore()
    await store.claim(sampleCall())
    await store.claim(sampleCall({ record: 'record-2' }))
    await leaveBehind(store)
    tamper(
      `UPDATE commit_groups SET id = 0 - id WHERE n IN (1, 2); UPDATE commit_groups SET id = ${2 * 2 ** 32 + 3} + id WHERE id < 0`,
    )
    expect((await openStore().verify()).ok).toBe(false)
    tamper('DELETE FROM commit_groups')
    expect(openStore().verify()).toMatchObject({
      ok: false,
      firstBad: { reason: 'the whole chain is missing' },
    })
  })

  it('cannot be changed after the store is closed, and closing twice closes once', async () => {
    const store = openStore()
    await store.probe()
    const closing = [store.close(), store.close()]
    await expect(store.claim(sampleCall())).rejects.toThrow(/closed/)
    await Promise.all(closing)
  })
})
