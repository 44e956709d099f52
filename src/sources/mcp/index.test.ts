import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { throttle } from './index.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('throttle', () => {
  it('runs at once, then at most once per gap, and loses no request', () => {
    const run = vi.fn()
    const throttled = throttle(run, 1000)
    for (let index = 0; index < 100; index += 1) throttled()
    expect(run).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(1000)
    expect(run).toHaveBeenCalledTimes(2)
    vi.advanceTimersByTime(10_000)
    expect(run).toHaveBeenCalledTimes(2)
    throttled()
    expect(run).toHaveBeenCalledTimes(3)
  })
})
