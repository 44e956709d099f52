import { describe, expect, it } from 'vitest'
import type { Seen } from './load.ts'
import { judgeSoak, type Sample } from './watch.ts'

const MB = 1_048_576
const MINUTES = 30
const A_MINUTE = 8

/** Half an hour of a server: its state at each minute. */
function run(at: (minute: number) => { livingMb?: number; besideMb?: number; p99Ms?: number }) {
  const moments = Array.from({ length: MINUTES * A_MINUTE }, (_, index) => {
    const atMs = (index * 60_000) / A_MINUTE
    // Random, but the same in every run.
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
  it('passes a server that stays constant within noise after a warm-up of five minutes', () => {
    expect(run((minute) => ({ livingMb: 60 + 2 * Math.min(5, minute) })).problems).toEqual([])
  })

  it('detects a leak of 0.2 MB per minute', () => {
    const { problems, slopesMb } = run((minute) => ({ livingMb: 70 + 0.2 * minute }))
    expect(problems).toEqual([expect.stringMatching(/^what lives grew by [45]\.\d MB$/)])
    expect(slopesMb.livingMb).toBeCloseTo(0.2, 1)
  })

  it('detects growth outside the heap, and of the latency', () => {
    expect(run((minute) => ({ besideMb: 150 + minute, p99Ms: 10 * 2 ** (minute / 10) })).problems).toEqual([
      expect.stringContaining('memory beside the heap grew by'),
      expect.stringContaining('p99 went from'),
    ])
  })

  it('fails a run without measurements of live memory', () => {
    expect(run(() => ({ livingMb: Number.NaN })).problems).toEqual(['what lives grew by NaN MB'])
  })
})
