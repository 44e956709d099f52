import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FrameQueue } from './frame-queue.ts'

describe('FrameQueue', () => {
  it('returns frames in order, even to a waiting reader', async () => {
    const frames = new FrameQueue(1)
    const first = frames.next()
    frames.add('1', true)
    frames.add('2', true)
    frames.end()
    frames.add('late', true)
    expect([await first, await frames.next(), await frames.next()]).toEqual(['1', '2', undefined])
  })

  it('wakes a waiting reader when it ends', async () => {
    const frames = new FrameQueue(1)
    const waiting = frames.next()
    frames.end()
    expect(await waiting).toBeUndefined()
  })

  it('buffers a bounded amount for a slow reader, and never drops the newest frame', async () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(lengths, async (given) => {
        const added = given.map((length, index) => String(index).padEnd(length, 'x'))
        const frames = new FrameQueue(1)
        for (const text of added) frames.add(text, true)
        frames.end()
        const kept: string[] = []
        for (let text = await frames.next(); text !== undefined; text = await frames.next()) kept.push(text)
        expect(kept.length).toBeGreaterThan(0)
        expect(kept).toEqual(added.slice(-kept.length))
        expect(kept.length === 1 || kept.join('').length <= 65_536).toBe(true)
      }),
      { numRuns: 50 },
    )
  })
})
