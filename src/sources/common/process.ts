import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, relative, resolve } from 'node:path'
import { ChildGroup, type GroupPlan } from './child-group.ts'

/**
 * Runs one program until it ends, and finds the programs that confine it (bubblewrap, prlimit). Commands and packs use it.
 * Invariant: `runProcess` settles only when the program and its process group have ended.
 */

/** The programs on this machine that can confine other programs. */
export interface Confinement {
  /** Absolute path of a `bwrap` that works here. */
  readonly bwrap: string | undefined
  /** Why `bwrap` is not available, as text for the operator; empty if it is. */
  readonly unavailableReason: string
  readonly prlimit: string | undefined
}

const PROBE_MS = 5_000

/** Finds `bwrap` and `prlimit`; a `bwrap` that may not create namespaces here counts as missing. */
export async function findConfinement(path: string): Promise<Confinement> {
  const search = { folder: '/', path }
  const prlimit = await findProgram('prlimit', search)
  const bwrap = await findProgram('bwrap', search)
  if (bwrap === undefined) return { bwrap, prlimit, unavailableReason: 'bubblewrap (bwrap) is not installed' }
  const sandbox = [bwrap, ...SANDBOX_BASE, '--unshare-all', '--ro-bind', bwrap, bwrap]
  return (await exitsCleanly([...sandbox, '--', bwrap, '--version']))
    ? { bwrap, prlimit, unavailableReason: '' }
    : { bwrap: undefined, prlimit, unavailableReason: 'bubblewrap (bwrap) cannot create namespaces here' }
}

/** True if the command line can be run here and exits with code 0. */
export async function exitsCleanly(command: readonly string[]): Promise<boolean> {
  const limits = { maxOutputBytes: 4_096, killGraceMs: 0, signal: AbortSignal.timeout(PROBE_MS) }
  try {
    const { exitCode } = await runProcess({ command, cwd: '/', env: {}, stdin: undefined, ...limits })
    return exitCode === 0
  } catch {
    return false
  }
}

/** Arguments for `bwrap`: the program can read everything and write nothing; it has its own devices, processes and temporary files. */
export const SANDBOX_BASE = [
  ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/run'],
  '--die-with-parent',
]

/** Arguments for `bwrap` if the program may use the network; it needs systemd's files to resolve names. */
export const SHARED_NETWORK = ['--share-net', '--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve']

/** True for a path that the sandbox hides, because `SANDBOX_BASE` replaces a folder above it. */
export function isReplaced(path: string): boolean {
  return ['/tmp', '/run'].some((folder) => {
    const below = relative(folder, path)
    return below !== '' && !below.startsWith('..')
  })
}

/** The search path for programs if the environment has none. */
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The file of a program that is given as a path relative to the folder or as a name on the search path. */
export async function findProgram(
  program: string,
  search: { readonly folder: string; readonly path: string },
): Promise<string | undefined> {
  if (program.includes('/')) return await executable(resolve(search.folder, program))
  for (const folder of search.path.split(delimiter)) {
    // A relative entry would depend on the folder in which the server was started.
    const found = isAbsolute(folder) ? await executable(resolve(folder, program)) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

async function executable(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.X_OK)
    return (await stat(file)).isFile() ? file : undefined
  } catch {
    return undefined
  }
}

interface ProcessPlan extends Pick<GroupPlan, 'command' | 'cwd' | 'env'> {
  /** Written to standard input, which is then closed; `undefined` = no standard input. */
  readonly stdin: string | undefined
  readonly maxOutputBytes: number
  readonly killGraceMs: number
  /** Ends the process and everything in its group. */
  readonly signal: AbortSignal
}

export interface ProcessEnd {
  readonly exitCode: number | null
  readonly killedBy: NodeJS.Signals | null
  readonly stdout: Buffer
  /** The last bytes of standard error. */
  readonly stderr: Buffer
  /** True if the program was stopped because it wrote more than `maxOutputBytes`. */
  readonly isTooLong: boolean
}

const STDERR_BYTES = 8 * 1024
/** How long to read output after the exit, because a process that left the group may keep the pipe open. */
const DRAIN_MS = 1_000

/** Runs one program until it and its group have ended. Rejects only if it could not be started. */
export function runProcess(plan: ProcessPlan): Promise<ProcessEnd> {
  return new Promise((resolve, reject) => {
    const group = new ChildGroup({
      ...plan,
      stdio: [plan.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    const { child } = group
    const stdout: Buffer[] = []
    let stdoutBytes = 0
    let stderr = Buffer.alloc(0)
    let isTooLong = false
    let draining: NodeJS.Timeout | undefined
    const stop = () => void group.stop(plan.killGraceMs)

    child.stdout?.on('data', (chunk: Buffer) => {
      stdoutBytes += chunk.length
      if (stdoutBytes <= plan.maxOutputBytes) stdout.push(chunk)
      else if (!isTooLong) {
        isTooLong = true
        stop()
      }
    })
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr = Buffer.concat([stderr, chunk]).subarray(-STDERR_BYTES)
    })
    child.once('error', (error) => {
      if (child.pid !== undefined) return
      plan.signal.removeEventListener('abort', stop)
      reject(error)
    })
    child.once('exit', () => {
      draining = setTimeout(() => {
        child.stdout?.destroy()
        child.stderr?.destroy()
      }, DRAIN_MS)
    })
    child.once('close', (exitCode, killedBy) => {
      clearTimeout(draining)
      plan.signal.removeEventListener('abort', stop)
      if (child.pid === undefined) return
      resolve({ exitCode, killedBy, stdout: Buffer.concat(stdout), stderr, isTooLong })
    })
    // Errors are ignored, because a program need not read its input.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(plan.stdin)
    plan.signal.addEventListener('abort', stop, { once: true })
    if (plan.signal.aborted) stop()
  })
}
