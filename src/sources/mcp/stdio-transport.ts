import { type JSONRPCMessage, SdkError, SdkErrorCode, type Transport } from '@modelcontextprotocol/client'
import { checkLength, type LineCheck, LineReader } from '#kernel/base/bytes'
import { JsonScan } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { ChildGroup } from '#sources/common/child-group'
import { shownProgram } from '#sources/kit/source-facts'
import { CALL_BOUNDS, MAX_IN_A_BATCH, type MessageBounds, NoticeGate, PAGE_BOUNDS } from './answer-bounds.ts'
import { isWireArray, isWireObject } from './connection.ts'

/** How long a program gets to leave by itself, and then once more after being asked to. */
const GRACE_MS = 1000
const MAX_STDERR_LINE = 2000
/** Room for a stack trace, whose head says what happened. */
const KEPT_STDERR = 8_000
const MAX_STDERR_TAIL = 600
const CLOSED_BY_US = 'it was closed by us'

interface StdioTransportOptions extends ChildCommand {
  readonly maxMessageBytes: number
  readonly log: Logger
  /** Takes out what must not be logged. */
  redact(text: string): string
}

/**
 * MCP with a program in a process group of its own. (The official transport starts no group, so that what a
 * launcher like `npx` starts would outlive it.) `pid` and `stderr` tell the client that this is stdio.
 */
export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: Transport['onmessage']
  readonly stderr = null
  readonly #options: StdioTransportOptions
  readonly #lines: LineReader
  #group: ChildGroup | undefined
  #hasEnded = false
  #garbage = 0
  readonly #gate = new NoticeGate()
  /** Requests outside of calls that wait for their answers. */
  readonly #asked = new Set<string | number>()
  /** Messages of one chunk at most: while some wait, nothing more is read. */
  readonly #arrived: JSONRPCMessage[] = []
  #isHolding = false
  /** The end of its stderr, for the one who asks why it died. */
  #lastWords = ''
  #ending: string | undefined
  #unread: string | undefined

  constructor(options: StdioTransportOptions) {
    this.#options = options
    this.#lines = new LineReader(() => checkMessage(this.#boundsNow()))
  }

  get pid(): number | null {
    return this.#group?.child?.pid ?? null
  }

  /** Why it ended, in words for the operator; `undefined` while it lives. */
  get ending(): string | undefined {
    if (this.#ending === undefined) return undefined
    const { lastWords } = this
    return lastWords === '' ? this.#ending : `${this.#ending}; its last words: ${lastWords}`
  }

  /** Why it ended when that was not our doing. */
  get ownEnding(): string | undefined {
    return this.#ending === CLOSED_BY_US ? undefined : this.#ending
  }

  /** The message because of which it was ended: too much to be read. */
  get unread(): string | undefined {
    return this.#unread
  }

  /** Whether it left by itself and says that it did what it had to. */
  get isDone(): boolean {
    return this.ownEnding !== undefined && this.#group?.child?.exitCode === 0
  }

  /** What it wrote to stderr in the end, without the places in its code. */
  get lastWords(): string {
    return lastWordsIn(this.#lastWords)
  }

  async start(): Promise<void> {
    if (this.#group !== undefined) throw new Error('the program was started already')
    const { command, args, cwd, env } = this.#options
    this.#group = new ChildGroup({ command: [command, ...args], cwd, env, stdio: 'pipe' })
    const { child } = this.#group
    child.once('exit', (code, signal) =>
      this.#end(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`),
    )
    child.once('error', (error) =>
      this.#end(`it could not be started: ${startFailure(error, this.#options.command).message}`),
    )
    child.stdin?.on('error', (error) => this.onerror?.(error))
    child.stdout?.on('error', (error) => this.onerror?.(error))
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk))
    child.stderr?.on('error', () => undefined)
    child.stderr?.on('data', (chunk: Buffer) => this.#listen(chunk))
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', (error) => reject(startFailure(error, this.#options.command)))
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#group?.child?.stdin
    if (stdin === undefined || stdin === null || this.#hasEnded || !stdin.writable)
      throw new SdkError(SdkErrorCode.NotConnected, 'the program is not running')
    this.#note(message)
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

  /** MCP-101: its input ends, then it is asked, then it is killed with all it started. */
  async close(): Promise<void> {
    const group = this.#group
    if (group === undefined) return this.#end('it was never started')
    this.#ending ??= CLOSED_BY_US
    if (!group.hasExited) {
      group.child.stdin?.end()
      await group.exitWithin(GRACE_MS)
      await group.stop(GRACE_MS)
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
    this.onclose?.()
  }

  /** What is asked for outside of calls is lists and handshakes. */
  #note(message: JSONRPCMessage): void {
    if (!('method' in message)) return
    if ('id' in message && message.method !== 'tools/call') this.#asked.add(message.id)
    const { requestId } = message.params ?? {}
    if (message.method === 'notifications/cancelled' && isId(requestId)) this.#asked.delete(requestId)
  }

  #boundsNow(): MessageBounds {
    const { json, maxBytes } = this.#asked.size > 0 ? PAGE_BOUNDS : CALL_BOUNDS
    return { json, maxBytes: Math.min(maxBytes, this.#options.maxMessageBytes) }
  }

  #read(chunk: Buffer): void {
    try {
      for (const line of this.#lines.read(chunk)) this.#take(line.toString('utf8'))
    } catch (error) {
      this.#unread = error instanceof Error ? error.message : 'something unreadable'
      this.#ending = `it sent ${this.#unread}`
      this.onerror?.(error instanceof Error ? error : new Error(String(error)))
      void this.close()
    }
  }

  /** MCP-99: what is no message is skipped; servers print greetings and notes where they must not. */
  #take(line: string): void {
    if (line.trim() === '') return
    const messages = messagesIn(line)
    if (messages.length === 0) {
      this.#garbage += 1
      if (this.#garbage === 1)
        this.#options.log.warn('The MCP server writes other things than messages to its standard output.')
    }
    for (const message of messages) {
      if (!('method' in message) && message.id !== undefined) this.#asked.delete(message.id)
      if (this.#gate.lets(message)) this.#arrived.push(message)
    }
    if (!this.#isHolding) this.#deliver()
  }

  /** The client handles notifications a moment later than answers: without a pause, last progress would come too late. */
  #deliver(): void {
    this.#isHolding = false
    for (let message = this.#arrived.shift(); message !== undefined; message = this.#arrived.shift()) {
      try {
        this.onmessage?.(message)
      } catch (error) {
        this.onerror?.(error instanceof Error ? error : new Error(String(error)))
      }
      if ('id' in message) continue
      this.#isHolding = true
      this.#group?.child?.stdout?.pause()
      setImmediate(() => this.#deliver())
      return
    }
    this.#group?.child?.stdout?.resume()
  }

  #listen(chunk: Buffer): void {
    const text = this.#options.redact(chunk.toString('utf8'))
    this.#lastWords = `${this.#lastWords}${text}`.slice(-KEPT_STDERR)
    this.#options.log.debug({ stderr: text.slice(0, MAX_STDERR_LINE).trimEnd() }, 'The MCP server says')
  }
}

/** `Error: …`, `TypeError [ERR_X]: …`, `ModuleNotFoundError: …`, `Exception in thread "main" java.io.IOException: …` */
const NAMES_ERROR = /^(?:\S.* )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?: /
/** What runtimes put around an error: frames, lines of code, its members, and their own version. */
const AROUND_ERROR = /^(?:\s|[{}\])]*$|Node\.js v)/
const FRAME = /^\s+at \S/

/** From the line that names the last error on; of other texts the end, in whole lines where they are short enough. */
function lastWordsIn(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '' && !FRAME.test(line))
  const start = lines.findLastIndex((line) => NAMES_ERROR.test(line))
  if (start !== -1) {
    const said = lines.slice(start).filter((line) => !AROUND_ERROR.test(line))
    return said.join('\n').slice(0, MAX_STDERR_TAIL).trim()
  }
  const text = lines.join('\n')
  const end = text.slice(-MAX_STDERR_TAIL)
  const isCut = end.length < text.length && end.includes('\n')
  return (isCut ? end.slice(end.indexOf('\n')) : end).trim()
}

/** A line may be as long, and hold as much JSON, as the bounds of the moment it begins. */
function checkMessage({ maxBytes, json }: MessageBounds): LineCheck {
  const checkBytes = checkLength(maxBytes)
  const scan = new JsonScan(json)
  return (piece) => {
    scan.take(piece)
    const problem = checkBytes(piece) ?? scan.problem
    return problem === undefined ? undefined : `a message that ${problem}`
  }
}

/** A line of 2025-03-26 may hold several, but not so many that nobody else gets a turn. */
function messagesIn(line: string): readonly JSONRPCMessage[] {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return []
  }
  const all = isWireArray(value) ? value : [value]
  return all.length > MAX_IN_A_BATCH ? [] : all.filter(isMessage)
}

function isId(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}

function isMessage(value: unknown): value is JSONRPCMessage {
  if (!isWireObject(value) || value.jsonrpc !== '2.0') return false
  return typeof value.method === 'string' || 'result' in value || 'error' in value
}

/** The error of Node repeats the command and all arguments, and people write secrets into both. */
function startFailure(error: Error, command: string): Error {
  const shown = new Error(error.message.replaceAll(command, shownProgram(command)))
  return 'code' in error ? Object.assign(shown, { code: error.code }) : shown
}

interface ChildCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}
