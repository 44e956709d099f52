/**
 * Keeps the counts of calls current while a process serves calls: writes what it has counted every two seconds, and counts once a
 * minute what no process has counted. `openServices` starts it.
 * Invariant: no call waits for it, and a failure is repaired by the next round.
 */
import type { Logger } from '#kernel/base/logger'
import type { Store } from '#store/collet-store'

const FLUSH_EVERY_MS = 2_000
const CATCH_UP_EVERY_MS = 60_000

export function countCalls(
  { rollups }: Pick<Store, 'rollups'>,
  { log }: { readonly log: Logger },
): { close(): Promise<void> } {
  const round = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work()
    } catch (err) {
      log.warn({ err }, `${what}; they are counted later from the journal`)
    }
  }
  const flush = () => round('counts of calls could not be written', rollups.flush)
  const stopped = new AbortController()
  const catchUp = () =>
    round('calls of stopped processes could not be counted', () => rollups.catchUp(stopped.signal))
  rollups.collect()
  const timers = [setInterval(flush, FLUSH_EVERY_MS), setInterval(catchUp, CATCH_UP_EVERY_MS)]
  for (const timer of timers) timer.unref()
  // Counts what a crash left before the first overview is read.
  const started = catchUp()
  return {
    async close() {
      for (const timer of timers) clearInterval(timer)
      stopped.abort()
      await started
      await flush()
    },
  }
}
