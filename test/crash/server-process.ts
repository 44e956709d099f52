import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const START_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 20_000
const SERVER_FILE = fileURLToPath(new URL('server.ts', import.meta.url))

export interface ServerOptions {
  /** Store and effects live here. */
  readonly folder: string
  readonly seed: number
  /** Base64 of 32 bytes. */
  readonly masterKey: string
  readonly apiKey: string
}

/** One server under test: the same port and store through all its lives. */
export class ServerProcess {
  readonly #options: ServerOptions
  #child: ChildProcess | undefined
  #port = 0
  #lives = 0
  /** Settled when a life listens; the same promise until then, however many lives that takes. */
  #ready = pending()
  #listening = false

  constructor(options: ServerOptions) {
    this.#options = options
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
    createInterface({ input: child.stdout }).once('line', (line) => {
      clearTimeout(timer)
      if (this.#child === child) this.#listen(line)
    })
    child.once('exit', (code) => {
      clearTimeout(timer)
      if (this.#child === child) this.#fail(`ended by itself with code ${code}`)
    })
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
    const { folder, seed, masterKey, apiKey } = this.#options
    const nodeOptions = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const args = [`--folder=${folder}`, `--port=${this.#port}`, `--seed=${seed + this.#lives}`]
    return spawn(process.execPath, [...nodeOptions, SERVER_FILE, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, COLLET_KEY: masterKey, CRASH_API_KEY: apiKey },
    })
  }

  #listen(line: string): void {
    const port = /^ready (\d+)$/.exec(line)?.[1]
    if (port === undefined) {
      this.#fail(`said "${line}" instead of "ready PORT"`)
      return
    }
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
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_LIMIT_MS) })
    child.kill(signal)
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

/** A promise that somebody settles later, and that nobody has to look at. */
function pending(): PromiseWithResolvers<string> {
  const settler = Promise.withResolvers<string>()
  settler.promise.catch(() => {})
  return settler
}
