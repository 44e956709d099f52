import { describe, expect, it } from 'vitest'
import { Patience } from './commit-queue.ts'

/** Commits one group: changes arrive at these times, and the loop looks every 0.01 ms. */
function commitGroup(patience: Patience, arrivalsMs: readonly number[], fromMs = 0) {
  for (let step = 0; ; step += 1) {
    const nowMs = fromMs + step * 0.01
    const waiting = arrivalsMs.filter((atMs) => atMs <= nowMs - fromMs).length
    if (waiting === 0 || patience.shouldWait(waiting, nowMs)) continue
    patience.leave(waiting)
    return { size: waiting, waitedMs: nowMs - fromMs }
  }
}

function commitMany(patience: Patience, groups: number, arrivalsMs: readonly number[]) {
  return Array.from({ length: groups }, (_, group) => commitGroup(patience, arrivalsMs, group * 100))
}

describe('the patience of a group', () => {
  it('lets a lone caller wait for nobody, but for one look in 64', () => {
    const groups = commitMany(new Patience(), 640, [0])
    expect(groups.filter(({ waitedMs }) => waitedMs > 0.01).length).toBeLessThanOrEqual(10)
    expect(Math.max(...groups.map(({ waitedMs }) => waitedMs))).toBeLessThan(0.2)
  })

  it('grows to as many changes as come together, which then commit as one', () => {
    const together = [0, 0, 0, 0, 0, 0.05, 0.05, 0.1, 0.1, 0.1]
    const groups = commitMany(new Patience(), 200, together)
    expect(groups.slice(65).filter(({ size }) => size === 10).length).toBeGreaterThan(130)
  })

  it('stops waiting for callers that do not come back', () => {
    const patience = new Patience()
    commitMany(patience, 100, [0, 0.05, 0.1])
    const after = commitMany(patience, 100, [0])
    expect(after.filter(({ waitedMs }) => waitedMs > 0.01).length).toBeLessThanOrEqual(3)
  })

  it('never holds a change back for longer than two milliseconds', () => {
    const trickle = Array.from({ length: 200 }, (_, index) => index * 0.1)
    const groups = commitMany(new Patience(), 130, trickle)
    expect(Math.max(...groups.map(({ waitedMs }) => waitedMs))).toBeLessThan(2.1)
  })
})
