import { describe, expect, it } from 'vitest'
import { BatchWindow } from './commit-queue.ts'

/** Commits one group: changes arrive at these times, and the loop checks every 0.01 ms. */
function commitGroup(window: BatchWindow, arrivalsMs: readonly number[], fromMs = 0) {
  for (let step = 0; ; step += 1) {
    const nowMs = fromMs + step * 0.01
    const waiting = arrivalsMs.filter((atMs) => atMs <= nowMs - fromMs).length
    if (waiting === 0 || window.shouldWait(waiting, nowMs)) continue
    window.leave(waiting)
    return { size: waiting, waitedMs: nowMs - fromMs }
  }
}

function commitMany(window: BatchWindow, groups: number, arrivalsMs: readonly number[]) {
  return Array.from({ length: groups }, (_, group) => commitGroup(window, arrivalsMs, group * 100))
}

describe('the batch window of a group', () => {
  it('never delays a single caller that comes back after a while', () => {
    const groups = commitMany(new BatchWindow(), 640, [0])
    expect(groups.filter(({ waitedMs }) => waitedMs > 0.01)).toEqual([])
  })

  it('delays one group in 64 if its change comes right after a commit', () => {
    const window = new BatchWindow()
    const groups = Array.from({ length: 640 }, (_, group) => {
      window.noteCommitted(group * 100 - 0.1)
      return commitGroup(window, [0], group * 100)
    })
    const delayed = groups.filter(({ waitedMs }) => waitedMs > 0.01)
    expect(delayed).toHaveLength(9)
    expect(Math.max(...delayed.map(({ waitedMs }) => waitedMs))).toBeLessThan(0.2)
  })

  it('grows to the number of changes that arrive together, which are then committed as one group', () => {
    const together = [0, 0, 0, 0, 0, 0.05, 0.05, 0.1, 0.1, 0.1]
    const groups = commitMany(new BatchWindow(), 200, together)
    expect(groups.slice(65).filter(({ size }) => size === 10).length).toBeGreaterThan(130)
  })

  it('stops waiting for callers that do not return', () => {
    const window = new BatchWindow()
    commitMany(window, 100, [0, 0.05, 0.1])
    const after = commitMany(window, 100, [0])
    expect(after.filter(({ waitedMs }) => waitedMs > 0.01).length).toBeLessThanOrEqual(3)
  })

  it('never delays a change by more than two milliseconds', () => {
    const trickle = Array.from({ length: 200 }, (_, index) => index * 0.1)
    const groups = commitMany(new BatchWindow(), 130, trickle)
    expect(Math.max(...groups.map(({ waitedMs }) => waitedMs))).toBeLessThan(2.1)
  })
})
