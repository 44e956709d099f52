import type { Clock } from './ports/clock.ts'
import type { Logger } from './ports/logger.ts'
import type { RetentionPolicy, Store } from './ports/store.ts'

const ROUND_MS = 60_000
const PAUSE_BETWEEN_STEPS_MS = 20

/** Forgets what retention allows, a small step at a time, in the background (rule 13). */
export function startRetention(
  store: Store,
  policy: RetentionPolicy,
  world: { readonly clock: Clock; readonly log: Logger },
): { stop(): void } {
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  const next = (delayMs: number): void => {
    if (stopped) return
    timer = setTimeout(step, delayMs)
    timer.unref()
  }
  const step = async (): Promise<void> => {
    try {
      const more = await store.purge(world.clock.nowMs(), policy)
      next(more ? PAUSE_BETWEEN_STEPS_MS : ROUND_MS)
    } catch (error) {
      world.log.error({ err: error }, 'retention failed; it goes on later')
      next(ROUND_MS)
    }
  }
  next(ROUND_MS)
  return {
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
