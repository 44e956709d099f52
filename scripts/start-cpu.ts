import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

/**
 * `node scripts/start-cpu.ts [--runs 15] [--flags="--cpu-prof …"] [FOLDER…]`: CPU time, user and system, from the start of a built
 * `collet mcp` to its first answer. Folders are checkouts that were built (`npm run build`), this one unless others are
 * given; their runs alternate. Linux only: the time is read from /proc, in steps of 10 ms.
 */

const CLOCK_TICKS_MS = 10
const MAX_RUN_MS = 30_000

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'start-cpu', version: '1' },
  },
}

/** CPU time until the first line of stdout, in milliseconds. */
async function measure(checkout: string, flags: readonly string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-start-'))
  writeFileSync(join(folder, 'collet.config.mjs'), 'export default {}\n')
  const child = spawn(process.execPath, [...flags, join(checkout, 'bin/collet.js'), 'mcp'], {
    cwd: folder,
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: MAX_RUN_MS,
  })
  try {
    child.stdin.write(`${JSON.stringify(INITIALIZE)}\n`)
    const ended = once(child, 'exit').then(() => {
      throw new Error(`${checkout}: collet mcp ended before it answered`)
    })
    await Promise.race([once(child.stdout, 'data'), ended])
    ended.catch(() => undefined)
    return cpuOf(child.pid ?? 0)
  } finally {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Fields 14 and 15 of proc(5), counted after the name, which may contain spaces. */
function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * CLOCK_TICKS_MS
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

const { values, positionals } = parseArgs({
  options: { runs: { type: 'string', default: '15' }, flags: { type: 'string', default: '' } },
  allowPositionals: true,
})
const checkouts = (positionals.length === 0 ? ['.'] : positionals).map((folder) => resolve(folder))
const flags = values.flags.split(' ').filter((flag) => flag !== '')
const measured = new Map(checkouts.map((checkout) => [checkout, [] as number[]]))
// The first start fills the caches of files and compiled code.
for (const checkout of checkouts) await measure(checkout, flags)
for (let run = 0; run < Number(values.runs); run += 1)
  for (const [checkout, times] of measured) times.push(await measure(checkout, flags))
for (const [checkout, times] of measured) {
  const [min, max] = [Math.min(...times), Math.max(...times)]
  process.stdout.write(
    `${checkout}: ${medianOf(times)} ms CPU to the first answer (median of ${times.length}, ${min} to ${max})\n`,
  )
}
