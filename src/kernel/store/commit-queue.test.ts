import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import { CommitQueue } from './commit-queue.ts'
import { answered, CommitGroup, drive, type PendingChange } from './engine.ts'
import { KeyRing } from './key-ring.ts'

const KEYS = KeyRing.fresh({ current: new Uint8Array(32) })

/** Applies changes like a database, or fails as the test specifies. */
class Committer {
  readonly committed: string[][] = []
  plan: ('busy' | Error | undefined)[] = []
  isBusy = false

  commit(changes: readonly PendingChange[]): 'committed' | 'busy' {
    const next = this.plan.shift()
    if (this.isBusy || next === 'busy') return 'busy'
    if (next instanceof Error) throw next
    const group = new CommitGroup({
      ...{ id: this.committed.length, writer: 1, keys: KEYS },
      notify: () => answered(undefined),
    })
    for (const change of changes) change.keep(drive(change.begin(group), () => undefined))
    this.committed.push(changes.map(({ key }) => key))
    return 'committed'
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate)
}

describe('changes that wait for their commit', () => {
  it('rule 19: are committed together, in the order of their keys', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    const all = Promise.all(['b', 'a', 'c'].map((key) => queue.submit(key, () => answered(key))))
    await pass(10)
    expect(await all).toEqual(['b', 'a', 'c'])
    expect(committer.committed.flat()).toEqual(['a', 'b', 'c'])
  })

  it('wait while another process writes, ahead of later changes', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    committer.plan = ['busy', 'busy']
    const first = queue.submit('z', () => answered(1))
    await pass(0)
    const second = queue.submit('a', () => answered(2))
    await pass(50)
    expect([await first, await second]).toEqual([1, 2])
    expect([committer.committed.flat().sort(), queue.size]).toEqual([['a', 'z'], 0])
  })

  it('are refused if the database stays locked; later changes start their own wait', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    committer.isBusy = true
    const given = queue.submit('a', () => answered(1)).catch((error: unknown) => error)
    await pass(9_000)
    expect(queue.size).toBe(1)
    await pass(2_000)
    expect(await given).toMatchObject({ code: 'not_written', message: expect.stringContaining('locked') })
    const next = queue.submit('b', () => answered(2))
    await pass(9_000)
    committer.isBusy = false
    await pass(50)
    expect(await next).toBe(2)
  })

  it('rule 19: only the bad change of a failed group fails', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    committer.plan = [new Error('bad row'), undefined, new Error('bad row'), undefined]
    const ends = ['a', 'b', 'c'].map((key) =>
      queue.submit(key, () => answered(key)).catch((error: unknown) => error),
    )
    await pass(10)
    const bad = { name: 'StoreError', code: 'unreadable', message: expect.stringContaining('bad row') }
    expect(await Promise.all(ends)).toEqual(['a', expect.objectContaining(bad), 'c'])
  })

  it('rule 11: all fail, once each, if the store cannot write', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    committer.plan = [new StoreError('full', 'the disk is full')]
    const ends = ['a', 'b'].map((key) => queue.submit(key, () => answered(key)).catch(() => 'failed'))
    await pass(10)
    expect(await Promise.all(ends)).toEqual(['failed', 'failed'])
    expect(committer.committed).toEqual([])
  })

  it('are refused after the queue is closed; waiting changes are still written', async () => {
    const committer = new Committer()
    const queue = new CommitQueue(committer)
    const waiting = queue.submit('a', () => answered(1))
    queue.close()
    await expect(queue.submit('b', () => answered(2))).rejects.toThrow('closed')
    await pass(10)
    expect(await waiting).toBe(1)
  })
})
