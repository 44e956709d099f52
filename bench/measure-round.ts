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

/** New processes for each round; they take turns under load, there and back, and the others are idle. */
export async function measureRound(
  names: readonly ContenderName[],
  timing: Timing,
  onStep: (step: string) => void,
): Promise<ReadonlyMap<ContenderName, LoadResult>> {
  const turns: Turn[] = []
  try {
    for (const name of names) {
      onStep(`warm-up, ${name}`)
      const contender = await startContender(CONTENDERS[name])
      turns.push({ name, contender, slices: [] })
      await contender.load(timing.warmUpMs)
    }
    for (let slice = 0; slice < timing.slices; slice += 1) {
      for (const { name, contender, slices } of slice % 2 === 0 ? turns : turns.toReversed()) {
        onStep(`slice ${slice + 1} of ${timing.slices}, ${name}`)
        slices.push(await contender.load(timing.sliceMs))
      }
    }
    return new Map(turns.map(({ name, slices }) => [name, summarizeLoad(slices)]))
  } finally {
    await Promise.all(turns.map(({ contender }) => contender.stop()))
  }
}
