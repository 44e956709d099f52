import { type FSWatcher, readdirSync, statSync, watch } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { type CommandContext, EXIT, type ExitCode } from '#cli/command'
import type { ServerProcess } from '#cli/io'
import { findConfig } from '#config/load'

/**
 * Restarts a server when a file changes, for `serve --watch` and `collet dev`: the restart loop and the watcher of a
 * folder. Invariant: at most one child process runs at a time, and a request to stop is handled before any change.
 */

/** A process that does not stop on request is killed after this time. */
const STOP_TIMEOUT_MS = 15_000

interface RestartOptions {
  /** `isAgain` is false for the first start. */
  start(isAgain: boolean): ServerProcess
  /** Reports each change, debounced; returns a function that stops watching. */
  watch(onChange: (file: string) => void): () => void
  onStop(listener: () => void): () => void
  note(line: string): void
  /** Whether the project can be served; the running server stays while it cannot. Default: a restart is tried. */
  check?(): Promise<boolean>
}

type WatchRequest = { readonly kind: 'stop' } | { readonly kind: 'change'; readonly file: string }
type Event = WatchRequest | { readonly kind: 'ended'; readonly code: number }

/**
 * Runs the server in a child process and starts a new one after each change. A child that ends by itself (a broken
 * config, a busy port) has printed the reason; the next change tries again.
 */
export async function keepRestarting({
  start,
  watch,
  onStop,
  note,
  check,
}: RestartOptions): Promise<ExitCode> {
  const pending = new PendingRequests()
  const endWatch = watch((file) => pending.add({ kind: 'change', file }))
  let child = start(false)
  const endListening = onStop(() => (pending.stopping ? child.kill() : pending.add({ kind: 'stop' })))
  try {
    for (;;) {
      const ended = child.ended.then((code): Event => ({ kind: 'ended', code }))
      let event: Event = await Promise.race([pending.next(), ended])
      if (event.kind === 'ended') {
        note(`The server ended with exit code ${event.code}. Waiting for a change to start it again.`)
        event = await pending.next()
      } else {
        if (event.kind === 'change' && check !== undefined) {
          pending.forgetChanges()
          const isValid = await check()
          if (!isValid) note(`${event.file} changed and cannot be served yet: the tools stay as they were.`)
          // The check may have missed a change that was made while it ran.
          if ((!isValid || pending.hasChanges) && !pending.stopping) continue
        }
        await endProcess(child)
      }
      if (event.kind === 'stop' || pending.stopping) return EXIT.ok
      pending.forgetChanges()
      if (event.kind === 'change') note(`${event.file} changed: restarting.`)
      child = start(true)
    }
  } finally {
    endWatch()
    endListening()
  }
}

/** Restarts the server at each change in the folder of its config or below. */
export async function restartOnChange(
  config: string | undefined,
  { environment, workingFolder, output, onStop }: CommandContext,
  options: Pick<RestartOptions, 'start' | 'check'>,
): Promise<ExitCode> {
  const folder = dirname(findConfig(workingFolder, config ?? environment.configFile))
  output.note(`Watching ${folder}`)
  const watch: RestartOptions['watch'] = (onChange) => watchFolder(folder, onChange)
  return await keepRestarting({ ...options, watch, onStop, note: (line) => output.note(line) })
}

async function endProcess(child: ServerProcess): Promise<void> {
  child.stop()
  const timer = setTimeout(() => child.kill(), STOP_TIMEOUT_MS)
  await child.ended
  clearTimeout(timer)
}

/** A queue of requests, in which a stop comes before any change. */
class PendingRequests {
  #waiting: WatchRequest[] = []
  #wake: (() => void) | undefined
  stopping = false

  get hasChanges(): boolean {
    return this.#waiting.some(({ kind }) => kind === 'change')
  }

  add(request: WatchRequest): void {
    if (request.kind === 'stop') {
      this.stopping = true
      this.#waiting.unshift(request)
    } else {
      this.#waiting.push(request)
    }
    this.#wake?.()
  }

  /** Returns the next request without removing it; only `forgetChanges` removes. */
  async next(): Promise<WatchRequest> {
    for (;;) {
      const [first] = this.#waiting
      if (first !== undefined) return first
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** A start includes every change made before it. */
  forgetChanges(): void {
    this.#waiting = this.#waiting.filter(({ kind }) => kind === 'stop')
  }
}

const DEBOUNCE_MS = 150
/** A project with more folders is probably a mistake, and watching all of them would be slow. */
const MAX_FOLDERS = 1_000
const SOURCE = /\.([cm]?[jt]s|json)$/
const IGNORED_FOLDERS: ReadonlySet<string> = new Set(['node_modules', 'dist', 'coverage'])

/**
 * Reports changed source files in a folder and below, once per burst. Ignores node_modules, build output and dot
 * folders (among them the data folder). Returns a function that stops watching.
 */
export function watchFolder(folder: string, onChange: (file: string) => void): () => void {
  const watchers = new Map<string, FSWatcher>()
  let timer: NodeJS.Timeout | undefined
  /** The first file of a burst. */
  let first: string | undefined

  const add = (path: string): void => {
    if (watchers.has(path) || watchers.size >= MAX_FOLDERS) return
    const watcher = watch(path, (_, name) => notice(path, name))
    // The watcher of a deleted folder fails.
    watcher.on('error', () => drop(path))
    watchers.set(path, watcher)
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory() && isWatched(entry.name)) add(join(path, entry.name))
    }
  }
  const drop = (path: string): void => {
    watchers.get(path)?.close()
    watchers.delete(path)
  }
  const notice = (path: string, name: string | null): void => {
    if (name === null) return
    const file = join(path, name)
    if (SOURCE.test(name)) remember(file)
    else if (isWatched(name) && isFolder(file)) addLater(file)
  }
  /** Watches a new folder. It may already contain files, or be deleted again. */
  const addLater = (path: string): void => {
    try {
      add(path)
      const source = readdirSync(path).find((name) => SOURCE.test(name))
      if (source !== undefined) remember(join(path, source))
    } catch {
      drop(path)
    }
  }
  const remember = (file: string): void => {
    first ??= relative(folder, file)
    clearTimeout(timer)
    timer = setTimeout(report, DEBOUNCE_MS)
  }
  const report = (): void => {
    const changed = first
    first = undefined
    if (changed !== undefined) onChange(changed)
  }

  add(folder)
  return () => {
    clearTimeout(timer)
    for (const path of [...watchers.keys()]) drop(path)
  }
}

function isWatched(name: string): boolean {
  return !name.startsWith('.') && !IGNORED_FOLDERS.has(name)
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
