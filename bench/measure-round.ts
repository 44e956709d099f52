import { CONTENDERS, type ContenderName } from './contenders.ts'
import type { LoadSlice } from './load.ts'
import { type LoadResult, summarizeLoad } from './load-result.ts'
import { type RunningContender, startContender } from './running-contender.ts'

export interface Timing {
  readonly warmUpMs: number
  /** Short, so that all contenders see the same good and bad moments of the machine. */
  readonly sliceMs: number
  readonly slices: number
}

interface Turn {
  readonly name: ContenderName
  readonly contender: RunningContender
  readonly slices: LoadSlice[]
}

/** What a round gives of a contender: its load, or why there is none. */
export type RoundResult = LoadResult | Error

/**
 * New processes for each round; they take turns under load, there and back, and the others are idle. One that cannot be started or loaded
 * is left out of the rest, and the round goes on: others are not lost with it.
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

/** With what caused it: a server that did not start says why there. */
export function toError(thrown: unknown): Error {
  if (!(thrown instanceof Error)) return new Error(String(thrown))
  const { cause } = thrown
  return cause instanceof Error ? new Error(`${thrown.message} ${cause.message}`, { cause }) : thrown
}
