import { randomUUID } from 'node:crypto'
import type { NotifyChange, StoreWatcher } from '#kernel/store/engine'
import { Connection, type Statement } from './connection.ts'

/**
 * Notices between processes about their commits, with LISTEN and NOTIFY on a separate connection. They are sent after the commit:
 * inside of it they would take a lock that all commits of the database wait for. A change of a single call is announced only if a
 * process requested it. A lost notice only costs time, because every waiter also polls.
 */

const CHANNEL = 'collet'
const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)`
/** Minimum time between two notices from one process; names that arrive in between are sent together. */
const GAP_MS = 20
/** PostgreSQL accepts 8 000 bytes. */
const MAX_BYTES = 7_500
/** How often a process repeats the names it waits for; other processes forget them after three times as long. */
const WANT_AGAIN_MS = 5_000
const WANTED_MS = 3 * WANT_AGAIN_MS
/** Beyond this many names, every commit is announced without names. */
const MAX_WANTED = 10_000
/** A commit may happen before a request for notices arrives, so the waiter checks twice by itself. */
const CHECK_AGAIN_MS = [100, 500]
const RECONNECT_MS = 1_000
/** How often to poll if notices do not arrive. */
const POLL_MS = 250

interface NoticesOptions {
  readonly url: string
  /** Sends over any connection. */
  send(statement: Statement): Promise<unknown>
  /** Changes whenever another process has committed something. */
  foreignVersion(): Promise<number>
}

interface Notice {
  readonly by: string
  /** Runs and calls that a request in the sending process waits for. */
  readonly want?: readonly string[]
  /** Runs and calls that changed; `*` if it may be any of them. */
  readonly changed?: readonly string[] | '*'
  /** The sender has just connected and knows of no earlier notices. */
  readonly isNew?: true
}

export class Notices {
  readonly #options: NoticesOptions
  readonly #id = randomUUID()
  readonly #listeners = new Set<NotifyChange>()
  /** Names that other processes wait for, and when to forget them. */
  readonly #wanted = new Map<string, number>()
  /** Names that requests in this process wait for. */
  readonly #ownWanted = new Map<string, number>()
  readonly #outbox = { want: new Set<string>(), changed: new Set<string>(), isAnything: false, isNew: false }
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

  /** Whether another process waits for a call. */
  get isWanted(): boolean {
    return this.#wanted.size > 0
  }

  watch(notify: NotifyChange): StoreWatcher {
    this.#listeners.add(notify)
    if (this.#timer === undefined && !this.#isClosed) {
      const check = () => void this.#keepUp().catch(() => undefined)
      this.#timer = setInterval(check, RECONNECT_MS).unref()
      check()
    }
    return { want: (name) => this.#want(name), end: () => void this.#listeners.delete(notify) }
  }

  /** Announces a commit of this process. Rare changes are announced even if no process requested it. */
  announce(eventsJson: string, isRare: boolean): void {
    if (isRare || this.#wanted.size >= MAX_WANTED) this.#outbox.isAnything = true
    else for (const name of namesIn(eventsJson)) if (this.#wanted.has(name)) this.#outbox.changed.add(name)
    this.#sendSoon()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    // A process that ends right after a change still announces it.
    if (this.#sending !== undefined) await this.#send().catch(() => undefined)
    await this.#connection?.close().catch(() => undefined)
  }

  /** Notifies listeners if the version has changed or cannot be read. */
  async #poll(): Promise<void> {
    if (this.#listeners.size === 0) return
    const version = await this.#options.foreignVersion().catch(() => undefined)
    const isSame = version !== undefined && version === this.#version
    this.#version = version
    if (!isSame) this.#notifyHere(undefined)
  }

  async #keepUp(): Promise<void> {
    if (this.#isConnecting) return
    if (this.#connection === undefined || this.#connection.isLost) {
      this.#isConnecting = true
      try {
        await this.#connect()
      } finally {
        this.#isConnecting = false
      }
      return
    }
    const nowMs = performance.now()
    if (nowMs - this.#heardAtMs < WANT_AGAIN_MS) return
    this.#heardAtMs = nowMs
    this.#forgetOld(nowMs)
    for (const name of this.#ownWanted.keys()) this.#outbox.want.add(name)
    this.#sendSoon()
    // A connection that no longer answers is replaced.
    await this.#connection.one({ text: 'SELECT 1' })
  }

  async #connect(): Promise<void> {
    const connection = await Connection.open(this.#options.url, {
      name: 'collet notices',
      onNotice: (text) => this.#receive(text),
    })
    if (this.#isClosed || connection.isPooled) {
      await connection.close()
      clearInterval(this.#timer)
      // Notices do not pass through a pooler.
      if (!this.#isClosed) this.#timer = setInterval(() => void this.#poll(), POLL_MS).unref()
      return
    }
    await connection.one({ text: `LISTEN ${CHANNEL}` })
    this.#connection = connection
    this.#outbox.isNew = true
    for (const name of this.#ownWanted.keys()) this.#outbox.want.add(name)
    this.#sendSoon()
    // Earlier notices were missed.
    this.#notifyHere(undefined)
  }

  #forgetOld(nowMs: number): void {
    for (const wanted of [this.#wanted, this.#ownWanted]) {
      for (const [name, untilMs] of wanted) if (untilMs < nowMs) wanted.delete(name)
    }
  }

  #want(name: string): void {
    const isNew = !this.#ownWanted.has(name)
    this.#ownWanted.set(name, performance.now() + WANTED_MS)
    if (!isNew) return
    this.#outbox.want.add(name)
    this.#sendSoon()
    for (const ms of CHECK_AGAIN_MS) setTimeout(() => this.#notifyHere([name]), ms).unref()
  }

  #receive(text: string): void {
    const notice = readNotice(text)
    if (notice === undefined || notice.by === this.#id) return
    const untilMs = performance.now() + WANTED_MS
    for (const name of notice.want ?? []) if (this.#wanted.size < MAX_WANTED) this.#wanted.set(name, untilMs)
    if (notice.isNew === true) {
      for (const name of this.#ownWanted.keys()) this.#outbox.want.add(name)
      if (this.#ownWanted.size > 0) this.#sendSoon()
    }
    if (notice.changed !== undefined) this.#notifyHere(notice.changed === '*' ? undefined : notice.changed)
  }

  #notifyHere(names: readonly string[] | undefined): void {
    for (const notify of [...this.#listeners]) notify(names)
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
    for (const notice of this.#takeNotices())
      await this.#options.send({ name: 'notify', text: NOTIFY, values: [notice] })
  }

  /** Returns the waiting names in as few notices as possible. */
  #takeNotices(): readonly string[] {
    const { want, changed, isAnything, isNew } = this.#outbox
    const notices: Omit<Notice, 'by'>[] = []
    if (isNew) notices.push({ isNew })
    for (const names of splitBySize(want)) notices.push({ want: names })
    if (isAnything) notices.push({ changed: '*' })
    else for (const names of splitBySize(changed)) notices.push({ changed: names })
    want.clear()
    changed.clear()
    Object.assign(this.#outbox, { isAnything: false, isNew: false })
    return notices.map((notice) => JSON.stringify({ by: this.#id, ...notice }))
  }
}

function splitBySize(names: ReadonlySet<string>): readonly (readonly string[])[] {
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

/** The runs and calls that these events are about. */
function namesIn(eventsJson: string): readonly string[] {
  const events: readonly { readonly run?: string; readonly record?: string }[] = JSON.parse(eventsJson)
  return events.flatMap(({ run, record }) => [run, record].filter((name) => name !== undefined))
}

/** Any client of the database can send to the channel, so the text is checked. */
function readNotice(text: string): Notice | undefined {
  try {
    const { by, want, changed, isNew }: Partial<Record<keyof Notice, unknown>> = JSON.parse(text)
    if (typeof by !== 'string') return undefined
    return {
      by,
      ...(isStringList(want) ? { want } : {}),
      ...(changed === '*' || isStringList(changed) ? { changed } : {}),
      ...(isNew === true ? { isNew } : {}),
    }
  } catch {
    return undefined
  }
}

function isStringList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
