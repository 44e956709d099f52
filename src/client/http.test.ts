import { describe, expect, it } from 'vitest'
import { joinSignals, sleep, untilAborted } from './http.ts'

describe('untilAborted', () => {
  it('stops waiting for work that never ends', async () => {
    const caller = new AbortController()
    const waiting = untilAborted(caller.signal, () => new Promise(() => undefined))
    caller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })

  it('aborts the signal of the work once the wait is over', async () => {
    let ended: AbortSignal | undefined
    await untilAborted(undefined, async (signal) => {
      ended = signal
    })
    expect(ended?.aborted).toBe(true)
  })

  it('does not start work for an aborted caller', async () => {
    let started = false
    const work = untilAborted(AbortSignal.abort(), async () => {
      started = true
    })
    await expect(work).rejects.toThrow()
    expect(started).toBe(false)
  })
})

describe('sleep', () => {
  it('ends early when aborted', async () => {
    const caller = new AbortController()
    const sleeping = sleep(2 ** 31 - 1, caller.signal)
    caller.abort(new Error('wake up'))
    await expect(sleeping).rejects.toThrow('wake up')
  })

  it('resolves after its time', async () => {
    await expect(sleep(1)).resolves.toBeUndefined()
  })
})

describe('joinSignals', () => {
  it('is aborted when the first signal is', () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const joined = joinSignals(first.signal, undefined, second.signal)
    second.abort()
    expect(joined?.aborted).toBe(true)
    expect(joinSignals(undefined, undefined)).toBeUndefined()
  })
})
