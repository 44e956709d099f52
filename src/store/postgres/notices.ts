import { randomUUID } from 'node:crypto'
import type { NotifyChange, StoreWatcher } from '#kernel/store/engine'
import { Connection, type Statement } from './connection.ts'

const CHANNEL = 'collet'
/** Between two notices of one process: what is to be told meanwhile goes out together. */
const GAP_MS = 20
/** PostgreSQL takes 8 000 bytes. */
const MAX_BYTES = 7_500
/** What somebody waits for is said again this often, and forgotten after three times as long. */
const WANT_AGAIN_MS = 5_000
const WANTED_MS = 3 * WANT_AGAIN_MS
/** With more than these in the air everything is told to everybody. */
const MAX_WANTED = 10_000
/** A commit may fall between a wish and its arrival, so whoever wished looks again by itself, twice. */
const LOOK_AGAIN_MS = [100, 500]
const RECONNECT_MS = 1_000
/** Where nothing can be heard, what others wrote is looked for this often. */
const POLL_MS = 250

interface NoticesOptions {
  /** Where to listen. */
  readonly url: string
  /** Notices can be sent over any connection. */
  send(statement: Statement): Promise<unknown>
  /** Another number than before once another process committed something. */
  foreignVersion(): Promise<number>
}

/** What processes say to each other. */
interface Notice {
  readonly by: string
  /** Runs and calls that somebody there waits for. */
  readonly want?: readonly string[]
  /** Runs and calls that changed; `*` when that may be any. */
  readonly told?: readonly string[] | '*'
  /** It did not hear what was said before. */
  readonly isNew?: true
}

/**
 * What processes tell each other about their commits, over LISTEN and NOTIFY on a connection of its own. Notices are sent
 * after the commit and alone: inside of it they would take a lock that all commits of the database wait for. What every
 * call does is told only if somebody said to wait for it. A notice that is lost costs time and nothing else:
 * everybody who waits also looks by itself.
 */
export class Notices {
  readonly #options: NoticesOptions
  readonly #id = randomUUID()
  readonly #listeners = new Set<NotifyChange>()
  /** What others wait for, and until when we believe that. */
  readonly #wanted = new Map<string, number>()
  /** The same for those here. */
  readonly #ownWishes = new Map<string, number>()
  readonly #outbox = { want: new Set<string>(), told: new Set<string>(), isAnything: false, isNew: false }
  #connection: Connection | undefined
  #timer: NodeJS.Timeout | undefined
  #sending: NodeJS.Timeout | undefined
  #sentAtMs = 0
  #heardAtMs = 0
  #isConnecting = false
  #version: number | undefined
  #isClosed = false

  constructor(options: NoticesOptions) {
    this.#options = options
  }

  /** Whether anybody elsewhere waits for what calls do. */
  get isWanted(): boolean {
    return this.#wanted.size > 0
  }

  watch(tell: NotifyChange): StoreWatcher {
    this.#listeners.add(tell)
    if (this.#timer === undefined && !this.#isClosed) this.#start()
    return {
      want: (name) => this.#wish(name),
      end: () => {
        this.#listeners.delete(tell)
      },
    }
  }

  /** A commit of ours. Of one that changed what is rare, nobody has to say that it is waited for. */
  tell(eventsJson: string, isRare: boolean): void {
    if (isRare || this.#wanted.size >= MAX_WANTED) this.#outbox.isAnything = true
    else for (const name of namesIn(eventsJson)) if (this.#wanted.has(name)) this.#outbox.told.add(name)
    this.#sendSoon()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    // A process that ends right after a change still tells of it.
    if (this.#sending !== undefined) await this.#send().catch(() => undefined)
    await this.#connection?.close().catch(() => undefined)
  }

  #start(): void {
    const look = () => void this.#keepUp().catch(() => undefined)
    this.#timer = setInterval(look, RECONNECT_MS).unref()
    look()
  }

  /** Behind a pooler nobody hears anything. */
  #startPolling(): void {
    clearInterval(this.#timer)
    this.#timer = setInterval(() => void this.#poll(), POLL_MS).unref()
  }

  /** A store that cannot say whether something changed is asked for the things themselves. */
  async #poll(): Promise<void> {
    if (this.#listeners.size === 0) return
    const version = await this.#options.foreignVersion().catch(() => undefined)
    const isSame = version !== undefined && version === this.#version
    this.#version = version
    if (!isSame) this.#tellHere(undefined)
  }

  async #keepUp(): Promise<void> {
    if (this.#isConnecting) return
    const nowMs = performance.now()
    if (this.#connection === undefined || this.#connection.isLost) {
      this.#isConnecting = true
      try {
        await this.#connect()
      } finally {
        this.#isConnecting = false
      }
      return
    }
    if (nowMs - this.#heardAtMs < WANT_AGAIN_MS) return
    this.#heardAtMs = nowMs
    this.#forgetOld(nowMs)
    for (const name of this.#ownWishes.keys()) this.#outbox.want.add(name)
    this.#sendSoon()
    // A connection that answers no more is replaced.
    await this.#connection.one({ text: 'SELECT 1' })
  }

  async #connect(): Promise<void> {
    const connection = await Connection.open(this.#options.url, {
      name: 'collet notices',
      onNotice: (said) => this.#hear(said),
    })
    if (this.#isClosed) {
      await connection.close()
      return
    }
    if (connection.isPooled) {
      await connection.close()
      this.#startPolling()
      return
    }
    await connection.one({ text: `LISTEN ${CHANNEL}` })
    this.#connection = connection
    this.#outbox.isNew = true
    for (const name of this.#ownWishes.keys()) this.#outbox.want.add(name)
    this.#sendSoon()
    // What was said until now was not heard.
    this.#tellHere(undefined)
  }

  #forgetOld(nowMs: number): void {
    for (const wishes of [this.#wanted, this.#ownWishes]) {
      for (const [name, untilMs] of wishes) if (untilMs < nowMs) wishes.delete(name)
    }
  }

  #wish(name: string): void {
    const isNew = !this.#ownWishes.has(name)
    this.#ownWishes.set(name, performance.now() + WANTED_MS)
    if (!isNew) return
    this.#outbox.want.add(name)
    this.#sendSoon()
    for (const ms of LOOK_AGAIN_MS) setTimeout(() => this.#tellHere([name]), ms).unref()
  }

  #hear(said: string): void {
    const notice = readNotice(said)
    if (notice === undefined || notice.by === this.#id) return
    const untilMs = performance.now() + WANTED_MS
    for (const name of notice.want ?? []) if (this.#wanted.size < MAX_WANTED) this.#wanted.set(name, untilMs)
    if (notice.isNew === true) {
      for (const name of this.#ownWishes.keys()) this.#outbox.want.add(name)
      if (this.#ownWishes.size > 0) this.#sendSoon()
    }
    if (notice.told !== undefined) this.#tellHere(notice.told === '*' ? undefined : notice.told)
  }

  #tellHere(names: readonly string[] | undefined): void {
    for (const tell of [...this.#listeners]) tell(names)
  }

  #sendSoon(): void {
    if (this.#sending !== undefined || this.#isClosed) return
    const waitMs = Math.max(0, this.#sentAtMs + GAP_MS - performance.now())
    this.#sending = setTimeout(() => void this.#send().catch(() => undefined), waitMs).unref()
  }

  async #send(): Promise<void> {
    clearTimeout(this.#sending)
    this.#sending = undefined
    this.#sentAtMs = performance.now()
    for (const text of this.#takeNotices()) {
      await this.#options.send({
        name: 'notify',
        text: `SELECT pg_notify('${CHANNEL}', $1)`,
        values: [text],
      })
    }
  }

  /** What there is to say, in as few notices as it fits into. */
  #takeNotices(): readonly string[] {
    const { want, told, isAnything, isNew } = this.#outbox
    const notices: Omit<Notice, 'by'>[] = []
    if (isNew) notices.push({ isNew })
    for (const names of inPieces(want)) notices.push({ want: names })
    if (isAnything) notices.push({ told: '*' })
    else for (const names of inPieces(told)) notices.push({ told: names })
    want.clear()
    told.clear()
    Object.assign(this.#outbox, { isAnything: false, isNew: false })
    return notices.map((notice) => JSON.stringify({ by: this.#id, ...notice }))
  }
}

function inPieces(names: ReadonlySet<string>): readonly (readonly string[])[] {
  const pieces: string[][] = []
  let bytes = MAX_BYTES
  for (const name of names) {
    const size = Buffer.byteLength(name) + 3
    if (bytes + size > MAX_BYTES) {
      pieces.push([])
      bytes = 100
    }
    bytes += size
    pieces.at(-1)?.push(name)
  }
  return pieces
}

/** The runs and calls that events are about. */
function namesIn(eventsJson: string): readonly string[] {
  const events: readonly { readonly run?: string; readonly record?: string }[] = JSON.parse(eventsJson)
  return events.flatMap(({ run, record }) => [run, record].filter((name) => name !== undefined))
}

/** Anybody who may connect can say anything here. */
function readNotice(said: string): Notice | undefined {
  try {
    const notice: Partial<Record<keyof Notice, unknown>> = JSON.parse(said)
    const { by, want, told, isNew } = notice
    if (typeof by !== 'string') return undefined
    return {
      by,
      ...(isTexts(want) ? { want } : {}),
      ...(told === '*' || isTexts(told) ? { told } : {}),
      ...(isNew === true ? { isNew } : {}),
    }
  } catch {
    return undefined
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
