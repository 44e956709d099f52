/**
 * Collects what is logged about calls: lines of `ctx.log`, errors that tools threw, and stderr of commands. Each line of the server's log
 * that names a record is kept with that call, at any level, and written once a second. A call that logs nothing costs nothing. The number
 * and the length of lines are limited, so a tool cannot fill the store with its log.
 */
import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import type { Logger, WriteLine } from '#kernel/base/logger'
import { fieldsText } from '#server/telemetry/log'
import type { CallLogStore, LoggedLines, LogLevel, LogLine } from '#store/calls/call-logs'

const WRITE_EVERY_MS = 1_000
/** Per call and attempt in this process; later lines are dropped and counted. */
const MAX_LINES = 200
const MAX_LINE_CHARACTERS = 4_000
/** Calls with lines between two writes; lines of further calls are dropped. */
const MAX_CALLS = 1_000
const MAX_KNOWN = 10_000

interface CallLogsOptions {
  readonly store: CallLogStore
  readonly clock: Clock
  readonly log: Logger
}

export class CallLogs {
  /** Writes to the server's log, and keeps the lines that name a call. */
  readonly log: Logger
  readonly #options: CallLogsOptions
  readonly #counts = new BoundedMap<string, number>({ entries: MAX_KNOWN })
  #lines = new Map<string, LogLine[]>()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(options: CallLogsOptions) {
    this.#options = options
    const { log } = options
    const write =
      (level: LogLevel): WriteLine =>
      (line: object | string, message?: string) => {
        if (typeof line === 'string') log[level](line)
        else {
          log[level](line, message)
          if ('record' in line && typeof line.record === 'string')
            this.#keep(line.record, level, line, message)
        }
      }
    this.log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
  }

  /** Writes the lines that are not written yet, so that a reader finds those of a call that just ended. */
  async flush(): Promise<void> {
    this.#write()
    await this.#writing
  }

  async close(): Promise<void> {
    await this.flush()
  }

  #keep(record: string, level: LogLevel, fields: object, message: string | undefined): void {
    const known = this.#lines.get(record)
    const count = (this.#counts.get(record) ?? 0) + 1
    if (count > MAX_LINES || (known === undefined && this.#lines.size >= MAX_CALLS)) return
    this.#counts.set(record, count)
    const text = count === MAX_LINES ? 'Further lines are left out.' : fieldsText(fields, message, OWN_FIELDS)
    const shown =
      text.length > MAX_LINE_CHARACTERS ? `${text.slice(0, MAX_LINE_CHARACTERS).toWellFormed()}…` : text
    const line = { atMs: this.#options.clock.nowMs(), level, text: shown }
    if (known === undefined) this.#lines.set(record, [line])
    else known.push(line)
    this.#timer ??= setTimeout(() => this.#write(), WRITE_EVERY_MS).unref()
  }

  #write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { store, clock, log } = this.#options
    const atMs = clock.nowMs()
    const logged: readonly LoggedLines[] = [...this.#lines].map(([record, lines]) => ({
      record,
      atMs,
      lines,
    }))
    this.#lines = new Map()
    if (logged.length === 0) return
    this.#writing = this.#writing.then(async () => {
      try {
        await store.add(logged)
      } catch (err) {
        log.error({ err, calls: logged.length }, 'logs of calls could not be written')
      }
    })
  }
}

/** Fields that the page of the call shows elsewhere. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['record', 'tool'])
