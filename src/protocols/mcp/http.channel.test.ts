import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { FrameQueue } from '#protocols/frame-queue'
import { StreamUpgrade } from './http.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('slow answers', () => {
  it('MCP-15: begin a stream after ten seconds, unless they are answered before', () => {
    const quiet = new StreamUpgrade(10_000)
    const begun: string[] = []
    const reply = (name: string) => ({ stream: () => void begun.push(name) })
    const slow = quiet.add(reply('slow'))
    const quick = quiet.add(reply('quick'))
    vi.advanceTimersByTime(5_000)
    quick.remove()
    quiet.add(reply('later'))
    vi.advanceTimersByTime(6_000)
    expect(begun).toEqual(['slow'])
    slow.remove()
    vi.advanceTimersByTime(5_000)
    expect(begun).toEqual(['slow', 'later'])
  })

  it('MCP-15: a queue without frames returns late after the pause', async () => {
    const frames = new FrameQueue(0)
    const next = frames.next(15_000)
    await vi.advanceTimersByTimeAsync(15_000)
    expect(await next).toBe('late')
    frames.add('a', false)
    expect(await frames.next(15_000)).toBe('a')
    frames.end()
    expect(await frames.next(15_000)).toBeUndefined()
  })

  it('MCP-82: a slow reader misses old progress, but no question', async () => {
    const frames = new FrameQueue(0)
    frames.add('question', false)
    for (let n = 0; n < 10; n += 1) frames.add(`${n}`.repeat(10_000), true)
    frames.end()
    const taken: string[] = []
    for (let frame = await frames.next(1); frame !== undefined; frame = await frames.next(1))
      taken.push(frame)
    expect(taken[0]).toBe('question')
    expect(taken.at(-1)).toBe('9'.repeat(10_000))
    expect(taken.length).toBeLessThan(9)
  })
})
