import { checkLength, type LineCheck, LineReader } from '#kernel/base/bytes'
import { type JsonObject, JsonScan, parseJson } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { ChildGroup } from '#sources/common/child-group'
import { shownProgram } from '#sources/kit/source-facts'
import { NotConnected } from './errors.ts'
import { PAGE_BOUNDS, type Receiver, type Transport } from './transport.ts'

/**
 * The stdio transport: starts a program and exchanges messages over its standard input and output, one per line. `handshake.ts`
 * creates it.
 * Invariant: a line that exceeds the bounds ends the program, and all processes that the program started end with it.
 */

interface StdioOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly maxMessageBytes: number
  readonly log: Logger
  /** Removes secrets from a text that is logged. */
  redact(text: string): string
}

/** Time for a program to exit after its input ends, and again after a signal. */
const GRACE_MS = 1000
const MAX_LOGGED_STDERR = 2000
/** Enough for a stack trace, whose first line names the error. */
const MAX_KEPT_STDERR = 8_000
const MAX_STDERR_TAIL = 600
const CLOSED_BY_US = 'the server closed it'

export class StdioTransport implements Transport {
  readonly kind = 'stdio'
  readonly #options: StdioOptions
  readonly #lines: LineReader
  #group: ChildGroup | undefined
  #receiver: Receiver | undefined
  #hasEnded = false
  #hasWarned = false
  #stderr = ''
  readonly #stderrListeners = new Set<(text: string) => void>()
  #ending: string | undefined
  #excess: string | undefined

  constructor(options: StdioOptions) {
    this.#options = options
    this.#lines = new LineReader(() => this.#checkLine())
  }

  /** For operators: why the program ended, and the end of its stderr; `undefined` while it runs. */
  get ending(): string | undefined {
    if (this.#ending === undefined) return undefined
    const { stderrTail } = this
    return stderrTail === '' ? this.#ending : `${this.#ending}; its last output: ${stderrTail}`
  }

  /** Why the program ended; `undefined` while it runs and if `close` ended it. */
  get ownEnding(): string | undefined {
    return this.#ending === CLOSED_BY_US ? undefined : this.#ending
  }

  get excess(): string | undefined {
    return this.#excess
  }

  /** True if the program exited on its own with code 0. */
  get isDone(): boolean {
    return this.ownEnding !== undefined && this.#group?.child.exitCode === 0
  }

  onStderr(listener: (text: string) => void): () => void {
    this.#stderrListeners.add(listener)
    return () => this.#stderrListeners.delete(listener)
  }

  /** The end of the program's stderr, without stack frames. */
  get stderrTail(): string {
    return tailOf(this.#stderr)
  }

  async start(receiver: Receiver): Promise<void> {
    this.#receiver = receiver
    const { command, args, cwd, env } = this.#options
    this.#group = new ChildGroup({ command: [command, ...args], cwd, env, stdio: 'pipe' })
    const { child } = this.#group
    child.once('exit', (code, signal) =>
      this.#end(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`),
    )
    child.stdin?.on('error', () => undefined)
    child.stdout?.on('error', () => undefined)
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk))
    child.stderr?.on('error', () => undefined)
    child.stderr?.on('data', (chunk: Buffer) => this.#readStderr(chunk))
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', (error) => {
        const failure = startFailure(error, command)
        this.#end(`it could not be started: ${failure.message}`)
        reject(failure)
      })
    })
  }

  async send(message: JsonObject): Promise<void> {
    const stdin = this.#group?.child.stdin
    if (stdin === undefined || stdin === null || this.#hasEnded || !stdin.writable) throw new NotConnected()
    if (stdin.write(`${JSON.stringify(message)}\n`)) return
    await new Promise<void>((resolve) => {
      const go = (): void => {
        stdin.off('drain', go)
        stdin.off('close', go)
        resolve()
      }
      stdin.on('drain', go)
      stdin.on('close', go)
    })
  }

  /** Ends the program's input, then signals its process group, then kills it (MCP-101). */
  async close(): Promise<void> {
    this.#ending ??= CLOSED_BY_US
    if (this.#group?.hasExited === false) {
      this.#group.child.stdin?.end()
      await this.#group.exitWithin(GRACE_MS)
      await this.#group.stop(GRACE_MS)
    }
    this.#end(CLOSED_BY_US)
  }

  #end(why: string): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#ending ??= why
    const { stdin, stdout, stderr } = this.#group?.child ?? {}
    stdin?.destroy()
    stdout?.destroy()
    stderr?.destroy()
    this.#receiver?.lost()
  }

  #checkLine(): LineCheck {
    const { maxMessageBytes } = this.#options
    const { maxBytes, json } = this.#receiver?.bounds() ?? PAGE_BOUNDS
    const checkBytes = checkLength(Math.min(maxBytes, maxMessageBytes))
    const scan = new JsonScan(json)
    return (piece) => {
      scan.take(piece)
      const problem = checkBytes(piece) ?? scan.problem
      return problem === undefined ? undefined : `a message that ${problem}`
    }
  }

  #read(chunk: Buffer): void {
    try {
      for (const line of this.#lines.read(chunk)) this.#readLine(line.toString('utf8'))
    } catch (error) {
      this.#excess = error instanceof Error ? error.message : String(error)
      this.#ending = `it sent ${this.#excess}`
      void this.close()
    }
  }

  /** Skips a line that is not a message, because some servers print other text to their standard output (MCP-99). */
  #readLine(line: string): void {
    if (line.trim() === '' || this.#receiver?.receive(parseJson(line), undefined) !== 'unreadable') return
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#options.log.warn('The MCP server writes lines that are not messages to its standard output')
  }

  #readStderr(chunk: Buffer): void {
    const text = this.#options.redact(chunk.toString('utf8'))
    this.#stderr = `${this.#stderr}${text}`.slice(-MAX_KEPT_STDERR)
    const stderr = text.slice(0, MAX_LOGGED_STDERR).trimEnd()
    this.#options.log.debug({ stderr }, 'The MCP server wrote to its standard error')
    for (const listener of this.#stderrListeners) listener(stderr)
  }
}

/** `Error: …`, `TypeError [ERR_X]: …`, `ModuleNotFoundError: …`, `Exception in thread "main" java.io.IOException: …` */
const NAMES_ERROR = /^(?:\S.* )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?: /
/** Lines that runtimes print around an error: indented lines, brackets and the version of Node. */
const AROUND_ERROR = /^(?:\s|[{}\])]*$|Node\.js v)/
const FRAME = /^\s+at \S/

/** The text from the line that names the last error; without such a line, the end of the text, in whole lines if possible. */
function tailOf(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '' && !FRAME.test(line))
  const start = lines.findLastIndex((line) => NAMES_ERROR.test(line))
  if (start !== -1) {
    const relevant = lines.slice(start).filter((line) => !AROUND_ERROR.test(line))
    return relevant.join('\n').slice(0, MAX_STDERR_TAIL).trim()
  }
  const text = lines.join('\n')
  const end = text.slice(-MAX_STDERR_TAIL)
  const isCut = end.length < text.length && end.includes('\n')
  return (isCut ? end.slice(end.indexOf('\n')) : end).trim()
}

/** Shortens the command in Node's error, because it may contain secrets. */
function startFailure(error: Error, command: string): Error {
  const shown = new Error(error.message.replaceAll(command, shownProgram(command)))
  return 'code' in error ? Object.assign(shown, { code: error.code }) : shown
}
