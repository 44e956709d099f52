import { EXIT, type ExitCode } from '#cli/command'
import type { StopRequester, WorkerProcess, WorkerReady } from '#cli/io'

/** How soon a worker that died is started again: at once the first time, then later and later. */
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 10_000
/** One that lived this long did not die of its start. */
const STEADY_MS = 30_000
/** Workers that do not end on request are ended by force after this time. */
const PATIENCE_MS = 30_000

interface KeepingWorkers {
  readonly count: number
  start(index: number): WorkerProcess
  /** The first is ready: where the server is. */
  onReady(ready: WorkerReady): void | Promise<void>
  onStop(listener: (by: StopRequester) => void): () => void
  onReload(listener: () => void): () => void
  /** How much longer workers take calls when a supervisor stops them. */
  readonly drainMs: number
  note(line: string): void
  monotonicMs(): number
}

/**
 * Keeps so many workers alive until it is asked to stop, then lets all of them finish. The first starts alone: what is wrong with
 * the configuration, the port or the store is said once, and the tables are made by one.
 */
export async function keepWorkers(keeping: KeepingWorkers): Promise<ExitCode> {
  const { count, start, onReady, note } = keeping
  const living = new Map<number, WorkerProcess>()
  const stop = Promise.withResolvers<void>()
  let isStopping = false
  const endStop = keeping.onStop((by) => {
    if (isStopping) for (const worker of living.values()) worker.kill()
    isStopping = true
    stop.resolve()
    for (const worker of living.values()) worker.stop(by)
  })
  const endReload = keeping.onReload(() => {
    for (const worker of living.values()) worker.reload()
  })
  const begin = (index: number): WorkerProcess => {
    const worker = start(index)
    living.set(index, worker)
    return worker
  }
  /** One place among the workers, whoever takes it. */
  const keep = async (index: number, first: WorkerProcess): Promise<void> => {
    let worker = first
    let pauseMs = FIRST_PAUSE_MS
    for (;;) {
      const startedMs = keeping.monotonicMs()
      const code = await worker.ended
      living.delete(index)
      if (isStopping) return
      if (keeping.monotonicMs() - startedMs >= STEADY_MS) pauseMs = FIRST_PAUSE_MS
      note(`Worker ${index} ended with exit code ${code}; it is started again in ${pauseMs / 1_000} s.`)
      await Promise.race([stop.promise, pause(pauseMs)])
      pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs)
      if (isStopping) return
      worker = begin(index)
    }
  }
  try {
    const first = begin(1)
    const ready = await first.ready
    if (ready === undefined) {
      await first.ended
      return isStopping ? EXIT.ok : EXIT.server
    }
    await onReady(ready)
    const others = isStopping ? [] : Array.from({ length: count - 1 }, (_, other) => other + 2)
    const places = [keep(1, first), ...others.map((index) => keep(index, begin(index)))]
    await stop.promise
    const force = setTimeout(() => {
      for (const worker of living.values()) worker.kill()
    }, PATIENCE_MS + keeping.drainMs)
    await Promise.all(places)
    clearTimeout(force)
    return EXIT.ok
  } finally {
    endStop()
    endReload()
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
