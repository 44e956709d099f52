import { setImmediate } from 'node:timers/promises'

/** Others wait at most about this long for a piece of long work; five such pieces in a row are still no stall. */
const LONGEST_PIECE_MS = 10

/** Who breathes resumes in a turn of the event loop of its own, so that many long works together are no longer than one. */
let turns: Promise<void> = Promise.resolve()

/** For long work on the serving thread: asked between its steps, it lets others go on when it is time. */
export class Breather {
  #sinceMs = performance.now()

  get isDue(): boolean {
    return performance.now() - this.#sinceMs >= LONGEST_PIECE_MS
  }

  async breathe(): Promise<void> {
    turns = turns.then(() => setImmediate())
    await turns
    this.#sinceMs = performance.now()
  }
}

/** Runs long work to its end in one go; it yields where it could pause. */
export function atOnce<Result>(work: Generator<undefined, Result>): Result {
  let step = work.next()
  while (step.done !== true) step = work.next()
  return step.value
}

/** The same with pauses in which others go on. */
export async function inPieces<Result>(work: Generator<undefined, Result>): Promise<Result> {
  const breather = new Breather()
  let step = work.next()
  while (step.done !== true) {
    if (breather.isDue) await breather.breathe()
    step = work.next()
  }
  return step.value
}
