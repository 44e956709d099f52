import { setImmediate } from 'node:timers/promises'

/**
 * Long work on the serving thread, in pieces short enough that calls are served between them. Reading schemas, building
 * catalogs, judging large descriptions and copying stores use it.
 * Work resumes one piece per turn of the event loop, however many works are under way.
 */

/** Calls wait about this long at most for a piece of long work. */
const MAX_PIECE_MS = 5

/** Each yielder resumes in its own turn of the event loop, so that many long works together stall it no longer than one. */
let turns: Promise<void> = Promise.resolve()

/** Asked between the steps of long work; `yieldNow` lets other work proceed. */
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

/** Runs a generator to its end and returns to the event loop at its yields when a piece has taken long enough. */
export async function inPieces<Result>(work: Generator<undefined, Result>): Promise<Result> {
  const yielder = new EventLoopYielder()
  let step = work.next()
  while (step.done !== true) {
    if (yielder.isDue) await yielder.yieldNow()
    step = work.next()
  }
  return step.value
}
