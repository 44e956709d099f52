import { EXIT, type ExitCode } from '#cli/command'
import type { StopRequester, WorkerProcess, WorkerReady } from '#cli/io'

/**
 * Keeps the workers of `serve --workers` alive: starts them, restarts those that die, and stops all of them in order.
 * `commands/serve.ts` uses it. Invariant: the first worker starts alone, so that an invalid config, a busy port or a
 * missing table is reported once.
 */

/** Pauses before a dead worker is restarted: short at first, then doubling. */
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 10_000
/** A worker that lived this long did not fail at its start. */
const STEADY_MS = 30_000
/** Workers that do not stop on request are killed after this time. */
const STOP_TIMEOUT_MS = 30_000

interface KeepWorkersOptions {
  readonly count: number
  start(index: number): WorkerProcess
  /** Called when the first worker is ready. */
  onReady(ready: WorkerReady): void | Promise<void>
  onStop(listener: (by: StopRequester) => void): () => void
  onReload(listener: () => void): () => void
  /** How long workers keep taking calls when a supervisor stops them. */
  readonly drainMs: number
  note(line: string): void
  monotonicMs(): number
}

/** Keeps this many workers alive until a request to stop, then lets all of them finish. */
export async function keepWorkers(options: KeepWorkersOptions): Promise<ExitCode> {
  const { count, start, onReady, note } = options
  const living = new Map<number, WorkerProcess>()
  const stop = Promise.withResolvers<void>()
  let isStopping = false
  const endStop = options.onStop((by) => {
    if (isStopping) for (const worker of living.values()) worker.kill()
    isStopping = true
    stop.resolve()
    for (const worker of living.values()) worker.stop(by)
  })
  const endReload = options.onReload(() => {
    for (const worker of living.values()) worker.reload()
  })
  const begin = (index: number): WorkerProcess => {
    const worker = start(index)
    living.set(index, worker)
    return worker
  }
  /** Keeps one worker slot filled. */
  const keep = async (index: number, first: WorkerProcess): Promise<void> => {
    let worker = first
    let pauseMs = FIRST_PAUSE_MS
    for (;;) {
      const startedMs = options.monotonicMs()
      const code = await worker.ended
      living.delete(index)
      if (isStopping) return
      if (options.monotonicMs() - startedMs >= STEADY_MS) pauseMs = FIRST_PAUSE_MS
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
    const slots = [keep(1, first), ...others.map((index) => keep(index, begin(index)))]
    await stop.promise
    const force = setTimeout(() => {
      for (const worker of living.values()) worker.kill()
    }, STOP_TIMEOUT_MS + options.drainMs)
    await Promise.all(slots)
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
