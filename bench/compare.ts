import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CONTENDERS, type ContenderName, isContenderName } from './contenders.ts'
import type { LoadSlice } from './load.ts'
import { type LoadResult, summarizeLoad } from './load-result.ts'
import { type RunningContender, startContender } from './running-contender.ts'
import { median } from './statistics.ts'

/**
 * `npm run bench:compare -- CHECKOUT`: the server of this checkout against the server of another one, under the same load.
 * Both run at the same time and take turns in short slices, so a slow moment of the machine affects both. Each round starts
 * new processes; the table shows the median of the rounds, with the lowest and the highest.
 */

const USAGE = `Usage: npm run bench:compare -- CHECKOUT [--only CONTENDER]... [--rounds N]
  CHECKOUT          another checkout of Collet with its packages installed
  --only CONTENDER  default: sqlite, write, mcp sqlite
  --rounds N        default: 5`
const DEFAULT_CONTENDERS: readonly ContenderName[] = ['sqlite', 'write', 'mcp sqlite']
const WARM_UP_MS = 4_000
const SLICE_MS = 500
const SLICES = 16

interface Ratio {
  readonly rate: number
  readonly cpu: number
  readonly now: LoadResult
  readonly before: LoadResult
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string', multiple: true, default: [] },
    rounds: { type: 'string', default: '5' },
  },
})
const [checkout] = positionals
const rounds = Number(values.rounds)
if (checkout === undefined || !values.only.every(isContenderName) || !Number.isInteger(rounds)) {
  console.error(USAGE)
  process.exit(2)
}
const names = values.only.length === 0 ? DEFAULT_CONTENDERS : values.only.filter(isContenderName)
console.log('| contender | rate, now ÷ before | rounds | cpu, now ÷ before | now | before |')
console.log('|---|---|---|---|---|---|')
for (const name of names) {
  const ratios: Ratio[] = []
  for (let round = 0; round < rounds; round += 1)
    ratios.push(await compareOnce(name, resolve(checkout), round))
  console.log(formatRow(name, ratios))
}

async function compareOnce(name: ContenderName, root: string, round: number): Promise<Ratio> {
  const contender = CONTENDERS[name]
  const running: RunningContender[] = []
  try {
    running.push(await startContender(contender))
    running.push(await startContender({ ...contender, command: { ...contender.command, root } }))
    const slices: LoadSlice[][] = [[], []]
    for (const server of running) await server.load(WARM_UP_MS)
    for (let slice = 0; slice < SLICES; slice += 1)
      // The order within a pair of slices alternates, so that an effect of order cancels out.
      for (const index of (slice + round) % 2 === 0 ? [0, 1] : [1, 0]) {
        const load = await running[index]?.load(SLICE_MS)
        if (load !== undefined) slices[index]?.push(load)
      }
    const [now, before] = [summarizeLoad(slices[0] ?? []), summarizeLoad(slices[1] ?? [])]
    return {
      rate: now.requestsPerSecond / before.requestsPerSecond,
      cpu: now.cpuMicroseconds / before.cpuMicroseconds,
      now,
      before,
    }
  } finally {
    await Promise.all(running.map((server) => server.stop()))
  }
}

function formatRow(name: string, ratios: readonly Ratio[]): string {
  const rates = ratios.map(({ rate }) => rate)
  const spread = `${Math.min(...rates).toFixed(3)}–${Math.max(...rates).toFixed(3)}`
  const cpu = median(ratios.map((ratio) => ratio.cpu)).toFixed(3)
  return `| ${name} | ${median(rates).toFixed(3)} | ${spread} | ${cpu} | ${describe(ratios, 'now')} | ${describe(ratios, 'before')} |`
}

function describe(ratios: readonly Ratio[], side: 'now' | 'before'): string {
  const loads = ratios.map((ratio) => ratio[side])
  const rate = Math.round(median(loads.map(({ requestsPerSecond }) => requestsPerSecond)))
  const cpu = median(loads.map(({ cpuMicroseconds }) => cpuMicroseconds))
  return `${rate}/s, ${cpu.toFixed(1)} µs`
}
