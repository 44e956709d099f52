import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startPostgres } from '../store/postgres-server.ts'
import { Client, fillCaches, keepActing, type Seen } from './load.ts'
import { startProject } from './soak-project.ts'
import { countPeriods, describeSoak, judgeSoak, type Sample, type SoakVerdict, takeSample } from './watch.ts'

const USAGE = `Usage: npm run test:soak -- [--minutes N] [--rate N] [--store sqlite|postgres]
  --minutes N  how long (default 1)
  --rate N     actions of clients per second, on each store (default 40)
  --store S    only this one; else both at once
Resident memory follows how much garbage V8 leaves lying; NODE_OPTIONS=--max-semi-space-size=4 holds that still.`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    rate: { type: 'string', default: '40' },
    store: { type: 'string' },
  },
})
const [minutes, perSecond] = [Number(values.minutes), Number(values.rate)]
const stores = values.store === undefined ? ['sqlite', 'postgres'] : [values.store]
if (!(minutes > 0) || !(perSecond > 0) || !stores.every((store) => ['sqlite', 'postgres'].includes(store))) {
  process.stderr.write(`Expected numbers above 0.\n${USAGE}\n`)
  process.exit(2)
}
const SAMPLES_A_PERIOD = 8
/** SQLite keeps pages of its file up to this (`cache_size` in `kernel/store/sqlite/engine.ts`). */
const SQLITE_CACHE_MB = 64

const folder = mkdtempSync(join(tmpdir(), 'collet-soak-'))
const postgres = stores.includes('postgres') ? await startPostgres() : undefined
try {
  const url = await postgres?.createDatabase('soak')
  const verdicts = await Promise.all(
    stores.map((store) => soak(join(folder, store), store === 'sqlite' ? 'sqlite:collet.db' : `${url}`)),
  )
  for (const [index, verdict] of verdicts.entries()) {
    process.stdout.write(`\n${describeSoak(stores[index] ?? '', verdict)}\n`)
  }
  process.exitCode = verdicts.every(({ problems }) => problems.length === 0) ? 0 : 1
} finally {
  await postgres?.stop()
  rmSync(folder, { recursive: true, force: true })
}

async function soak(inside: string, store: string): Promise<SoakVerdict> {
  const project = await startProject(inside, store)
  try {
    const client = new Client(project.server.url)
    const [samples, seen]: [Sample[], Seen[]] = [[], []]
    await client.imported()
    await fillCaches(client)
    const stop = new AbortController()
    const acting = keepActing(client, { perSecond, stop: stop.signal, seen }).finally(() => stop.abort())
    // Checked below, after the measurements.
    acting.catch(() => undefined)
    const lengthMs = minutes * 60_000
    const everyMs = lengthMs / (countPeriods(lengthMs) * SAMPLES_A_PERIOD)
    const startedMs = performance.now()
    for (let taken = 0; performance.now() < startedMs + lengthMs && !stop.signal.aborted; taken += 1) {
      // Once, in the middle of a period: a collection delays the calls of that moment.
      const living = taken % SAMPLES_A_PERIOD === SAMPLES_A_PERIOD / 2 ? await project.living() : undefined
      samples.push(await takeSample(client, living))
      await wait(Math.max(0, startedMs + (taken + 1) * everyMs - performance.now()))
    }
    stop.abort()
    await acting
    return judgeSoak(samples, seen, store.startsWith('sqlite:') ? SQLITE_CACHE_MB : 0)
  } finally {
    await project.stop()
  }
}
