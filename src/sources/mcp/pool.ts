import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { untilAborted } from '#kernel/base/waiting'
import { Semaphore } from '#stages/limits/limits'
import type { Connection } from './connection.ts'
import { unreachable } from './errors.ts'
import type { Backoff } from './upstream.ts'

/** A connection that is in use; given back when that ends. */
export interface Lease {
  readonly connection: Connection
  release(): void
}

interface LeaseRequest {
  readonly key: string
  readonly signal: AbortSignal
  /** Also while the upstream is left alone after failures. */
  readonly insists?: boolean
  open(signal: AbortSignal): Promise<Connection>
}

interface PoolOptions {
  readonly maxConnections: number
  readonly idleMs: number
  readonly connectTimeoutMs: number
  readonly clock: Clock
  readonly backoff: Backoff
  /** `undefined` when connections are no processes. */
  readonly processes: ProcessLimit | undefined
  /** One that must not be ended for idling: it listens for changes. */
  isKept(key: string, connection: Connection): boolean
}

interface Entry {
  readonly key: string
  readonly opening: Promise<Connection>
  connection: Connection | undefined
  users: number
  lastUsedMs: number
  idling: NodeJS.Timeout | undefined
}

/** The connections of one source: made when needed, shared by those with the same key, ended when idle, capped. */
export class ConnectionPool implements ProcessHolder {
  readonly #options: PoolOptions
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new AbortController()
  readonly #ended = new WeakSet<Connection>()
  /** Those that are being ended. */
  readonly #endings = new Set<Promise<void>>()
  /** Those that take nobody any more but still have users. */
  readonly #leaving = new Set<Entry>()
  /** Open, opening and closing. */
  #count = 0

  constructor(options: PoolOptions) {
    this.#options = options
    options.processes?.join(this)
  }

  get size(): number {
    return this.#count
  }

  async lease(request: LeaseRequest): Promise<Lease> {
    if (this.#closing.signal.aborted) throw closed()
    request.signal.throwIfAborted()
    const entry = this.#living(request.key) ?? this.#start(request)
    entry.users += 1
    clearTimeout(entry.idling)
    try {
      const connection = await untilAborted(entry.opening, request.signal)
      return { connection, release: once(() => this.#release(entry)) }
    } catch (error) {
      this.#release(entry)
      throw error
    }
  }

  /** The other side has gone. Gives the key that the connection had. */
  lost(connection: Connection): string | undefined {
    const entry = this.#entryOf(connection)
    if (entry !== undefined) this.#forget(entry)
    void this.#end(connection)
    return entry?.key
  }

  /** Takes no more users; ends when the last one has left. */
  retire(connection: Connection): void {
    const entry = this.#entryOf(connection)
    if (entry === undefined) return
    this.#forget(entry)
    if (entry.users === 0) void this.#end(connection)
    else this.#leaving.add(entry)
  }

  /** All that have one of these keys take no more users. */
  retireAll(isMeant: (key: string) => boolean): void {
    for (const entry of [...this.#entries.values()]) {
      if (!isMeant(entry.key)) continue
      this.#forget(entry)
      if (entry.users > 0) this.#leaving.add(entry)
      else entry.opening.then((connection) => void this.#end(connection)).catch(() => undefined)
    }
  }

  async releaseIdle(): Promise<boolean> {
    const idle = [...this.#entries.values()].filter(
      ({ users, connection }) => users === 0 && connection !== undefined,
    )
    const oldest = idle.sort((left, right) => left.lastUsedMs - right.lastUsedMs)[0]
    if (oldest === undefined) return false
    await this.#retire(oldest)
    return true
  }

  async close(): Promise<void> {
    this.#closing.abort(closed())
    this.#options.processes?.leave(this)
    const entries = [...this.#entries.values(), ...this.#leaving]
    await Promise.all(
      entries.map(async (entry) => {
        await entry.opening.catch(() => undefined)
        await this.#retire(entry)
      }),
    )
    await Promise.all(this.#endings)
  }

  #entryOf(connection: Connection): Entry | undefined {
    return [...this.#entries.values()].find((entry) => entry.connection === connection)
  }

  #living(key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.connection === undefined || entry.connection.isOpen) return entry
    this.#forget(entry)
    void this.#end(entry.connection)
    return undefined
  }

  #start(request: LeaseRequest): Entry {
    const { backoff, clock } = this.#options
    const { waitMs } = backoff
    if (waitMs > 0 && request.insists !== true) throw unreachable({ retryAfterMs: waitMs })
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

  async #open({ open }: LeaseRequest): Promise<Connection> {
    const { processes, connectTimeoutMs } = this.#options
    await this.#makeRoom()
    this.#count += 1
    let isCounted = false
    try {
      isCounted = processes === undefined || (await processes.take())
      if (!isCounted) throw unreachable({ developerMessage: 'All places for processes are taken.' })
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
      if (await this.releaseIdle()) continue
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
    if (this.#leaving.delete(entry)) void this.#end(entry.connection)
    if (this.#entries.get(entry.key) !== entry || isKept(entry.key, entry.connection)) return
    entry.idling = setTimeout(() => void this.#retire(entry), idleMs)
    entry.idling.unref()
  }

  #forget(entry: Entry): void {
    clearTimeout(entry.idling)
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key)
  }

  async #retire(entry: Entry): Promise<void> {
    this.#forget(entry)
    if (entry.connection !== undefined) await this.#end(entry.connection)
  }

  async #end(connection: Connection): Promise<void> {
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
  return fault('upstream_failed', 'The server is stopping.', { canRetry: true })
}

/** A pool that has processes and can end one that is not in use. */
interface ProcessHolder {
  /** Ends one that idles; `false` when all of its processes are in use. */
  releaseIdle(): Promise<boolean>
}

/** How many processes all sources together may have (pain 9: elsewhere they leak by the thousand). */
const MAX_PROCESSES = 256

/** A hard cap on processes; one that idles gives way to one that is needed. */
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

  /** `false` when there is no room, not even by ending idle ones. */
  async take(): Promise<boolean> {
    while (!this.#running.tryEnter()) if (!(await this.#makeRoom())) return false
    return true
  }

  give(): void {
    this.#running.leave()
  }

  async #makeRoom(): Promise<boolean> {
    for (const holder of this.#holders) if (await holder.releaseIdle()) return true
    return false
  }
}

export const ALL_PROCESSES = new ProcessLimit()
