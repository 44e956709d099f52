import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from '#core/errors'
import { CHAIN_START, linkOf } from '#core/journal/chain'
import type { JournalHead } from '#core/journal/events'
import type { Committer, PendingChange } from '#store/commit-queue'
import { newDataKey, Sealer, type StoreKeys, wrapDataKey } from '#store/encryption'
import { CommitGroup } from '#store/engine'
import { placeOf } from '#store/journal'
import { integer, text } from '#store/rows'
import { type Database, IN_MEMORY, isBusy, isFull, isStoreWide, storeErrorOf } from './database.ts'

/** A living writer puts a removed lock file back well within this time. */
const MISSING_LOCK_GRACE_MS = 15_000

/** Which other writers live: only one whose lock can be taken is dead (rule 17). */
export class WriterLiveness {
  readonly #database: Database
  readonly #lockFolder: string | undefined
  readonly #missingSinceMs = new Map<string, number>()

  constructor(database: Database, lockFolder: string | undefined) {
    this.#database = database
    this.#lockFolder = lockFolder
  }

  isAlive(writer: string): boolean {
    if (this.#lockFolder === undefined) return false
    const lock = lockStateOf(this.#lockFolder, writer)
    if (lock !== 'missing') {
      this.#missingSinceMs.delete(writer)
      return lock === 'locked'
    }
    const row = this.#database.get('writerEnd', writer)
    if (row === undefined || row.ended_at !== null) return false
    const sinceMs = this.#missingSinceMs.get(writer) ?? performance.now()
    this.#missingSinceMs.set(writer, sinceMs)
    return performance.now() - sinceMs < MISSING_LOCK_GRACE_MS
  }
}

/** Told after each commit, for metrics and for deciding when to move the log into the database. */
interface CommitObserver {
  committed(changes: number, durationMs: number): void
}

interface WriterOptions {
  readonly database: Database
  readonly keys: StoreKeys
  /** `undefined` for a database that no other process can reach, and that needs no locks. */
  readonly lockFolder: string | undefined
  readonly nowMs: () => number
  readonly observer: CommitObserver
}

/** This process as a writer: its lock, its data key and its chain. Begun by the first change. */
export class Writer implements Committer {
  readonly id = randomUUID()
  readonly #options: WriterOptions
  #started:
    | { readonly no: number; readonly lock: WriterLock | undefined; readonly sealer: Sealer }
    | undefined
  #head = { n: -1, link: CHAIN_START }
  #headKnown = true

  constructor(options: WriterOptions) {
    this.#options = options
  }

  get isStarted(): boolean {
    return this.#started !== undefined
  }

  /** The writer's number in call rows; 0 before it began, which no row has. */
  get no(): number {
    return this.#started?.no ?? 0
  }

  commit(changes: readonly PendingChange[]): 'committed' | 'busy' {
    const { database, observer } = this.#options
    const startedMs = performance.now()
    try {
      this.#begin()
      database.begin()
    } catch (error) {
      if (isBusy(error)) return 'busy'
      throw this.#writeError(error)
    }
    let sealed: { readonly n: number; readonly link: string } | undefined
    try {
      if (!this.#headKnown) this.#readHead()
      const group = this.#openGroup()
      for (const change of changes) change.apply(group)
      if (!group.isEmpty) sealed = this.#insert(group)
      database.commit()
    } catch (error) {
      if (!this.#isCommitted(sealed)) throw this.#failed(error)
    }
    if (sealed !== undefined) this.#head = sealed
    observer.committed(changes.length, performance.now() - startedMs)
    return 'committed'
  }

  /** The last event of the chain, inside a commit like any other. */
  recordStop(group: CommitGroup): void {
    const { database, nowMs } = this.#options
    const at = nowMs()
    group.append({ type: 'writer.stopped', at })
    database.run('endWriter', at, this.id)
  }

  /** Puts the lock file back if somebody removed it: others take a writer without one for dead, in time. */
  keepLock(): void {
    const started = this.#started
    if (started?.lock === undefined || started.lock.isInPlace) return
    started.lock.release(false)
    this.#started = { ...started, lock: this.#takeLock() }
  }

  /** Gives the lock back; from then on what is left running counts as cut. */
  release(): void {
    const started = this.#started
    if (started === undefined) return
    this.#started = undefined
    if (started.lock === undefined) return
    const row = this.#options.database.get('writerByNo', started.no)
    started.lock.release(row !== undefined && row.ended_at !== null)
  }

  /** Lock first, then the row: a row without a living lock is a dead writer. */
  #begin(): void {
    if (this.#started !== undefined) return
    const { database, keys, nowMs } = this.#options
    const lock = this.#takeLock()
    try {
      const dataKey = newDataKey()
      database.begin()
      const heads = this.#newHeads()
      const row =
        database.get('insertWriter', this.id, nowMs(), wrapDataKey(keys.wrap, dataKey, this.id)) ?? {}
      this.#started = { no: integer(row, 'no'), lock, sealer: new Sealer(dataKey) }
      const group = this.#openGroup()
      group.append({ type: 'writer.started', at: nowMs(), heads })
      const head = this.#insert(group)
      database.commit()
      this.#head = head
    } catch (error) {
      this.#started = undefined
      database.rollback()
      lock?.release(true)
      throw error
    }
  }

  #takeLock(): WriterLock | undefined {
    const { lockFolder } = this.#options
    return lockFolder === undefined ? undefined : new WriterLock(lockFolder, this.id)
  }

  #openGroup(): CommitGroup {
    const { database, keys } = this.#options
    return new CommitGroup({ id: integer(database.get('nextGroup') ?? {}, 'id'), writer: this.no, keys })
  }

  /** Heads of the chains that grew since a writer last began: what did not grow was recorded by then (rule 15). */
  #newHeads(): readonly JournalHead[] {
    return this.#options.database.all('newHeads').map((row) => ({
      writer: text(row, 'writer'),
      group: integer(row, 'n'),
      link: text(row, 'link'),
    }))
  }

  #insert(group: CommitGroup): { readonly n: number; readonly link: string } {
    const started = this.#started
    if (started === undefined) throw new StoreError('not_written', 'the writer has ended')
    const { database, keys, nowMs } = this.#options
    const n = this.#head.n + 1
    const atMs = nowMs()
    const callers =
      group.callers === '' ? null : started.sealer.seal(group.callers, placeOf('callers', this.id, n))
    const payload =
      group.payload === '' ? null : started.sealer.seal(group.payload, placeOf('payload', this.id, n))
    const { eventsJson } = group
    const link = linkOf(keys.chain, this.#head.link, {
      id: group.id,
      writer: this.id,
      group: n,
      atMs,
      eventsJson,
      callers,
    })
    database.run('insertGroup', group.id, started.no, n, atMs, eventsJson, callers, payload, group.live, link)
    return { n, link }
  }

  /** Rule 15: after an unknown commit the head is read again. */
  #readHead(): void {
    const row = this.#options.database.get('headOf', this.no)
    if (row !== undefined) this.#head = { n: integer(row, 'n'), link: text(row, 'link') }
    this.#headKnown = true
  }

  /** A commit that reported an error may still have happened: the chain knows. */
  #isCommitted(sealed: { readonly n: number; readonly link: string } | undefined): boolean {
    try {
      this.#options.database.rollback()
      if (sealed === undefined) return false
      const row = this.#options.database.get('headOf', this.no)
      return row !== undefined && text(row, 'link') === sealed.link
    } catch {
      this.#headKnown = false
      return false
    }
  }

  #failed(error: unknown): unknown {
    this.#headKnown = false
    return isStoreWide(error) || error instanceof StoreError ? this.#writeError(error) : error
  }

  /** A database that cannot be written is a failure of the store, also when the reason is damage (rule 11). */
  #writeError(error: unknown): StoreError {
    if (this.#options.database.path === IN_MEMORY && isFull(error))
      return new StoreError('full', 'the memory store is full and takes no more', { cause: error })
    const found = storeErrorOf(error, 'cannot write to the database')
    return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
  }
}

/**
 * Rule 17: a living writer holds an exclusive lock on its own small file. The lock is SQLite's own, on an empty
 * database: the operating system frees it when the process ends, however it ends.
 */
class WriterLock {
  readonly #file: string
  readonly #connection: DatabaseSync

  constructor(folder: string, writer: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#file = lockFile(folder, writer)
    this.#connection = lockedConnection(this.#file)
  }

  /** False when somebody removed the file: the lock is then held on nothing others can see. */
  get isInPlace(): boolean {
    return existsSync(this.#file)
  }

  /** The file of a writer with calls still running stays, unlocked, as the sign that it is dead. */
  release(hasEnded: boolean): void {
    this.#connection.close()
    if (hasEnded) rmSync(this.#file, { force: true })
  }
}

/** `missing` proves nothing: a living writer puts its file back within seconds. */
type LockState = 'locked' | 'free' | 'missing'

function lockStateOf(folder: string, writer: string): LockState {
  const file = lockFile(folder, writer)
  if (!existsSync(file)) return 'missing'
  try {
    lockedConnection(file).close()
    return 'free'
  } catch (error) {
    if (isBusy(error)) return 'locked'
    throw error
  }
}

/** For a writer that is dead and has nothing left to recover. */
export function removeLockFile(folder: string, writer: string): void {
  rmSync(lockFile(folder, writer), { force: true })
}

function lockFile(folder: string, writer: string): string {
  return join(folder, `${writer}.lock`)
}

function lockedConnection(file: string): DatabaseSync {
  const connection = new DatabaseSync(file, { timeout: 0 })
  try {
    connection.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}
