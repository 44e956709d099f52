import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { createDatabase } from './database.ts'
import type { Question } from './servers/announce.ts'

const START_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 20_000
const ANSWER_LIMIT_MS = 20_000

/** `process.cpuUsage()`, in microseconds. */
const CPU_USAGE = z.object({ user: z.number(), system: z.number() })

/** `process.memoryUsage()`, in bytes. */
const MEMORY_USAGE = z.object({ heapUsed: z.number(), external: z.number() })

const CREDENTIAL = z.object({ credential: z.string().min(1) })

export interface ServerCommand {
  /** File name in `servers/`, without extension. */
  readonly file: string
  readonly args: readonly string[]
  /** The checkout whose server runs; this one by default. */
  readonly root?: string
  /** Whether the server gets an empty PostgreSQL database, in `DATABASE_URL`. */
  readonly needsDatabase?: boolean
}

/** A server in a separate process. */
export interface BenchServer {
  readonly port: number
  /** Time from spawning the process to its ready line. */
  readonly startUpMs: number
  /** Processor time used so far, all threads together. */
  cpuMs(): Promise<number>
  /** Bytes that are reachable after garbage collections, inside and outside the heap; needs `--expose-gc`. */
  memoryBytes(): Promise<number>
  /** The credential of callers, if the server creates it. */
  credential(): Promise<string>
  stop(): Promise<void>
}

export async function startBenchServer(
  command: ServerCommand,
  nodeOptions: readonly string[] = [],
): Promise<BenchServer> {
  const root = command.root ?? join(import.meta.dirname, '..')
  const file = join(root, 'bench', 'servers', `${command.file}.ts`)
  const database = command.needsDatabase === true ? { DATABASE_URL: await createDatabase() } : {}
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [
      '--conditions=collet-source',
      '--disable-warning=ExperimentalWarning',
      ...nodeOptions,
      file,
      ...command.args,
    ],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      env: { ...process.env, NODE_ENV: 'production', ...database },
    },
  )
  try {
    const port = await readPort(child)
    const startUpMs = performance.now() - startedAt
    return {
      port,
      startUpMs,
      cpuMs: () => readCpuMs(child),
      memoryBytes: () => readMemoryBytes(child),
      credential: async () => CREDENTIAL.parse(await ask(child, 'credential')).credential,
      stop: () => stop(child),
    }
  } catch (error) {
    child.kill('SIGKILL')
    throw new Error(`The server "${[command.file, ...command.args].join(' ')}" did not start.`, {
      cause: error,
    })
  }
}

async function readPort(child: ChildProcess): Promise<number> {
  if (child.stdout === null) throw new Error('The server has no standard output.')
  const signal = AbortSignal.timeout(START_LIMIT_MS)
  const exited = once(child, 'exit', { signal }).then(([code]) => [`exit code ${code}`])
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line', { signal }),
    exited,
  ])
  const port = /^ready (\d+)$/.exec(String(line))?.[1]
  if (port === undefined) throw new Error(`Expected the line "ready PORT", got "${line}".`)
  return Number(port)
}

async function readCpuMs(child: ChildProcess): Promise<number> {
  const { user, system } = CPU_USAGE.parse(await ask(child, 'cpu'))
  return (user + system) / 1000
}

async function readMemoryBytes(child: ChildProcess): Promise<number> {
  const { heapUsed, external } = MEMORY_USAGE.parse(await ask(child, 'memory'))
  return heapUsed + external
}

async function ask(child: ChildProcess, question: Question): Promise<unknown> {
  const answered = once(child, 'message', { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) })
  child.send(question)
  const [answer] = await answered
  return answer
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_LIMIT_MS) })
  child.kill('SIGTERM')
  await exited.catch(() => child.kill('SIGKILL'))
}
