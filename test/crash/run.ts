import { parseArgs } from 'node:util'
import { type CrashResult, runCrashScenario } from './crash-scenario.ts'
import { formatSummary } from './format-summary.ts'

const USAGE = `Usage: npm run test:crash -- [--kills N] [--seconds N] [--seed N]
  --kills N    kill the server at least this often, in each scenario (default 20)
  --seconds N  keep killing for at least this long, in each scenario (default 0)
  --seed N     repeat the choices of an earlier run; the timing of processes stays free`

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '0' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
const [kills, seconds, seed] = [Number(values.kills), Number(values.seconds), Number(values.seed)]
if (!Number.isSafeInteger(kills) || kills < 1 || !(seconds >= 0) || !Number.isSafeInteger(seed)) {
  process.stderr.write(`Expected whole numbers, at least 1 for --kills.\n${USAGE}\n`)
  process.exit(2)
}

process.stdout.write(`seed ${seed}\n`)
const results: [string, CrashResult][] = []
for (const writers of [1, 2] as const) {
  const name = writers === 1 ? 'one writer' : 'two writers'
  process.stdout.write(`${name} …\n`)
  results.push([name, await runCrashScenario({ writers, kills, seconds, seed })])
}
const { text, passed } = formatSummary(results)
process.stdout.write(`\n${text}\n`)
// A run that met few events proves nothing.
const effects = results.reduce((sum, [, { verdict }]) => sum + verdict.effects, 0)
const isEnough = kills < 10 || effects >= 500
if (!isEnough) process.stdout.write(`Only ${effects} effects; at least 500 are expected.\n`)
process.exitCode = passed && isEnough ? 0 : 1
