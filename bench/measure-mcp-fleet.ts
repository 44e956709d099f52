/**
 * Many MCP programs at once, one of which hangs and one of which crashes in a loop: processes and memory over time.
 * `node --expose-gc --conditions=collet-source bench/measure-mcp-fleet.ts [programs] [seconds]`
 */
import { setTimeout as pause } from 'node:timers/promises'
import { ALL_PROCESSES } from '#sources/mcp/pool'
import { faulty } from '../test/sources/fault-mcp.ts'
import { type OpenedMcp, openMcp } from '../test/sources/open-mcp.ts'

const programs = Number(process.argv[2] ?? 50)
const seconds = Number(process.argv[3] ?? 60)
const EVERY_MS = 5000

function behaviourOf(index: number): string {
  if (index === 0) return 'silent'
  return index === 1 ? 'crashes' : 'plain'
}

const fleet: readonly OpenedMcp[] = Array.from({ length: programs }, (_, index) =>
  openMcp({ ...faulty(behaviourOf(index)), connectTimeoutMs: 10_000, idleMs: 20_000 }),
)
for (const { source, discover } of fleet) source.watch?.(() => void discover().catch(() => undefined))

async function callAll(): Promise<number> {
  const outcomes = await Promise.allSettled(fleet.slice(2).map(({ call }) => call('count')))
  return outcomes.filter(({ status }) => status === 'fulfilled').length
}

await Promise.allSettled(fleet.map(({ discover }) => discover()))
const until = performance.now() + seconds * 1000
while (performance.now() < until) {
  const answered = await callAll()
  globalThis.gc?.()
  const { rss, heapUsed } = process.memoryUsage()
  const [mib, heapMib] = [rss, heapUsed].map((bytes) => (bytes / 1_048_576).toFixed(1))
  console.log(`processes ${ALL_PROCESSES.taken}  answered ${answered}  rss ${mib} MiB  heap ${heapMib} MiB`)
  await pause(EVERY_MS)
}
await Promise.all(fleet.map(({ source }) => source.close()))
console.log(`processes ${ALL_PROCESSES.taken} at the end`)
