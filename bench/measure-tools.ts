import { CONTENDERS } from './contenders.ts'
import type { LoadSlice } from './load.ts'
import { summarizeLoad } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { type RunningContender, startContender } from './running-contender.ts'
import { type Figure, median } from './statistics.ts'

/** The first is what the others are held against, and the second is the same server once more: what differs there is the machine's. */
const [FEW, AGAIN, ...MORE] = ['memory', 'memory', 'tools 1000', 'tools 10000'] as const

/** Of a usual slice: many short turns, so that all of them see the same moments of the machine. */
const SHORTER = 4

type ToolsFigures = Readonly<Record<'calls' | 'cpu' | 'noise', Figure>>

/**
 * One call to servers with more and more tools, in turns, there and back. Compared turn by turn, and the middle of
 * that: a slow moment of the machine is in one turn and not in the figure.
 */
export async function measureTools({ warmUpMs, sliceMs, slices }: Timing): Promise<ToolsFigures> {
  const running: { readonly contender: RunningContender; readonly taken: LoadSlice[] }[] = []
  try {
    for (const name of [FEW, AGAIN, ...MORE]) {
      const contender = await startContender(CONTENDERS[name])
      running.push({ contender, taken: [] })
      await contender.load(warmUpMs)
    }
    for (let turn = 0; turn < slices * SHORTER; turn += 1) {
      for (const { contender, taken } of turn % 2 === 0 ? running : running.toReversed())
        taken.push(await contender.load(sliceMs / SHORTER))
    }
    const [few = [], again = [], ...more] = running.map(({ taken }) => taken)
    const most = summarizeLoad(more.at(-1) ?? [])
    return {
      calls: { ...most, value: leastOverMost(few, more, callsASecond) },
      cpu: { ...most, value: leastOverMost(few, more, cpuOfACall) },
      noise: { ...summarizeLoad(again), value: leastOverMost(few, [again], callsASecond) },
    }
  } finally {
    await Promise.all(running.map(({ contender }) => contender.stop()))
  }
}

type Read = (slice: LoadSlice) => number

const callsASecond: Read = ({ latenciesMs, seconds }) => latenciesMs.length / seconds
const cpuOfACall: Read = ({ latenciesMs, serverCpuMs }) => serverCpuMs / latenciesMs.length

/** Each against the first in the same turn. */
function leastOverMost(
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
