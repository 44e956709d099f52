import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { win32 } from 'node:path'
import { withDeadline } from '#kernel/base/waiting'

/**
 * A program and everything it starts, in its own process group. Commands, packs and MCP servers on stdio each run in such a group.
 * Invariant: when the program exits, or this process does, the whole group is killed.
 */

export interface GroupPlan {
  /** The program and its arguments, which are not passed to a shell. */
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdio: StdioOptions
  /** If true, the group is killed even if this process itself is killed. This costs a second process, which waits. */
  readonly isWatched?: boolean
}

/** Groups that this process kills when it exits. */
const LIVING = new Set<number>()
let hasExitListener = false

export class ChildGroup {
  readonly child: ChildProcess
  readonly #exited: Promise<void>
  #stopping: Promise<void> | undefined
  #hasExited = false

  constructor({ command, cwd, env, stdio, isWatched = false }: GroupPlan) {
    const [file = '', ...args] = commandLine(command, process)
    // `detached` creates a new session, and with it a process group without a terminal.
    this.child = spawn(file, args, { cwd, env, stdio, detached: true, shell: false, windowsHide: true })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#exited = promise
    const { pid } = this.child
    if (pid === undefined) {
      this.#hasExited = true
      resolve()
      return
    }
    killOnExit(pid)
    const endWatch = isWatched ? watchOver(pid) : undefined
    // Waits for `exit` and not `close`, because a grandchild that keeps the pipes open must not keep the group alive.
    this.child.once('exit', () => {
      this.#hasExited = true
      // The system does not reuse the id of a group while the group has members.
      this.kill()
      LIVING.delete(pid)
      endWatch?.()
      resolve()
    })
  }

  get hasExited(): boolean {
    return this.#hasExited
  }

  /** Resolves when the program has exited, and at the latest after `waitMs`. */
  async exitWithin(waitMs: number): Promise<void> {
    await withDeadline(waitMs, () => this.#exited).catch(() => undefined)
  }

  /** Signals the group to stop, and kills it after `graceMs`. */
  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#stop(graceMs)
    return this.#stopping
  }

  kill(): void {
    if (this.child.pid !== undefined) signalGroup(this.child.pid, 'SIGKILL')
  }

  async #stop(graceMs: number): Promise<void> {
    const { pid } = this.child
    if (this.#hasExited || pid === undefined) return
    signalGroup(pid, 'SIGTERM')
    await this.exitWithin(graceMs)
    if (this.#hasExited) return
    this.kill()
    await this.exitWithin(graceMs)
  }
}

function killOnExit(pid: number): void {
  LIVING.add(pid)
  if (hasExitListener) return
  hasExitListener = true
  process.on('exit', () => {
    for (const group of LIVING) signalGroup(group, 'SIGKILL')
  })
}

/**
 * Starts a shell that kills the group when its pipe to this process closes, however this process ends. Returns a function that ends
 * the shell.
 */
function watchOver(pid: number): (() => void) | undefined {
  if (process.platform === 'win32') return undefined
  const watch = spawn('/bin/sh', ['-c', 'read -r _; kill -s KILL -- "-$1"', 'sh', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    env: {},
    // Ctrl-C in the terminal of this process must not end the shell.
    detached: true,
  })
  watch.on('error', () => undefined)
  watch.stdin.on('error', () => undefined)
  watch.unref()
  return () => watch.kill('SIGKILL')
}

/** Windows has no process groups, so the program itself is signalled there. */
function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, signal)
  } catch {
    // ESRCH: the group no longer has members.
  }
}

/**
 * The program and its arguments. On Windows `npx` is a shell script, which cannot be started as a program, and a shell
 * would interpret its arguments again, so Node is started with the script that `npx` would run.
 */
export function commandLine(
  [command = '', ...args]: readonly string[],
  { platform, execPath }: { readonly platform: string; readonly execPath: string },
  exists: (file: string) => boolean = existsSync,
): readonly string[] {
  const { dir, base } = win32.parse(command)
  const [, name] = /^(npx|npm)(?:\.cmd)?$/i.exec(base) ?? []
  const node = win32.dirname(execPath)
  // A program with this name in another folder is not Node's.
  const isFromNode = name !== undefined && (dir === '' || win32.relative(dir, node) === '')
  if (platform !== 'win32' || !isFromNode) return [command, ...args]
  const script = win32.join(node, 'node_modules', 'npm', 'bin', `${name.toLowerCase()}-cli.js`)
  return exists(script) ? [execPath, script, ...args] : [command, ...args]
}
