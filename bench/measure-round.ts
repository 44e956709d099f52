import { CONTENDERS, type ContenderName } from './contenders.ts'
import type { LoadSlice } from './load.ts'
import { type LoadResult, summarizeLoad } from './load-result.ts'
import { type RunningContender, startContender } from './running-contender.ts'

export interface Timing {
  readonly warmUpMs: number
  /** Short, so that changes in the machine's speed affect all contenders. */
  readonly sliceMs: number
  readonly slices: number
}

interface Turn {
  readonly name: ContenderName
  readonly contender: RunningContender
  readonly slices: LoadSlice[]
}

/** The result of a contender in a round: its load, or the error that prevented it. */
export type RoundResult = LoadResult | Error

/**
 * Starts new processes and loads them in turns, in alternating order, while the others are idle. A contender that fails is left out of the
 * rest of the round, and the others continue.
 */
export async function measureRound(
  names: readonly ContenderName[],
  timing: Timing,
  onStep: (step: string) => void,
): Promise<ReadonlyMap<ContenderName, RoundResult>> {
  const turns: Turn[] = []
  const failed = new Map<ContenderName, Error>()
  try {
    for (const name of names) {
      onStep(`warm-up, ${name}`)
      await startContender(CONTENDERS[name])
        .then((contender) => {
          turns.push({ name, contender, slices: [] })
          return contender.load(timing.warmUpMs)
        })
        .catch((error: unknown) => failed.set(name, toError(error)))
    }
    for (let slice = 0; slice < timing.slices; slice += 1) {
      for (const { name, contender, slices } of slice % 2 === 0 ? turns : turns.toReversed()) {
        if (failed.has(name)) continue
        onStep(`slice ${slice + 1} of ${timing.slices}, ${name}`)
        await contender
          .load(timing.sliceMs)
          .then((load) => slices.push(load))
          .catch((error: unknown) => failed.set(name, toError(error)))
      }
    }
    return new Map([
      ...turns.map(({ name, slices }): [ContenderName, RoundResult] => [name, summarizeLoad(slices)]),
      ...failed,
    ])
  } finally {
    await Promise.all(turns.map(({ contender }) => contender.stop()))
  }
}

/** Adds the message of the cause, which explains why a server did not start. */
export function toError(thrown: unknown): Error {
  if (!(thrown instanceof Error)) return new Error(String(thrown))
  const { cause } = thrown
  return cause instanceof Error ? new Error(`${thrown.message} ${cause.message}`, { cause }) : thrown
}
