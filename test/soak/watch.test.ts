import { describe, expect, it } from 'vitest'
import type { Seen } from './load.ts'
import { judgeSoak, type Sample } from './watch.ts'

const MB = 1_048_576
const MINUTES = 30
const A_MINUTE = 8

/** Half an hour of a server, with what it has at each minute. */
function run(at: (minute: number) => { livingMb?: number; besideMb?: number; p99Ms?: number }) {
  const moments = Array.from({ length: MINUTES * A_MINUTE }, (_, index) => {
    const atMs = (index * 60_000) / A_MINUTE
    // Chance, but the same one each time.
    const { livingMb = 70, besideMb = 150, p99Ms = 10 } = at(atMs / 60_000)
    const sample: Sample = {
      atMs,
      rssMb: 100 + besideMb + 5 * Math.sin(index),
      takenMb: 100,
      living:
        index % A_MINUTE === A_MINUTE / 2
          ? { heap: (livingMb - 20 + 0.5 * Math.sin(7 * index)) * MB, buffers: 20 * MB }
          : undefined,
      files: 100,
      handles: 60,
    }
    const seen: Seen = { act: 'an act', ms: p99Ms, atMs }
    return { sample, seen }
  })
  return judgeSoak(
    moments.map(({ sample }) => sample),
    moments.map(({ seen }) => seen),
    0,
  )
}

describe('the judge of a soak', () => {
  it('is content with a server that stays as it is, by some chance, and warms up for five minutes', () => {
    expect(run((minute) => ({ livingMb: 60 + 2 * Math.min(5, minute) })).problems).toEqual([])
  })

  it('sees a leak of 0.2 MB a minute', () => {
    const { problems, slopesMb } = run((minute) => ({ livingMb: 70 + 0.2 * minute }))
    expect(problems).toEqual([expect.stringMatching(/^what lives grew by [45]\.\d MB$/)])
    expect(slopesMb.livingMb).toBeCloseTo(0.2, 1)
  })

  it('sees memory beside the heap, and latency', () => {
    expect(run((minute) => ({ besideMb: 150 + minute, p99Ms: 10 * 2 ** (minute / 10) })).problems).toEqual([
      expect.stringContaining('memory beside the heap grew by'),
      expect.stringContaining('p99 went from'),
    ])
  })

  it('is not content where nothing was seen of what lives', () => {
    expect(run(() => ({ livingMb: Number.NaN })).problems).toEqual(['what lives grew by NaN MB'])
  })
})
