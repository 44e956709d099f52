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
  /** What node is started with in one of its lives; port 0 in the first. */
  args(port: number, life: number): readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Where it says what went wrong: a file, or the terminal of the driver. */
  readonly errors: number | 'inherit'
  /** Whether it is started again when it ends before it listens, as a supervisor does while the database is away. */
  readonly isSupervised: boolean
}

export interface CrashServerOptions {
  /** Store and effects live here. */
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

/** One server under test: the same port and store through all its lives. */
export class ServerProcess {
  readonly #program: Program
  #child: ChildProcess | undefined
  #port = 0
  #lives = 0
  /** Settled when a life listens; the same promise until then, however many lives that takes. */
  #ready = pending()
  #listening = false

  constructor(program: Program) {
    this.#program = program
  }

  /** The address, once the server listens: during a restart this waits for the next life. */
  url(): Promise<string> {
    return this.#ready.promise
  }

  get listening(): boolean {
    return this.#listening
  }

  /** Begins a life. */
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

  /** Stops the process where it stands, with everything it holds, until `resume`. */
  pause(): void {
    this.#child?.kill('SIGSTOP')
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
  }

  /** Kills this child, and only it, at once; resolves when it is gone. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Lets the server finish and leave; does nothing when it is not running. */
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
    // A process that is stopped hears nothing else.
    child.kill('SIGCONT')
    await exited.catch(() => child.kill('SIGKILL'))
  }

  /** Everyone who waits for the server, now or later, learns that it is broken. */
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
