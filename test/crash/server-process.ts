import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const START_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 20_000
const SUPERVISOR_MS = 250
const READY = /(?:^ready |http:\/\/127\.0\.0\.1:)(\d+)/
const SERVER_FILE = fileURLToPath(new URL('server.ts', import.meta.url))

/** The program of a server. */
export interface Program {
  /** Arguments of node for one start; port 0 for the first. */
  args(port: number, life: number): readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Destination of its stderr: a file, or the terminal of the driver. */
  readonly errors: number | 'inherit'
  /** Whether to restart it if it ends before it listens, as a supervisor does while the database is unavailable. */
  readonly isSupervised: boolean
}

export interface CrashServerOptions {
  /** Folder of the store and the log of effects. */
  readonly folder: string
  readonly seed: number
  /** Base64 of 32 bytes. */
  readonly masterKey: string
  readonly apiKey: string
}

/** The server of the crash test, on a SQLite file. */
export function crashServer({ folder, seed, masterKey, apiKey }: CrashServerOptions): Program {
  return {
    args: (port, life) => [SERVER_FILE, `--folder=${folder}`, `--port=${port}`, `--seed=${seed + life}`],
    env: { COLLET_KEY: masterKey, CRASH_API_KEY: apiKey },
    errors: 'inherit',
    isSupervised: false,
  }
}

/** One server under test: every restart uses the same port and store. */
export class ServerProcess {
  readonly #program: Program
  #child: ChildProcess | undefined
  #port = 0
  #lives = 0
  /** Settled when the server listens; the same promise until then, however many restarts that takes. */
  #ready = pending()
  #listening = false

  constructor(program: Program) {
    this.#program = program
  }

  /** The address, once the server listens; waits during a restart. */
  url(): Promise<string> {
    return this.#ready.promise
  }

  get listening(): boolean {
    return this.#listening
  }

  /** Starts the process. */
  start(): void {
    this.#lives += 1
    const child = this.#spawn()
    this.#child = child
    const timer = setTimeout(() => this.#fail('did not listen in time'), START_LIMIT_MS).unref()
    createInterface({ input: requireStream(child.stdout) }).on('line', (line) => {
      const port = READY.exec(line)?.[1]
      if (port === undefined || this.#child !== child) return
      clearTimeout(timer)
      this.#listen(port)
    })
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      if (this.#child !== child) return
      if (this.#program.isSupervised && !this.#listening) {
        setTimeout(() => {
          if (this.#child === child) this.start()
        }, SUPERVISOR_MS)
      } else this.#fail(`ended by itself with ${code ?? signal}`)
    })
  }

  /** Suspends the process, which keeps its locks and connections, until `resume`. */
  pause(): void {
    this.#child?.kill('SIGSTOP')
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
  }

  /** Kills only this child, at once; resolves when it has ended. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Stops the server gracefully; does nothing if it is not running. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
  }

  #spawn() {
    const nodeOptions = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    return spawn(process.execPath, [...nodeOptions, ...this.#program.args(this.#port, this.#lives)], {
      stdio: ['pipe', 'pipe', this.#program.errors],
      env: { ...process.env, ...this.#program.env },
    })
  }

  #listen(port: string): void {
    this.#port = Number(port)
    this.#listening = true
    this.#ready.resolve(`http://127.0.0.1:${port}`)
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child
    if (child === undefined) return
    this.#child = undefined
    if (this.#listening) this.#ready = pending()
    this.#listening = false
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_LIMIT_MS) })
    child.kill(signal)
    // A suspended process handles no other signal.
    child.kill('SIGCONT')
    await exited.catch(() => child.kill('SIGKILL'))
  }

  /** Fails every current and later wait for the server. */
  #fail(reason: string): void {
    this.#child?.kill('SIGKILL')
    this.#child = undefined
    const error = new Error(`The server ${reason}, in life ${this.#lives}.`)
    this.#listening = false
    this.#ready.reject(error)
    this.#ready = pending()
    this.#ready.reject(error)
  }
}

function requireStream<T>(stream: T | null): T {
  if (stream === null) throw new Error('The child has no standard output.')
  return stream
}

/** A promise that is settled later and may be left unawaited. */
function pending(): PromiseWithResolvers<string> {
  const settler = Promise.withResolvers<string>()
  settler.promise.catch(() => {})
  return settler
}
