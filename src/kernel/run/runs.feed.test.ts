import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { NotifyChange } from '#kernel/store/engine'
import type { Store } from '#store/collet-store'
import type { RunEvent } from './events.ts'
import { RunFeed, type RunPage, StoreChanges } from './runs.ts'

const RUN = 'run-1'
const LOOK_MS = 5_000

let feed: RunFeed
/** Listeners for changes by another process, and the names they requested. */
const watching = new Set<NotifyChange>()
let wanted: string[] = []
const store: Pick<Store, 'watch'> = {
  watch(tell) {
    watching.add(tell)
    return { want: (name) => wanted.push(name), end: () => watching.delete(tell) }
  },
}
function notifyOf(names?: readonly string[]): void {
  for (const tell of watching) tell(names)
}
beforeEach(() => {
  vi.useFakeTimers()
  wanted = []
  feed = new RunFeed(new StoreChanges(store))
})
afterEach(() => {
  feed.close()
  vi.useRealTimers()
})

/** A run in a store: its events, whether it has ended, and how often it was read. */
class FakeRun {
  readonly events: RunEvent[] = []
  hasEnded = false
  reads = 0

  readonly read = async (after: number): Promise<RunPage | undefined> => {
    this.reads += 1
    const events = this.events.filter(({ sequence }) => sequence > after)
    return { key: RUN, principal: 'prn_1', events, isComplete: this.hasEnded }
  }

  add(): void {
    const sequence = this.events.length
    this.events.push({ type: 'session.opened', sessionId: 's', toolId: 't', sequence, atMs: 0 })
  }
}

/** Lets every reader proceed as far as it can without advancing the clock. */
async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0)
}

function sequencesOf(page: RunPage | undefined): readonly number[] | undefined {
  return page?.events.map(({ sequence }) => sequence)
}

describe('a feed', () => {
  it('returns existing events immediately, and keeps no reader', async () => {
    const run = new FakeRun()
    run.add()
    run.add()
    expect(sequencesOf(await feed.read(RUN, { after: 0, waitMs: 0 }, run.read))).toEqual([1])
    expect(sequencesOf(await feed.read(RUN, { after: 1, waitMs: 0 }, run.read))).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('OWP-98: answers a waiting reader at once if the run has events, has ended or is unknown', async () => {
    const run = new FakeRun()
    run.hasEnded = true
    const patient = { after: -1, waitMs: 60_000 }
    expect(await feed.read(RUN, patient, run.read)).toMatchObject({ events: [], isComplete: true })
    expect(await feed.read('unknown', patient, async () => undefined)).toBeUndefined()
    run.hasEnded = false
    run.add()
    expect(sequencesOf(await feed.read('other', patient, run.read))).toEqual([0])
  })

  it('OWP-98: wakes all waiting readers on a commit, with a single read', async () => {
    const run = new FakeRun()
    const readers = Array.from({ length: 50 }, () => feed.read(RUN, { after: -1, waitMs: 60_000 }, run.read))
    await settle()
    expect(run.reads).toBe(1)
    run.add()
    feed.notify('another run')
    await settle()
    expect(run.reads).toBe(1)
    feed.notify(RUN)
    const pages = await Promise.all(readers)
    expect(run.reads).toBe(2)
    expect(new Set(pages).size).toBe(1)
    expect(sequencesOf(pages[0])).toEqual([0])
  })

  it('shares pages only between readers at the same sequence number', async () => {
    const run = new FakeRun()
    run.add()
    run.add()
    const read = (after: number) => feed.read(RUN, { after, waitMs: 60_000 }, run.read)
    const pages = await Promise.all([read(-1), read(0), read(0), read(-1)])
    expect(pages.map(sequencesOf)).toEqual([[0, 1], [1], [1], [0, 1]])
    expect(run.reads).toBe(2)
  })

  it('sees changes by other processes, with one watcher for all runs', async () => {
    const runs = Array.from({ length: 20 }, () => new FakeRun())
    const readers = runs.map((run, at) => feed.read(`run-${at}`, { after: -1, waitMs: 60_000 }, run.read))
    await settle()
    expect(vi.getTimerCount()).toBe(1 + readers.length)
    const before = runs.map(({ reads }) => reads)
    await vi.advanceTimersByTimeAsync(LOOK_MS - 1)
    expect(runs.map(({ reads }) => reads)).toEqual(before)
    for (const run of runs) run.add()
    notifyOf()
    expect((await Promise.all(readers)).map(sequencesOf)).toEqual(runs.map(() => [0]))
    expect(runs.map(({ reads }) => reads)).toEqual(before.map((reads) => reads + 1))
    await vi.advanceTimersByTimeAsync(LOOK_MS)
    expect(vi.getTimerCount()).toBe(0)
    expect(watching.size).toBe(0)
  })

  it('requests notifications for the runs it waits for, and reads only the notified runs again', async () => {
    const [own, other] = [new FakeRun(), new FakeRun()]
    const reader = feed.read('own', { after: -1, waitMs: 60_000 }, own.read)
    feed.read('other', { after: -1, waitMs: 60_000 }, other.read).catch(() => undefined)
    await settle()
    expect(wanted).toEqual(['own', 'other'])
    own.add()
    notifyOf(['own', 'no reader waits for this'])
    expect(sequencesOf(await reader)).toEqual([0])
    expect(other.reads).toBe(1)
  })

  it('reads again after five seconds without a change, because runs also end by time alone', async () => {
    const run = new FakeRun()
    const reader = feed.read(RUN, { after: -1, waitMs: 60_000 }, run.read)
    await settle()
    run.hasEnded = true
    await vi.advanceTimersByTimeAsync(LOOK_MS)
    expect(await reader).toMatchObject({ isComplete: true })
  })

  it('OWP-98: returns an empty page when a reader’s wait is over, and not before', async () => {
    const run = new FakeRun()
    let answered = false
    const reader = feed.read(RUN, { after: -1, waitMs: 1_200 }, run.read).then((page) => {
      answered = true
      return page
    })
    await vi.advanceTimersByTimeAsync(1_199)
    expect(answered).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(await reader).toMatchObject({ events: [], isComplete: false })
  })

  it('releases only the reader that disconnects', async () => {
    const run = new FakeRun()
    const leaving = new AbortController()
    const query = { after: -1, waitMs: 60_000 }
    const reader = feed.read(RUN, { ...query, signal: leaving.signal }, run.read)
    const other = feed.read(RUN, query, run.read)
    await settle()
    leaving.abort()
    expect(sequencesOf(await reader)).toEqual([])
    expect(sequencesOf(await feed.read(RUN, { ...query, signal: leaving.signal }, run.read))).toEqual([])
    run.add()
    feed.notify(RUN)
    expect(sequencesOf(await other)).toEqual([0])
  })

  it('reads again if something is committed while a page is being read', async () => {
    const run = new FakeRun()
    const first = Promise.withResolvers<RunPage>()
    const pages = [first.promise]
    const reader = feed.read(RUN, { after: -1, waitMs: 60_000 }, (after) => pages.shift() ?? run.read(after))
    await settle()
    run.add()
    feed.notify(RUN)
    first.resolve({ key: RUN, principal: 'prn_1', events: [], isComplete: false })
    await settle()
    expect(run.reads).toBe(1)
    expect(sequencesOf(await reader)).toEqual([0])
  })

  it('still notices a commit after a page took longer to read than the polling interval', async () => {
    const run = new FakeRun()
    const slow = Promise.withResolvers<RunPage>()
    const pages = [slow.promise]
    const reader = feed.read(RUN, { after: -1, waitMs: 60_000 }, (after) => pages.shift() ?? run.read(after))
    await vi.advanceTimersByTimeAsync(3 * LOOK_MS)
    slow.resolve({ key: RUN, principal: 'prn_1', events: [], isComplete: false })
    await settle()
    run.add()
    feed.notify(RUN)
    await settle()
    expect(run.reads).toBeGreaterThan(0)
    expect(sequencesOf(await reader)).toEqual([0])
  })

  it('passes a failure to the readers that shared the page, and reads again for the next', async () => {
    const run = new FakeRun()
    const fail = async (): Promise<RunPage> => {
      throw new Error('the store is unavailable')
    }
    const query = { after: -1, waitMs: 60_000 }
    const failed = await Promise.allSettled([feed.read(RUN, query, fail), feed.read(RUN, query, fail)])
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    run.add()
    expect(sequencesOf(await feed.read(RUN, query, run.read))).toEqual([0])
  })

  it('holds nothing for a run without readers', async () => {
    const run = new FakeRun()
    const readers = Array.from({ length: 20 }, (_, index) =>
      feed.read(`run-${index}`, { after: -1, waitMs: 100 * (index + 1) }, run.read),
    )
    readers.push(
      feed.read('failing', { after: -1, waitMs: 60_000 }, async () => {
        throw new Error('the store is unavailable')
      }),
    )
    const settled = Promise.allSettled(readers)
    await vi.advanceTimersByTimeAsync(20 * 100)
    await settled
    await vi.advanceTimersByTimeAsync(2 * LOOK_MS)
    expect(vi.getTimerCount()).toBe(0)
    const { reads } = run
    feed.notify('run-1')
    await settle()
    expect(run.reads).toBe(reads)
  })
})

describe('a closed feed', () => {
  it('sends `not_ready` to all readers, reads nothing more and holds no timer', async () => {
    const run = new FakeRun()
    const readers = ['run-1', 'run-2'].map((name) => feed.read(name, { after: -1, waitMs: 60_000 }, run.read))
    const ends = Promise.allSettled(readers)
    await settle()
    feed.close()
    const { reads } = run
    expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(run.reads).toBe(reads)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('answers only new readers that do not wait', async () => {
    const run = new FakeRun()
    feed.close()
    expect(sequencesOf(await feed.read(RUN, { after: -1, waitMs: 0 }, run.read))).toEqual([])
    const waiting = feed.read(RUN, { after: -1, waitMs: 60_000 }, run.read)
    await expect(waiting).rejects.toMatchObject({ code: 'not_ready' })
    expect(vi.getTimerCount()).toBe(0)
    feed.close()
  })

  it('also releases a reader whose page was being read', async () => {
    const page = Promise.withResolvers<RunPage>()
    const reader = feed.read(RUN, { after: -1, waitMs: 60_000 }, () => page.promise)
    const end = expect(reader).rejects.toMatchObject({ code: 'not_ready' })
    await settle()
    feed.close()
    page.resolve({ key: RUN, principal: 'prn_1', events: [], isComplete: false })
    await end
    expect(vi.getTimerCount()).toBe(0)
  })
})
