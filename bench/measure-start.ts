import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { addCall } from './bench-request.ts'
import type { Timing } from './measure-round.ts'
import { type Figure, median } from './statistics.ts'

const ROOT = resolve(import.meta.dirname, '..')
const LIMIT_MS = 60_000
const BETWEEN_TRIES_MS = 2
/** By then a server has finished the work that it defers at its start. */
const REST_MS = 2_000

type StartFigures = Readonly<Record<'ratio' | 'rss', Figure>>

/** A config with one tool, as a user writes it. */
const CONFIG = `import { defineConfig, tool } from 'collet'
import { z } from 'zod'

const number = (text) => z.number().describe(text)
export default defineConfig({
  tools: [
    tool({
      id: 'Calculator.Add@1.0.0',
      description: 'Adds two numbers together.',
      input: z.object({ a: number('The first number.'), b: number('The second number.') }),
      output: z.number(),
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ a, b }) => a + b,
    }),
  ],
})
`

let built: Promise<unknown> | undefined

/** Measures the time from spawning a process to the first answer of its server, for the built package and a minimal Fastify server in turns. */
export async function measureStart({ slices }: Timing): Promise<StartFigures> {
  built ??= promisify(execFile)(process.execPath, [join(ROOT, 'scripts', 'build.mjs')], { cwd: ROOT })
  await built
  const parent = join(ROOT, '.collet')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'bench-start-'))
  try {
    writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
    const starts: { readonly hello: Start; readonly ours: Start }[] = []
    // The first starts fill the file cache and Node's compile cache.
    await startHello()
    await startOurs(folder)
    for (let turn = 0; turn < slices; turn += 1)
      starts.push({ hello: await startHello(), ours: await startOurs(folder) })
    const tookMs = median(starts.map(({ ours }) => ours.tookMs))
    const value = tookMs / median(starts.map(({ hello }) => hello.tookMs))
    return {
      ratio: { value, p50Ms: tookMs },
      rss: { value: median(starts.map(({ ours }) => ours.residentBytes)) / 1e6 },
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Start {
  readonly tookMs: number
  readonly residentBytes: number
}

async function startHello(): Promise<Start> {
  const port = await freePort()
  const hello = join(import.meta.dirname, 'servers', 'hello.js')
  return await start([hello, String(port)], { cwd: ROOT, restMs: 0 }, () =>
    fetch(`http://127.0.0.1:${port}/`),
  )
}

async function startOurs(folder: string): Promise<Start> {
  rmSync(join(folder, '.collet'), { recursive: true, force: true })
  const port = await freePort()
  const { path, headers, body } = addCall()
  const { 'x-api-key': _, ...anonymous } = headers
  const init = { method: 'POST', headers: anonymous, body: JSON.stringify(body) }
  const args = [join(ROOT, 'bin', 'collet.js'), 'serve', '--port', String(port)]
  return await start(args, { cwd: folder, restMs: REST_MS }, () =>
    fetch(`http://127.0.0.1:${port}${path}`, init),
  )
}

async function start(
  args: readonly string[],
  { cwd, restMs }: { readonly cwd: string; readonly restMs: number },
  ask: () => Promise<Response>,
): Promise<Start> {
  const startedMs = performance.now()
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += String(chunk)
  })
  try {
    while (!(await isAnswered(ask))) {
      const isOver = child.exitCode !== null || performance.now() - startedMs > LIMIT_MS
      if (isOver) throw new Error(`${args.join(' ')} did not answer: ${output}`)
      await pause(BETWEEN_TRIES_MS)
    }
    const tookMs = performance.now() - startedMs
    await pause(restMs)
    return { tookMs, residentBytes: residentBytes(child.pid) }
  } finally {
    child.kill('SIGTERM')
    await exited
  }
}

async function isAnswered(ask: () => Promise<Response>): Promise<boolean> {
  try {
    const reply = await ask()
    await reply.arrayBuffer()
    return reply.ok
  } catch {
    return false
  }
}

/** Resident memory as the system counts it. Throws on systems without `/proc`. */
function residentBytes(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  if (address === null || typeof address === 'string') throw new Error('Expected a TCP address.')
  probe.close()
  await once(probe, 'close')
  return address.port
}
