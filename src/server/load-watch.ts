import type { Clock } from '#core/runtime'

const LOOK_EVERY_MS = 100
/** One late look is a garbage collection or a tool that computes; so many in a row are overload. */
const LOOKS = 3

/** How late the event loop is, again and again. */
export interface LoadWatch {
  /** The least of the last looks, so that only what lasts counts. */
  delayMs(): number
  stop(): void
}

export function startLoadWatch(clock: Clock): LoadWatch {
  const late = Array<number>(LOOKS).fill(0)
  let dueMs = clock.monotonicMs() + LOOK_EVERY_MS
  const timer = setInterval(() => {
    const nowMs = clock.monotonicMs()
    late.shift()
    late.push(Math.max(0, nowMs - dueMs))
    dueMs = nowMs + LOOK_EVERY_MS
  }, LOOK_EVERY_MS).unref()
  return { delayMs: () => Math.min(...late), stop: () => clearInterval(timer) }
}
