import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { CallFeed } from '#server/admin/call-feed'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { attemptAt, failure, sampleCall } from '../contracts/samples.ts'

const signal = new AbortController().signal

describe('readers of the feed of calls', () => {
  it('keeps the earlier events of a call for a reader that is slow to take them', async () => {
    const store = openSqliteStore({ path: ':memory:', masterKey: Buffer.alloc(32, 7) })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const feed = new CallFeed({ store, clock: SYSTEM_CLOCK })
    const reader = await feed.open({})
    const call = sampleCall({ record: 'r' })
    await store.claim(call)
    await vi.advanceTimersByTimeAsync(300)
    await store.finish({ run: attemptAt(call, 1), state: 'failed', outcome: failure(false), atMs: 5 })
    await vi.advanceTimersByTimeAsync(300)
    const { changed } = await reader.take(5_000, signal)
    expect(changed).toMatchObject([
      { call: { state: 'failed' }, events: ['call.claimed', 'call.failed'], code: 'tool_failed' },
    ])
    feed.close()
    await store.close()
  })

  it('a cursor names a server that began while the feed was reading, so that none of its changes is skipped', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-feed-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const openStore = () =>
      openSqliteStore({ path: join(folder, 'store.db'), masterKey: Buffer.alloc(32, 7) })
    const [reading, first, second] = [openStore(), openStore(), openStore()]
    let looks = 0
    const feed = new CallFeed({
      clock: SYSTEM_CLOCK,
      store: {
        readJournal: (...asked) => reading.readJournal(...asked),
        summaries: (records) => reading.summaries(records),
        journalChains: async () => {
          looks += 1
          if (looks === 2) await second.claim(sampleCall({ record: 'second' }))
          return await reading.journalChains()
        },
      },
    })
    const reader = await feed.open({})
    await first.claim(sampleCall({ record: 'first' }))
    const page = await reader.take(5_000, signal)
    expect(page.changed).toMatchObject([{ call: { record: 'first' } }])
    reader.leave()
    feed.close()
    const other = new CallFeed({ store: reading, clock: SYSTEM_CLOCK })
    const next = await other.open({}, page.cursor)
    expect((await next.take(5_000, signal)).changed).toMatchObject([{ call: { record: 'second' } }])
    next.leave()
    other.close()
    for (const store of [reading, first, second]) await store.close()
  })
})
