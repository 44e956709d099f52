import { Worker } from 'node:worker_threads'
import { StoreError } from '#kernel/base/errors'
import { messageOf } from './connection.ts'

/**
 * The lease of this process's writer (rule 18). Its row in the database states until when the process counts as alive, on the
 * database's clock. A worker thread renews it, so that a busy event loop does not look dead, and stops renewing when the main
 * thread is blocked. An expired lease is never renewed: the process continues as another writer.
 */

/** The clock of the database in milliseconds, the only one that decides whether a lease has expired (rule 18). */
export const NOW_MS = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)'

export interface LeaseThreadData {
  readonly url: string
  readonly leaseMs: number
}

/** Names a lease to renew or, without memory, a lease to stop renewing. */
export interface LeaseOrder {
  readonly id: number
  /** 64-bit integers at the offsets of `SLOTS`. */
  readonly memory?: SharedArrayBuffer
}

/** Sent once the thread renews a lease, or when it could not read the database's clock. */
export interface LeaseReply {
  readonly id: number
  readonly error?: unknown
}

/** Memory shared by both threads. Times are milliseconds of `monotonicMs`, one clock for all threads of a process. */
export const SLOTS = {
  /** Raised regularly while the main thread works. */
  tick: 0,
  /** The number of the writer whose lease is held; 0 for none. */
  writer: 1,
  /** When the last successful renewal was sent. */
  renewedAt: 2,
  /** Until this time the process declares no writer dead. */
  quietUntil: 3,
  /** Time on the database's clock when `monotonicMs` was 0. */
  databaseZero: 4,
  /** The number of the writer whose lease has expired. */
  lost: 5,
} as const

const SLOT_BYTES = 8
const THREAD_FILE = import.meta.url.endsWith('.ts') ? './lease-worker.ts' : './lease-worker.js'
const TICKS_PER_LEASE = 10
/** No run starts if less than this fraction of a lease remains. */
const MARGIN = 0.2
/** Maximum difference from the database's clock, because times in records come from the servers' clocks. */
const MAX_CLOCK_OFFSET_MS = 1_000

export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

interface LeaseOptions extends LeaseThreadData {
  readonly wallMs: () => number
}

export class Lease {
  readonly #options: LeaseOptions
  readonly #slots = new BigInt64Array(new SharedArrayBuffer(Object.keys(SLOTS).length * SLOT_BYTES))
  readonly #thread: LeaseThread
  #started: Promise<number> | undefined
  #ticking: NodeJS.Timeout | undefined

  constructor(options: LeaseOptions) {
    this.#options = options
    this.#thread = LeaseThread.of(options)
  }

  /** Whether the lease of the current, or last, writer has expired. */
  get isLost(): boolean {
    const writer = this.#read('writer')
    return writer !== 0 && this.#read('lost') === writer
  }

  /** Other processes may have missed a renewal at the same time, so this process declares no writer dead for a while (rule 18). */
  get isQuiet(): boolean {
    return monotonicMs() < this.#read('quietUntil')
  }

  /** Resolves when the thread can renew. */
  async start(): Promise<void> {
    this.#ticking ??= setInterval(() => this.#tick(), this.#options.leaseMs / TICKS_PER_LEASE).unref()
    this.#started ??= this.#thread.add(this.#slots.buffer)
    try {
      await this.#started
    } catch (error) {
      this.#started = undefined
      throw error
    }
  }

  /** Renews this writer's lease from now on. The lease was granted at `sentAtMs` or later. */
  hold(writer: number, sentAtMs: number): void {
    if (this.isLost) this.#write('quietUntil', monotonicMs() + this.#options.leaseMs)
    this.#write('renewedAt', sentAtMs)
    this.#write('writer', writer)
    this.#tick()
  }

  /** Notes that the database refused a change by this writer because its lease had expired. */
  noteLost(): void {
    this.#write('lost', this.#read('writer'))
  }

  /** Whether a writer ever got a lease. */
  get isBegun(): boolean {
    return this.#read('writer') !== 0
  }

  /** Returns why no run may start now, although this process has a lease. */
  obstacle(): string | undefined {
    const { leaseMs, wallMs } = this.#options
    const nowMs = monotonicMs()
    const sinceMs = nowMs - this.#read('renewedAt')
    if (sinceMs > leaseMs * (1 - MARGIN)) {
      return `the lease of this process in PostgreSQL has not been renewed for ${sinceMs} ms; the database is slow or cannot be reached`
    }
    const zeroMs = this.#read('databaseZero')
    const offsetMs = zeroMs === 0 ? 0 : Math.round(wallMs() - zeroMs - nowMs)
    if (Math.abs(offsetMs) <= MAX_CLOCK_OFFSET_MS) return undefined
    const direction = offsetMs > 0 ? 'ahead of' : 'behind'
    return `the clock of this machine is ${Math.abs(offsetMs)} ms ${direction} PostgreSQL's; synchronize both with the same time server`
  }

  async close(): Promise<void> {
    clearInterval(this.#ticking)
    const id = await this.#started?.catch(() => undefined)
    if (id !== undefined) this.#thread.remove(id)
  }

  #tick(): void {
    Atomics.add(this.#slots, SLOTS.tick, 1n)
  }

  #read(slot: keyof typeof SLOTS): number {
    return Number(Atomics.load(this.#slots, SLOTS[slot]))
  }

  #write(slot: keyof typeof SLOTS, value: number): void {
    Atomics.store(this.#slots, SLOTS[slot], BigInt(Math.trunc(value)))
  }
}

/** How long a thread without leases is kept, for a store that is opened again. */
const LINGER_MS = 5_000
const RESTART_MS = 500

/** The thread that renews the leases of this process in one database. */
class LeaseThread {
  static readonly #threads = new Map<string, LeaseThread>()
  readonly #data: LeaseThreadData
  readonly #leases = new Map<number, SharedArrayBuffer>()
  readonly #starting = new Map<number, PromiseWithResolvers<number>>()
  #worker: Worker | undefined
  #lingering: NodeJS.Timeout | undefined
  #added = 0

  static of({ url, leaseMs }: LeaseOptions): LeaseThread {
    const name = `${leaseMs} ${url}`
    const thread = LeaseThread.#threads.get(name) ?? new LeaseThread({ url, leaseMs })
    LeaseThread.#threads.set(name, thread)
    return thread
  }

  private constructor(data: LeaseThreadData) {
    this.#data = data
  }

  /** Resolves with the id of the lease once the thread renews it. */
  add(memory: SharedArrayBuffer): Promise<number> {
    this.#added += 1
    const id = this.#added
    const starting = Promise.withResolvers<number>()
    this.#starting.set(id, starting)
    this.#leases.set(id, memory)
    clearTimeout(this.#lingering)
    if (this.#worker === undefined) this.#start()
    else this.#order({ id, memory })
    return starting.promise
  }

  remove(id: number): void {
    this.#leases.delete(id)
    this.#order({ id })
    if (this.#leases.size > 0) return
    this.#lingering = setTimeout(() => void this.#worker?.terminate(), LINGER_MS).unref()
  }

  #start(): void {
    const worker = new Worker(new URL(THREAD_FILE, import.meta.url), { workerData: this.#data })
    worker.on('message', (reply: LeaseReply) => this.#receive(reply))
    worker.once('error', (error) => this.#giveUp(error))
    worker.once('exit', () => this.#restart())
    // This comes last, because adding a message listener would keep the process alive again.
    worker.unref()
    this.#worker = worker
    for (const [id, memory] of this.#leases) this.#order({ id, memory })
  }

  #order(order: LeaseOrder): void {
    this.#worker?.postMessage(order)
  }

  #receive({ id, error }: LeaseReply): void {
    const starting = this.#starting.get(id)
    this.#starting.delete(id)
    if (error === undefined) {
      starting?.resolve(id)
      return
    }
    this.remove(id)
    // Errors from another thread lose their class. Without a lease nothing can be written, which is a failure of the store.
    starting?.reject(new StoreError('full', `PostgreSQL granted this process no lease: ${messageOf(error)}`))
  }

  #giveUp(error: unknown): void {
    for (const id of [...this.#starting.keys()]) this.#receive({ id, error })
  }

  /** Starts the thread again for the leases that it renewed. */
  #restart(): void {
    this.#worker = undefined
    this.#giveUp(new Error('the thread that renews leases has ended'))
    const again = () => {
      if (this.#worker === undefined && this.#leases.size > 0) this.#start()
    }
    setTimeout(again, RESTART_MS).unref()
  }
}
