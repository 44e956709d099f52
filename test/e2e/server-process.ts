import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../..')
const START_LIMIT_MS = 50_000
const STOP_LIMIT_MS = 15_000

export interface ServerProcess {
  readonly url: string
  readonly pid: number
  /** Everything printed until now, both streams. */
  output(): string
  /** Milliseconds from spawning to the line with the URL. */
  readonly readyMs: number
  /** Exit code, once the process has ended for any reason. */
  readonly ended: Promise<number | null>
  /** Stops it and returns the exit code. Default: like Ctrl-C, because after SIGTERM a server accepts calls for a while. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface ProcessOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  /** Maximum size of a file that the process writes, in blocks of the shell's `ulimit -f`. It simulates a disk that is nearly full. */
  readonly fileBlocks?: number
}

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const FLAGS = [
  '--conditions=collet-source',
  '--disable-warning=ExperimentalWarning',
  `${ROOT}/src/cli/main.ts`,
]

/** The command line on the sources, as `npm run collet` runs it. */
export function startCollet(argv: readonly string[], options: ProcessOptions = {}): Promise<ServerProcess> {
  const command = [process.execPath, ...FLAGS, ...argv]
  if (options.fileBlocks === undefined) return startServerProcess(process.execPath, command.slice(1), options)
  const limited = ['-c', `ulimit -S -f ${options.fileBlocks}; exec "$@"`, 'sh', ...command]
  return startServerProcess('sh', limited, options)
}

/** One command line that ends by itself. */
export async function runCollet(argv: readonly string[], options: ProcessOptions = {}): Promise<Ended> {
  const child = spawn(process.execPath, [...FLAGS, ...argv], {
    cwd: options.cwd ?? ROOT,
    env: { ...process.env, NO_COLOR: '1', ...options.env },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS)
  await once(child, 'close')
  clearTimeout(timer)
  return { code: child.exitCode, stdout, stderr }
}

/** Any command that serves and prints its URL. It is stopped by its own process id. */
export async function startServerProcess(
  command: string,
  argv: readonly string[],
  options: ProcessOptions = {},
): Promise<ServerProcess> {
  const startedMs = performance.now()
  // A separate process group: npm and npx start the server through a shell, and all of it must end.
  const child = spawn(command, argv, {
    cwd: options.cwd ?? ROOT,
    env: { ...process.env, ...options.env },
    detached: true,
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  let text = ''
  const url = await new Promise<string>((found, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`no URL within ${START_LIMIT_MS} ms:\n${text}`)),
      START_LIMIT_MS,
    )
    const look = (chunk: Buffer): void => {
      text += chunk.toString()
      const match = /on (https?:\/\/[^\s]+)/.exec(text)
      if (match?.[1] !== undefined) found(match[1])
      if (match !== null) clearTimeout(timer)
    }
    child.stdout.on('data', look)
    child.stderr.on('data', look)
    child.once('exit', (code) => {
      clearTimeout(timer)
      reject(new Error(`ended with ${code} before it served:\n${text}`))
    })
  }).catch((error: unknown) => {
    killGroup(child, 'SIGKILL')
    throw error
  })
  return {
    url,
    pid: child.pid ?? 0,
    output: () => text,
    readyMs: performance.now() - startedMs,
    ended,
    stop: (signal = 'SIGINT') => stop(child, signal),
  }
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
  const ended = once(child, 'exit')
  killGroup(child, signal)
  const timer = setTimeout(() => killGroup(child, 'SIGKILL'), STOP_LIMIT_MS)
  await ended
  clearTimeout(timer)
  return child.exitCode
}

/** The group may have ended by itself in the meantime. */
function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
