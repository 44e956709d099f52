import { CONTENDERS } from './contenders.ts'
import type { LoadSlice } from './load.ts'
import { summarizeLoad } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { type RunningContender, startContender } from './running-contender.ts'
import { type Figure, median } from './statistics.ts'

/** The others are compared with the first. The second is the same server again, so its difference is the noise of the machine. */
const [FEW, AGAIN, ...MORE] = ['memory', 'memory', 'tools 1000', 'tools 10000'] as const

/** Slices are shorter than usual by this factor, so that changes in the machine's speed affect all servers. */
const SLICE_DIVISOR = 4

type ToolsFigures = Readonly<Record<'calls' | 'cpu' | 'noise', Figure>>

/**
 * Makes the same call to servers with increasing numbers of tools, in turns and in alternating order. They are compared turn by
 * turn and the median counts, so that a slow moment of the machine affects one turn and not the figure.
 */
export async function measureTools({ warmUpMs, sliceMs, slices }: Timing): Promise<ToolsFigures> {
  const running: { readonly contender: RunningContender; readonly taken: LoadSlice[] }[] = []
  try {
    for (const name of [FEW, AGAIN, ...MORE]) {
      const contender = await startContender(CONTENDERS[name])
      running.push({ contender, taken: [] })
      await contender.load(warmUpMs)
    }
    for (let turn = 0; turn < slices * SLICE_DIVISOR; turn += 1) {
      for (const { contender, taken } of turn % 2 === 0 ? running : running.toReversed())
        taken.push(await contender.load(sliceMs / SLICE_DIVISOR))
    }
    const [few = [], again = [], ...more] = running.map(({ taken }) => taken)
    const most = summarizeLoad(more.at(-1) ?? [])
    return {
      calls: { ...most, value: lowestOverHighest(few, more, callsASecond) },
      cpu: { ...most, value: lowestOverHighest(few, more, cpuOfACall) },
      noise: { ...summarizeLoad(again), value: lowestOverHighest(few, [again], callsASecond) },
    }
  } finally {
    await Promise.all(running.map(({ contender }) => contender.stop()))
  }
}

type Read = (slice: LoadSlice) => number

const callsASecond: Read = ({ latenciesMs, seconds }) => latenciesMs.length / seconds
const cpuOfACall: Read = ({ latenciesMs, serverCpuMs }) => serverCpuMs / latenciesMs.length

/** The lowest ratio to the first server divided by the highest. Each ratio is the median over the turns. */
function lowestOverHighest(
  first: readonly LoadSlice[],
  others: readonly (readonly LoadSlice[])[],
  read: Read,
): number {
  const measured = first.map(read)
  const ratios = others.map((other) =>
    median(other.map((slice, turn) => read(slice) / (measured[turn] ?? Number.NaN))),
  )
  return Math.min(1, ...ratios) / Math.max(1, ...ratios)
}
