import { Worker } from 'node:worker_threads'
import { StoreError } from '#kernel/base/errors'
import { messageOf } from './connection.ts'

/** The clock of the database in milliseconds: the only one that says whether a lease has run out (rule 18). */
export const NOW_MS = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)'

/** What the thread that renews leases is started with. */
export interface LeaseThreadData {
  readonly url: string
  readonly leaseMs: number
}

/** A lease to look after, or, without memory, one to forget. */
export interface LeaseOrder {
  readonly id: number
  /** Whole numbers of 64 bits; `PLACES` says what is where. */
  readonly memory?: SharedArrayBuffer
}

/** What the thread says once it looks after a lease, or could not ask the database what time it is. */
export interface LeaseReply {
  readonly id: number
  readonly error?: unknown
}

/** What both threads look at. Times are milliseconds of `monotonicMs`, which is one clock for all threads of a process. */
export const PLACES = {
  /** Raised while the main thread does its work. */
  tick: 0,
  /** The number of the writer whose lease is held; 0 for none. */
  writer: 1,
  /** When the last renewal that succeeded was sent. */
  renewedAt: 2,
  /** Until when nobody is declared dead. */
  quietUntil: 3,
  /** What the clock of the database showed when `monotonicMs` was 0. */
  databaseZero: 4,
  /** The number of the writer whose lease was found to have run out. */
  lost: 5,
} as const

const PLACE_BYTES = 8
const THREAD_FILE = import.meta.url.endsWith('.ts') ? './lease-worker.ts' : './lease-worker.js'
const TICKS_PER_LEASE = 10
/** No run starts when less than this part of a lease is left. */
const MARGIN = 0.2
/** Times in records come from the clocks of machines. */
const MAX_CLOCK_OFFSET_MS = 1_000

export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

interface LeaseOptions {
  readonly url: string
  readonly leaseMs: number
  /** The clock of this machine. */
  readonly wallMs: () => number
}

/**
 * How other replicas see that this process lives: its writer's row says until when, on the clock of the database. A thread
 * of its own renews it, so that a busy event loop does not look like death, and stops when the main thread has stopped.
 * A lease that ran out is gone for good: the process goes on as another writer.
 */
export class Lease {
  readonly #options: LeaseOptions
  readonly #places = new BigInt64Array(new SharedArrayBuffer(Object.keys(PLACES).length * PLACE_BYTES))
  readonly #thread: LeaseThread
  #started: Promise<number> | undefined
  #ticking: NodeJS.Timeout | undefined

  constructor(options: LeaseOptions) {
    this.#options = options
    this.#thread = LeaseThread.of(options)
  }

  /** Whether the writer we hold, or held last, can do nothing any more. */
  get isLost(): boolean {
    const writer = this.#read('writer')
    return writer !== 0 && this.#read('lost') === writer
  }

  /** Rule 18: who missed a renewal may have missed it together with others, and declares nobody dead for a while. */
  get isQuiet(): boolean {
    return monotonicMs() < this.#read('quietUntil')
  }

  /** Resolves when the thread can renew; at once when it already can. */
  async start(): Promise<void> {
    this.#ticking ??= setInterval(() => this.#tick(), this.#options.leaseMs / TICKS_PER_LEASE).unref()
    this.#started ??= this.#thread.add(this.#places.buffer)
    try {
      await this.#started
    } catch (error) {
      this.#started = undefined
      throw error
    }
  }

  /** From now on this writer's lease is renewed; it was given at `sentAtMs` or later. */
  hold(writer: number, sentAtMs: number): void {
    if (this.isLost) this.#write('quietUntil', monotonicMs() + this.#options.leaseMs)
    this.#write('renewedAt', sentAtMs)
    this.#write('writer', writer)
    this.#tick()
  }

  /** The database refused a change of this writer because its lease had run out. */
  noteLost(): void {
    this.#write('lost', this.#read('writer'))
  }

  /** Whether some writer was given a lease, be it lost since. */
  get isBegun(): boolean {
    return this.#read('writer') !== 0
  }

  /** Why no run may start now, although this process holds a lease. */
  obstacle(): string | undefined {
    const { leaseMs, wallMs } = this.#options
    const nowMs = monotonicMs()
    const sinceMs = nowMs - this.#read('renewedAt')
    if (sinceMs > leaseMs * (1 - MARGIN)) {
      return `the lease of this process in PostgreSQL was not renewed for ${sinceMs} ms; the database is slow or cannot be reached`
    }
    const zeroMs = this.#read('databaseZero')
    const offsetMs = zeroMs === 0 ? 0 : Math.round(wallMs() - zeroMs - nowMs)
    if (Math.abs(offsetMs) <= MAX_CLOCK_OFFSET_MS) return undefined
    const which = offsetMs > 0 ? 'ahead of' : 'behind'
    return `the clock of this machine is ${Math.abs(offsetMs)} ms ${which} that of PostgreSQL; set both by the same time server`
  }

  async close(): Promise<void> {
    clearInterval(this.#ticking)
    const id = await this.#started?.catch(() => undefined)
    if (id !== undefined) this.#thread.remove(id)
  }

  #tick(): void {
    Atomics.add(this.#places, PLACES.tick, 1n)
  }

  #read(place: keyof typeof PLACES): number {
    return Number(Atomics.load(this.#places, PLACES[place]))
  }

  #write(place: keyof typeof PLACES, value: number): void {
    Atomics.store(this.#places, PLACES[place], BigInt(Math.trunc(value)))
  }
}

/** How long a thread without leases stays: opening a store again would begin with starting one. */
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

  /** Resolves with its name here once the thread looks after it. */
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
    worker.on('message', (reply: LeaseReply) => this.#hear(reply))
    worker.once('error', (error) => this.#giveUp(error))
    worker.once('exit', () => this.#goOn())
    // At the end: to listen for messages keeps the process alive again.
    worker.unref()
    this.#worker = worker
    for (const [id, memory] of this.#leases) this.#order({ id, memory })
  }

  #order(order: LeaseOrder): void {
    this.#worker?.postMessage(order)
  }

  #hear({ id, error }: LeaseReply): void {
    const starting = this.#starting.get(id)
    this.#starting.delete(id)
    if (error === undefined) {
      starting?.resolve(id)
      return
    }
    this.remove(id)
    // What comes from another thread has lost its class: without a lease nothing is written, which is a failure of the store.
    starting?.reject(new StoreError('full', `PostgreSQL gives this process no lease: ${messageOf(error)}`))
  }

  #giveUp(error: unknown): void {
    for (const id of [...this.#starting.keys()]) this.#hear({ id, error })
  }

  /** A thread that ended is started again for the leases that it looked after. */
  #goOn(): void {
    this.#worker = undefined
    this.#giveUp(new Error('the thread that renews leases has ended'))
    const again = () => {
      if (this.#worker === undefined && this.#leases.size > 0) this.#start()
    }
    setTimeout(again, RESTART_MS).unref()
  }
}
