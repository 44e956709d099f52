import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readProfile } from './budget.ts'
import { CONTENDERS, isContenderName } from './contenders.ts'
import { stopDatabase } from './database.ts'
import { summarizeLoad } from './load-result.ts'
import { startContender } from './running-contender.ts'

const USAGE = `Usage: node bench/profile.ts [--contender NAME] [--seconds N] [--top N] [--keep]
  --contender NAME  one of: ${Object.keys(CONTENDERS).join(', ')} (default sqlite)
  --seconds N       seconds of load, after an equal warm-up (default 5)
  --top N           how many functions to print (default 30)
  --keep            keep the .cpuprofile files for a browser's profiler`

const { values } = parseArgs({
  options: {
    contender: { type: 'string', default: 'sqlite' },
    seconds: { type: 'string', default: '5' },
    top: { type: 'string', default: '30' },
    keep: { type: 'boolean', default: false },
  },
})
if (!isContenderName(values.contender)) {
  console.error(`There is no contender "${values.contender}".\n${USAGE}`)
  process.exit(2)
}

const results = resolve(import.meta.dirname, 'results')
mkdirSync(results, { recursive: true })
const folder = mkdtempSync(join(results, 'profile-'))
const contender = CONTENDERS[values.contender]
const durationMs = Number(values.seconds) * 1000
const running = await startContender(contender, ['--cpu-prof', `--cpu-prof-dir=${folder}`])
const load = await running
  .load(durationMs)
  .then(() => running.load(durationMs))
  .finally(() => running.stop())
  .finally(stopDatabase)

const { requestsPerSecond, cpuMicroseconds } = summarizeLoad([load])
console.log(
  `${contender.title}: ${Math.round(requestsPerSecond)} req/s, ${cpuMicroseconds.toFixed(1)} µs of processor time a request, all threads, while profiled`,
)
for (const file of readdirSync(folder)) {
  const { functions, stages } = readProfile(JSON.parse(readFileSync(join(folder, file), 'utf8')), durationMs)
  const isMain = stages.length > 3
  if (isMain) {
    console.log(`\n${file}: processor time by stage of a call, µs`)
    for (const { name, share } of stages)
      console.log(`${(share * cpuMicroseconds).toFixed(1).padStart(6)}  ${name}`)
  }
  console.log(`\n${file}: self time, without idle time`)
  for (const { name, share } of functions.slice(0, Number(values.top)))
    console.log(`${(share * 100).toFixed(1).padStart(5)} %  ${name}`)
}
if (values.keep) console.log(`\nProfiles kept in ${relative(process.cwd(), folder)}`)
else rmSync(folder, { recursive: true })
