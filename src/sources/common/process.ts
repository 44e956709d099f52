import { type ChildProcess, spawn } from 'node:child_process'
import { constants, existsSync } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, relative, resolve, win32 } from 'node:path'

/** What this machine has for keeping programs in bounds. */
export interface Confinement {
  /** Absolute path of a `bwrap` that works here. */
  readonly bwrap: string | undefined
  /** Why there is none, for the operator. */
  readonly whyNot: string
  /** Absolute path of `prlimit`. */
  readonly prlimit: string | undefined
}

const PROBE_MS = 5_000

/** Looks for `bwrap` and `prlimit`; a `bwrap` that may not make namespaces here counts as none. */
export async function findConfinement(path: string): Promise<Confinement> {
  const place = { folder: '/', path }
  const prlimit = await findProgram('prlimit', place)
  const bwrap = await findProgram('bwrap', place)
  if (bwrap === undefined) return { bwrap, prlimit, whyNot: 'bubblewrap (bwrap) is not installed' }
  const works = await probe(bwrap)
  return {
    bwrap: works ? bwrap : undefined,
    prlimit,
    whyNot: works ? '' : 'bubblewrap (bwrap) cannot make namespaces here',
  }
}

function probe(bwrap: string): Promise<boolean> {
  return endsWell([
    ...[bwrap, ...SANDBOX_BASE, '--unshare-all', '--ro-bind', bwrap, bwrap],
    ...['--', bwrap, '--version'],
  ])
}

/** Whether a command line can be run here, and says that all is well. */
export async function endsWell([file = '', ...args]: readonly string[]): Promise<boolean> {
  try {
    const { exitCode } = await runProcess({
      ...{ file, args, cwd: '/', env: {}, stdin: undefined },
      ...{ maxOutputBytes: 4_096, killGraceMs: 0, signal: AbortSignal.timeout(PROBE_MS) },
    })
    return exitCode === 0
  } catch {
    return false
  }
}

/** Everything can be read, nothing written; devices, processes and temporary files are its own. */
export const SANDBOX_BASE = [
  ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/run'],
  '--die-with-parent',
]

/** With the network: names are looked up with the help of a file there. */
export const SHARED_NETWORK = ['--share-net', '--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve']

/** What lies below a folder that `SANDBOX_BASE` replaces would be gone. */
export function isReplaced(path: string): boolean {
  return ['/tmp', '/run'].some((folder) => {
    const below = relative(folder, path)
    return below !== '' && !below.startsWith('..')
  })
}

/** Where programs are looked for when nobody says. */
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The file behind a program: a path from the folder, or a name on the search path. */
export async function findProgram(
  program: string,
  place: { readonly folder: string; readonly path: string },
): Promise<string | undefined> {
  if (program.includes('/')) return await executable(resolve(place.folder, program))
  for (const folder of place.path.split(delimiter)) {
    // A relative entry would depend on who started the server where.
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

interface ProcessPlan {
  readonly file: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Written to standard input, which is then closed; `undefined` = there is none. */
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
  /** Its last part. */
  readonly stderr: Buffer
  /** It wrote more than it may, and was ended for it. */
  readonly isTooLong: boolean
}

const STDERR_BYTES = 8 * 1024
/** How long output may still come when the process has ended; a process that left the group may hold the pipe. */
const DRAIN_MS = 1_000

/**
 * Runs one program in a process group of its own until it has ended, whatever ends it. The whole group is gone then.
 * Rejects only when it could not be started.
 */
export function runProcess(plan: ProcessPlan): Promise<ProcessEnd> {
  return new Promise((resolve, reject) => {
    const [file = plan.file, ...args] = commandLine([plan.file, ...plan.args], process)
    const child = spawn(file, args, {
      cwd: plan.cwd,
      env: plan.env,
      // A session and so a group of its own, without a terminal.
      detached: true,
      shell: false,
      stdio: [plan.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      windowsHide: true,
    })
    const group = new ProcessGroup(child, plan.killGraceMs)
    const stdout: Buffer[] = []
    let stdoutBytes = 0
    let stderr = Buffer.alloc(0)
    let isTooLong = false
    let draining: NodeJS.Timeout | undefined
    const stop = () => group.end()

    child.stdout?.on('data', (chunk: Buffer) => {
      stdoutBytes += chunk.length
      if (stdoutBytes <= plan.maxOutputBytes) stdout.push(chunk)
      else if (!isTooLong) {
        isTooLong = true
        group.end()
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
      group.killRest()
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
    // A program that does not read its input is no error of ours.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(plan.stdin)
    plan.signal.addEventListener('abort', stop, { once: true })
    if (plan.signal.aborted) stop()
  })
}

/** The processes of one command, ended together: asked first, killed then. */
class ProcessGroup {
  readonly #child: ChildProcess
  readonly #graceMs: number
  #patience: NodeJS.Timeout | undefined

  constructor(child: ChildProcess, graceMs: number) {
    this.#child = child
    this.#graceMs = graceMs
  }

  end(): void {
    if (this.#patience !== undefined) return
    this.#patience = setTimeout(() => this.#signal('SIGKILL'), this.#graceMs)
    this.#signal('SIGTERM')
  }

  /** The leader is gone; nobody it left behind stays. */
  killRest(): void {
    clearTimeout(this.#patience)
    this.#signal('SIGKILL')
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child.pid !== undefined) signalGroup(this.#child.pid, signal)
  }
}

interface Machine {
  readonly platform: string
  /** The Node that runs us. */
  readonly execPath: string
}

/**
 * The program and its arguments. On Windows `npx` is a script of the shell, which cannot be started as a program, and is
 * not given to a shell that would read its arguments again: started is what it would start itself, a script for Node.
 */
export function commandLine(
  [command = '', ...args]: readonly string[],
  { platform, execPath }: Machine,
  exists: (file: string) => boolean = existsSync,
): readonly string[] {
  const { dir, base } = win32.parse(command)
  const [, name] = /^(npx|npm)(?:\.cmd)?$/i.exec(base) ?? []
  const node = win32.dirname(execPath)
  // A program of that name elsewhere is somebody's own.
  const isOfNode = name !== undefined && (dir === '' || win32.relative(dir, node) === '')
  if (platform !== 'win32' || !isOfNode) return [command, ...args]
  const script = win32.join(node, 'node_modules', 'npm', 'bin', `${name.toLowerCase()}-cli.js`)
  return exists(script) ? [execPath, script, ...args] : [command, ...args]
}

/** To a process and those it started. Windows has no groups: there the program itself is signalled. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, signal)
  } catch {
    // ESRCH: nobody is left.
  }
}
