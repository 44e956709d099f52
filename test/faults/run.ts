import { parseArgs } from 'node:util'
import { formatSummary, type Line } from '../crash/format-summary.ts'
import { canHaveDisk, type FaultResult, runFaultScenario } from './fault-scenario.ts'
import { FAULT_NAMES, type FaultName, isFault } from './faults.ts'

const USAGE = `Usage: npm run test:faults -- [--calls N] [--faults N] [--replicas N] [--seed N] [--only FAULT,FAULT] [--logs FOLDER]
  --calls N     continue until this many calls were made (default 2000)
  --faults N    inject this many faults on the way (default 12)
  --replicas N  servers on the one database (default 3)
  --seed N      repeat the choices of an earlier run; the timing of processes stays free
  --only LIST   of: ${FAULT_NAMES.join(', ')}
  --logs FOLDER keep the logs of the replicas and the log of effects there`

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '2000' },
    faults: { type: 'string', default: '12' },
    replicas: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string' },
    logs: { type: 'string' },
  },
})
const [calls, faults, replicas, seed] = [values.calls, values.faults, values.replicas, values.seed].map(
  Number,
)
const only = values.only?.split(',').map((name) => name.trim())
if (calls === undefined || faults === undefined || replicas === undefined || seed === undefined)
  throw new Error(USAGE)
if (
  ![calls, faults, replicas, seed].every(Number.isSafeInteger) ||
  replicas < 2 ||
  only?.every(isFault) === false
) {
  process.stderr.write(`Expected whole numbers, at least 2 replicas, and faults by their names.\n${USAGE}\n`)
  process.exit(2)
}

process.stdout.write(`seed ${seed}\n`)
const named = {
  ...(only === undefined ? {} : { only: only.filter(isFault) }),
  ...(values.logs === undefined ? {} : { logs: values.logs }),
}
const callers = { calls: 32, sessions: 6, flows: 4 }
const plan = { calls, faults, longShare: 0.15, outageMs: 3_000 }
const onProgress = (progress: string) => process.stderr.write(`${progress}\n`)
const result = await runFaultScenario({ seed, replicas, callers, plan, onProgress, ...named })

const tried = named.only ?? FAULT_NAMES
const lines: readonly Line<FaultResult>[] = [
  ['seconds', ({ seconds }) => seconds.toFixed(0)],
  ...tried.map((name): Line<FaultResult> => [`fault: ${name}`, ({ counts }) => timesOf(name, counts)]),
  ['stalls of the machine', ({ stalls }) => stalls],
  ['calls of another tenant', ({ neighbours }) => neighbours.calls],
]
const { text, passed } = formatSummary([[`${replicas} replicas`, result]], lines)
process.stdout.write(`\n${text}\n`)
process.exitCode = passed ? 0 : 1

function timesOf(name: FaultName, counts: FaultResult['counts']): string {
  return name === 'disk full' && !canHaveDisk() ? 'not tried: no bwrap' : String(counts.get(name) ?? 0)
}
