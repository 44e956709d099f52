import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { CONTENDERS, isContenderName } from './contenders.ts'
import { stopDatabase } from './database.ts'
import { summarizeLoad } from './load-result.ts'
import { startContender } from './running-contender.ts'

const USAGE = `Usage: node bench/profile.ts [--contender NAME] [--seconds N] [--top N] [--keep]
  --contender NAME  one of: ${Object.keys(CONTENDERS).join(', ')} (default sqlite)
  --seconds N       how long to load it, after as much warm-up (default 5)
  --top N           how many functions to print (default 30)
  --keep            keep the .cpuprofile files for a browser's profiler`

/** The members of V8's profile format that self times need. */
const PROFILE = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({ functionName: z.string(), url: z.string(), lineNumber: z.number() }),
    }),
  ),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
})

interface SelfTime {
  readonly site: string
  readonly share: number
}

/** Microseconds spent in each function itself, by name and place, largest first. */
function readSelfTimes(file: string): SelfTime[] {
  const profile = PROFILE.parse(JSON.parse(readFileSync(file, 'utf8')))
  const frames = new Map(profile.nodes.map((node) => [node.id, describeFrame(node.callFrame)]))
  const times = new Map<string, number>()
  for (const [index, sample] of profile.samples.entries()) {
    const site = frames.get(sample) ?? '(unknown)'
    times.set(site, (times.get(site) ?? 0) + (profile.timeDeltas[index] ?? 0))
  }
  const idle = times.get('(idle)') ?? 0
  const total = [...times.values()].reduce((sum, time) => sum + time, 0) - idle
  times.delete('(idle)')
  return [...times]
    .map(([site, time]) => ({ site, share: time / total }))
    .sort((left, right) => right.share - left.share)
}

function describeFrame(frame: {
  readonly functionName: string
  readonly url: string
  readonly lineNumber: number
}): string {
  const name = frame.functionName === '' ? '(anonymous)' : frame.functionName
  if (frame.url === '') return name
  const path = frame.url.startsWith('file:')
    ? relative(process.cwd(), fileURLToPath(frame.url)).replace(/^.*node_modules\//, '')
    : frame.url
  return `${name}  ${path}:${frame.lineNumber + 1}`
}

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

console.log(`${contender.title}: ${Math.round(summarizeLoad([load]).requestsPerSecond)} req/s while profiled`)
for (const file of readdirSync(folder)) {
  console.log(`\n${file}: self time, idle left out`)
  for (const { site, share } of readSelfTimes(join(folder, file)).slice(0, Number(values.top))) {
    console.log(`${(share * 100).toFixed(1).padStart(5)} %  ${site}`)
  }
}
if (values.keep) console.log(`\nProfiles kept in ${relative(process.cwd(), folder)}`)
else rmSync(folder, { recursive: true })
