import { setImmediate } from 'node:timers/promises'

/**
 * Long work on the serving thread, in pieces short enough that calls are served between them. Reading schemas, building
 * catalogs, checking large descriptions and copying stores use it.
 * Each turn of the event loop runs at most one piece, even if several tasks are in progress.
 */

/** Maximum duration of one piece of long work, and so about how long calls wait for it. */
const MAX_PIECE_MS = 5

/** Each yielder resumes in its own turn of the event loop, so that many long tasks block it no longer than one does. */
let turns: Promise<void> = Promise.resolve()

/** Checked between the steps of long work: if `isDue`, `yieldNow` lets other work proceed. */
export class EventLoopYielder {
  #sinceMs = performance.now()

  get isDue(): boolean {
    return performance.now() - this.#sinceMs >= MAX_PIECE_MS
  }

  async yieldNow(): Promise<void> {
    turns = turns.then(() => setImmediate())
    await turns
    this.#sinceMs = performance.now()
  }
}

/** Runs a generator to its end without pausing at its yields. */
export function atOnce<Result>(work: Generator<undefined, Result>): Result {
  let step = work.next()
  while (step.done !== true) step = work.next()
  return step.value
}

/** Runs a generator to its end; at a yield it returns to the event loop if the current piece has taken long enough. */
export async function inPieces<Result>(work: Generator<undefined, Result>): Promise<Result> {
  const yielder = new EventLoopYielder()
  let step = work.next()
  while (step.done !== true) {
    if (yielder.isDue) await yielder.yieldNow()
    step = work.next()
  }
  return step.value
}
