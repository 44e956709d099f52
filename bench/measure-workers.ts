import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type ServerProcess, startCollet } from '../test/e2e/server-process.ts'
import { createDatabase } from './database.ts'
import { applyLoad, type LoadSlice } from './load.ts'
import { summarizeLoad } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { RequestBytes } from './request-bytes.ts'
import type { Figure } from './statistics.ts'

const SOURCES = resolve(import.meta.dirname, '../src/index.ts')
const CONNECTIONS = 32
const WORKER_COUNTS = [1, 2]

/**
 * A tool that takes a millisecond of processor time, even on a busy machine: it does as much work as the fastest of 200 trials did in a
 * millisecond. (The system counts a thread's processor time in steps of some milliseconds.)
 */
const CONFIG = `import { defineConfig, tool } from ${JSON.stringify(SOURCES)}
const work = (turns) => { let sum = 0; for (let turn = 0; turn < turns; turn += 1) sum = (sum * 31 + turn) | 0; return sum }
const TRIED = 200_000
const msOf = () => { const startedMs = performance.now(); work(TRIED); return performance.now() - startedMs }
const TURNS = Math.round(TRIED / Math.min(...Array.from({ length: 200 }, msOf)))
export default defineConfig({
  tools: [
    tool({
      id: 'Work.Burn@1.0.0', description: 'Computes for a millisecond.',
      input: { type: 'object', properties: {} }, output: { type: 'number' }, policy: { safetyTier: 'pure' },
      run: () => work(TURNS),
    }),
  ],
})
`

type WorkerFigures = Readonly<Record<'ratio', Figure>>

/** Measures the calls per second with two workers divided by those with one, in turns. Each server has a separate database. */
export async function measureWorkers({ warmUpMs, sliceMs, slices }: Timing): Promise<WorkerFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-bench-workers-'))
  const servers: ServerProcess[] = []
  try {
    writeFileSync(join(folder, 'collet.config.ts'), CONFIG)
    const turns: { readonly load: (ms: number) => Promise<LoadSlice>; readonly taken: LoadSlice[] }[] = []
    for (const workers of WORKER_COUNTS) {
      const server = await startWorkers(folder, workers)
      servers.push(server)
      const load = loadOn(server)
      await load(warmUpMs)
      turns.push({ load, taken: [] })
    }
    for (let slice = 0; slice < slices; slice += 1) {
      for (const { load, taken } of slice % 2 === 0 ? turns : turns.toReversed())
        taken.push(await load(sliceMs))
    }
    const [one, more] = turns.map(({ taken }) => summarizeLoad(taken))
    if (one === undefined || more === undefined) throw new Error('Expected the loads of two servers.')
    const { requestsPerSecond, p50Ms, p99Ms } = more
    return { ratio: { value: requestsPerSecond / one.requestsPerSecond, requestsPerSecond, p50Ms, p99Ms } }
  } finally {
    for (const server of servers) await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function startWorkers(folder: string, workers: number): Promise<ServerProcess> {
  const store = await createDatabase()
  const argv = ['serve', '--store', store, '--port', '0', '--workers', String(workers)]
  const server = await startCollet(argv, {
    cwd: folder,
    env: { COLLET_KEY: randomBytes(32).toString('base64') },
  })
  await untilAll(server.url, workers)
  return server
}

/** Waits for all workers. They start after the first, and `/metrics` of any worker lists all that serve. */
async function untilAll(url: string, workers: number): Promise<void> {
  const isServing = async (): Promise<boolean> => {
    const text = await (await fetch(`${url}/metrics`, { headers: { connection: 'close' } })).text()
    return workers === 1 || text.includes(`worker="${workers}"`)
  }
  while (!(await isServing())) await new Promise((resolve) => setTimeout(resolve, 50))
}

/** A closed loop. Processor time is not measured, because there are several processes. */
function loadOn({ url }: ServerProcess): (durationMs: number) => Promise<LoadSlice> {
  const port = Number(new URL(url).port)
  const server = { port, cpuMs: async () => 0 }
  const headers = { 'content-type': 'application/json' }
  const body = { request: { tool_id: 'Work.Burn', input: {} } }
  const request = new RequestBytes({ method: 'POST', path: '/tools/call', headers, body }, port)
  return (durationMs) =>
    applyLoad({ server, request, connections: CONNECTIONS, durationMs, expectedStatus: 200 })
}
