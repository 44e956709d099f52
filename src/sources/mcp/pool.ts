import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { type MaybePromise, untilAborted } from '#kernel/base/waiting'
import { Semaphore } from '#stages/limits/limits'
import type { McpConnection } from './connection.ts'
import { unreachable } from './errors.ts'

/**
 * The connections of one source: opened on demand, shared by users with the same key, closed when idle, and limited in number.
 * Also the limit on the processes of all sources, and the pauses after failures. `upstream.ts` has one pool for its server.
 * Invariant: a connection that was opened is closed exactly once.
 */

/** A connection in use, until it is released. */
export interface Lease {
  readonly connection: McpConnection
  release(): void
}

interface LeaseRequest {
  readonly key: string
  readonly signal: AbortSignal
  /** Opens a connection even during the pause after failures. */
  readonly ignoresBackoff?: boolean
  open(signal: AbortSignal): Promise<McpConnection>
}

interface PoolOptions {
  readonly maxConnections: number
  readonly idleMs: number
  readonly connectTimeoutMs: number
  readonly clock: Clock
  readonly backoff: Backoff
  /** `undefined` if connections are not processes. */
  readonly processes: ProcessLimit | undefined
  /** True for a connection that stays open without users, because it listens for changes. */
  isKept(key: string, connection: McpConnection): boolean
}

interface Entry {
  readonly key: string
  readonly opening: Promise<McpConnection>
  connection: McpConnection | undefined
  users: number
  lastUsedMs: number
  idling: NodeJS.Timeout | undefined
}

export class ConnectionPool implements ProcessHolder {
  readonly #options: PoolOptions
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new AbortController()
  readonly #ended = new WeakSet<McpConnection>()
  readonly #endings = new Set<Promise<void>>()
  /** Entries that take no new users but still have some. */
  readonly #retired = new Set<Entry>()
  /** The number of connections that are open, opening or closing. */
  #count = 0

  constructor(options: PoolOptions) {
    this.#options = options
    options.processes?.join(this)
  }

  get size(): number {
    return this.#count
  }

  /** Synchronous if the connection is already open. */
  lease(request: LeaseRequest): MaybePromise<Lease> {
    if (this.#closing.signal.aborted) throw closed()
    request.signal.throwIfAborted()
    const entry = this.#openEntry(request.key) ?? this.#start(request)
    entry.users += 1
    const { connection } = entry
    return connection === undefined ? this.#opened(entry, request.signal) : this.#leaseOf(entry, connection)
  }

  async #opened(entry: Entry, signal: AbortSignal): Promise<Lease> {
    try {
      return this.#leaseOf(entry, await untilAborted(entry.opening, signal))
    } catch (error) {
      this.#release(entry)
      throw error
    }
  }

  #leaseOf(entry: Entry, connection: McpConnection): Lease {
    return { connection, release: once(() => this.#release(entry)) }
  }

  /** Removes a connection whose server is gone, and returns its key. */
  lost(connection: McpConnection): string | undefined {
    const entry = this.#entryOf(connection)
    if (entry !== undefined) this.#forget(entry)
    void this.#end(connection)
    return entry?.key
  }

  /** Gives the connection no new users, and closes it when the last one has released it. */
  retire(connection: McpConnection): void {
    const entry = this.#entryOf(connection)
    if (entry === undefined) return
    this.#forget(entry)
    if (entry.users === 0) void this.#end(connection)
    else this.#retired.add(entry)
  }

  /** Retires all connections whose key is selected. */
  retireAll(isSelected: (key: string) => boolean): void {
    for (const entry of [...this.#entries.values()]) {
      if (!isSelected(entry.key)) continue
      this.#forget(entry)
      if (entry.users > 0) this.#retired.add(entry)
      else entry.opening.then((connection) => void this.#end(connection)).catch(() => undefined)
    }
  }

  async closeIdle(): Promise<boolean> {
    const idle = [...this.#entries.values()].filter(
      ({ users, connection }) => users === 0 && connection !== undefined,
    )
    const oldest = idle.sort((left, right) => left.lastUsedMs - right.lastUsedMs)[0]
    if (oldest === undefined) return false
    await this.#closeEntry(oldest)
    return true
  }

  async close(): Promise<void> {
    this.#closing.abort(closed())
    this.#options.processes?.leave(this)
    const entries = [...this.#entries.values(), ...this.#retired]
    await Promise.all(
      entries.map(async (entry) => {
        await entry.opening.catch(() => undefined)
        await this.#closeEntry(entry)
      }),
    )
    await Promise.all(this.#endings)
  }

  #entryOf(connection: McpConnection): Entry | undefined {
    return [...this.#entries.values()].find((entry) => entry.connection === connection)
  }

  #openEntry(key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.connection === undefined || entry.connection.isOpen) return entry
    this.#forget(entry)
    void this.#end(entry.connection)
    return undefined
  }

  #start(request: LeaseRequest): Entry {
    const { backoff, clock } = this.#options
    const { waitMs } = backoff
    if (waitMs > 0 && request.ignoresBackoff !== true) throw unreachable({ retryAfterMs: waitMs })
    const entry: Entry = {
      key: request.key,
      opening: this.#open(request),
      connection: undefined,
      users: 0,
      lastUsedMs: clock.monotonicMs(),
      idling: undefined,
    }
    this.#entries.set(entry.key, entry)
    entry.opening.then(
      (connection) => {
        entry.connection = connection
      },
      () => this.#forget(entry),
    )
    return entry
  }

  async #open({ open }: LeaseRequest): Promise<McpConnection> {
    const { processes, connectTimeoutMs } = this.#options
    await this.#makeRoom()
    this.#count += 1
    let isCounted = false
    try {
      isCounted = processes === undefined || (await processes.take())
      if (!isCounted) throw unreachable({ developerMessage: 'The maximum number of processes is running.' })
      const late = AbortSignal.timeout(connectTimeoutMs)
      return await open(AbortSignal.any([late, this.#closing.signal]))
    } catch (error) {
      this.#count -= 1
      if (isCounted) processes?.give()
      throw error
    }
  }

  async #makeRoom(): Promise<void> {
    const { maxConnections } = this.#options
    while (this.#count >= maxConnections) {
      if (await this.closeIdle()) continue
      const developerMessage = `All ${maxConnections} connections are in use (maxConnections).`
      throw unreachable({ developerMessage, retryAfterMs: 1000 })
    }
    this.#closing.signal.throwIfAborted()
  }

  #release(entry: Entry): void {
    entry.users -= 1
    const { idleMs, clock, isKept } = this.#options
    entry.lastUsedMs = clock.monotonicMs()
    if (entry.users > 0 || entry.connection === undefined) return
    if (this.#retired.delete(entry)) void this.#end(entry.connection)
    if (this.#entries.get(entry.key) !== entry || isKept(entry.key, entry.connection)) return
    if (entry.idling === undefined) this.#watchIdle(entry, idleMs)
  }

  /** Starts the timer that closes an idle connection. Later uses do not restart it: it checks when the last use was. */
  #watchIdle(entry: Entry, afterMs: number): void {
    const { idleMs, clock } = this.#options
    entry.idling = setTimeout(() => {
      entry.idling = undefined
      if (entry.users > 0) return
      const leftMs = entry.lastUsedMs + idleMs - clock.monotonicMs()
      if (leftMs > 0) this.#watchIdle(entry, leftMs)
      else void this.#closeEntry(entry)
    }, afterMs)
    entry.idling.unref()
  }

  #forget(entry: Entry): void {
    clearTimeout(entry.idling)
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key)
  }

  async #closeEntry(entry: Entry): Promise<void> {
    this.#forget(entry)
    if (entry.connection !== undefined) await this.#end(entry.connection)
  }

  async #end(connection: McpConnection): Promise<void> {
    if (this.#ended.has(connection)) return
    this.#ended.add(connection)
    const ending = connection.close().finally(() => {
      this.#endings.delete(ending)
      this.#count -= 1
      this.#options.processes?.give()
    })
    this.#endings.add(ending)
    await ending
  }
}

function once(run: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    run()
  }
}

function closed() {
  return fault('upstream_failed', 'The source of this tool was closed.', { canRetry: true })
}

interface ProcessHolder {
  /** Closes the longest idle connection; `false` if all are in use. */
  closeIdle(): Promise<boolean>
}

/** Default limit for all sources together. */
const MAX_PROCESSES = 256

/** A hard limit on processes. When another process is needed, an idle one is ended. */
export class ProcessLimit {
  readonly #running: Semaphore
  readonly #holders = new Set<ProcessHolder>()

  constructor(limit: number = MAX_PROCESSES) {
    this.#running = new Semaphore(() => limit)
  }

  get taken(): number {
    return this.#running.taken
  }

  join(holder: ProcessHolder): void {
    this.#holders.add(holder)
  }

  leave(holder: ProcessHolder): void {
    this.#holders.delete(holder)
  }

  /** `false` if the limit is reached and no process is idle. */
  async take(): Promise<boolean> {
    while (!this.#running.tryEnter()) if (!(await this.#makeRoom())) return false
    return true
  }

  give(): void {
    this.#running.leave()
  }

  async #makeRoom(): Promise<boolean> {
    for (const holder of this.#holders) if (await holder.closeIdle()) return true
    return false
  }
}

export const ALL_PROCESSES = new ProcessLimit()

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 60_000
/** A connection that lived this long does not count as a failure when it is lost. */
const STEADY_MS = 30_000

/** The pause after failures of a server, which doubles with each failure up to a minute. */
export class Backoff {
  readonly #clock: Clock
  #failures = 0
  #untilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The rest of the pause; 0 if a connection may be opened now. */
  get waitMs(): number {
    return Math.max(0, Math.ceil(this.#untilMs - this.#clock.monotonicMs()))
  }

  get failures(): number {
    return this.#failures
  }

  failed(): void {
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures, 16))
    this.#failures += 1
    this.#untilMs = this.#clock.monotonicMs() + pauseMs
  }

  /** Records the loss of a connection. A short-lived one counts as a failure. */
  died(livedMs: number): void {
    if (livedMs < STEADY_MS) this.failed()
    else this.succeeded()
  }

  succeeded(): void {
    this.#failures = 0
    this.#untilMs = 0
  }
}
