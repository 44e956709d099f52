import { realpathSync } from 'node:fs'
import { StoreError } from '#core/errors'
import type { Chain, ChainHead } from '#store/chain'
import type { Engine, PendingChange } from '#store/engine'
import type { RowGuard } from '#store/row-mac'
import { integer } from '#store/rows'
import { type Ask, drive, type Steps } from '#store/steps'
import { Checkpointer } from './checkpointer.ts'
import {
  type Database,
  IN_MEMORY,
  isBusy,
  isFull,
  isStoreWide,
  openDatabase,
  storeErrorOf,
} from './database.ts'
import { removeLockFile, WriterLiveness, WriterLock } from './writer-lock.ts'

interface SqliteEngineOptions {
  readonly path: string
  readonly chain: Chain
  readonly guard: RowGuard
  /** How large the database may become. */
  readonly mostBytes?: number | undefined
  /** Told after each commit: how many changes, how long. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/**
 * One SQLite file: steps are answered at once, and a commit blocks its thread until it is on the disk. A database in
 * memory has neither locks, because no other process can reach it, nor a log to move.
 */
export class SqliteEngine implements Engine {
  readonly #options: SqliteEngineOptions
  readonly #database: Database
  readonly #checkpointer: Checkpointer | undefined
  readonly #lockFolder: string | undefined
  readonly #liveness: WriterLiveness | undefined
  #lock: WriterLock | undefined
  #headKnown = true

  constructor(options: SqliteEngineOptions) {
    this.#options = options
    this.#database = openDatabase(options.path, options.chain.keys)
    if (options.mostBytes !== undefined) this.#database.limitTo(options.mostBytes)
    if (options.path === IN_MEMORY) return
    this.#checkpointer = new Checkpointer(this.#database)
    // The same database under another name must have the same locks.
    this.#lockFolder = `${realpathSync(options.path)}-writers`
    this.#liveness = new WriterLiveness(this.#lockFolder, (writer) => this.#hasEnded(writer))
  }

  read<T>(steps: Steps<T>): T {
    try {
      return this.#drive(steps)
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  snapshot<T>(steps: Steps<T>): T {
    try {
      return this.#database.snapshot(() => this.#drive(steps))
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  commit(changes: readonly PendingChange[]): 'committed' | 'busy' {
    const { chain, onCommit } = this.#options
    const startedMs = performance.now()
    try {
      this.#begin()
      this.#database.begin()
    } catch (error) {
      if (isBusy(error)) return 'busy'
      throw this.#writeError(error)
    }
    let head: ChainHead | undefined
    try {
      if (!this.#headKnown) this.#readHead()
      const group = chain.openGroup()
      for (const change of changes) change.keep(this.#drive(change.begin(group)))
      if (!group.isEmpty) head = this.#drive(chain.insert(group))
      this.#database.commit()
    } catch (error) {
      if (!this.#isCommitted(head)) throw this.#failed(error)
    }
    if (head !== undefined) chain.head = head
    this.#checkpointer?.noteCommit()
    onCommit?.(changes.length, performance.now() - startedMs)
    return 'committed'
  }

  /** Our own lock file is put back if somebody removed it: others take a writer without one for dead, in time. */
  isAlive(writer: string): boolean {
    if (writer === this.#options.chain.id) {
      this.#keepLock()
      return true
    }
    try {
      return this.#liveness?.isAlive(writer) ?? false
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  forgetWriter(writer: string): void {
    if (this.#lockFolder !== undefined) removeLockFile(this.#lockFolder, writer)
  }

  foreignVersion(): number {
    try {
      return integer(this.#database.pragma('data_version') ?? {}, 'data_version')
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  checkWritable(waitMs: number): void {
    try {
      this.#database.checkWritable(waitMs)
    } catch (error) {
      throw storeErrorOf(error, 'cannot write to the database')
    }
  }

  /** Gives the lock back; from then on what is left running counts as cut. */
  async close(): Promise<void> {
    await this.#checkpointer?.close()
    const { chain } = this.#options
    if (chain.isStarted) this.#lock?.release(this.#hasEnded(chain.id))
    chain.forgetWriter()
    this.#database.close()
  }

  /** Lock first, then the row: a row without a living lock is a dead writer. */
  #begin(): void {
    const { chain } = this.#options
    if (chain.isStarted) return
    const lock = this.#takeLock()
    try {
      this.#database.begin()
      const head = this.#drive(chain.begin())
      this.#database.commit()
      chain.head = head
      this.#lock = lock
    } catch (error) {
      chain.forgetWriter()
      this.#database.rollback()
      lock?.release(true)
      throw error
    }
  }

  #keepLock(): void {
    if (this.#lock === undefined || this.#lock.isInPlace) return
    this.#lock.release(false)
    this.#lock = this.#takeLock()
  }

  #takeLock(): WriterLock | undefined {
    const folder = this.#lockFolder
    return folder === undefined ? undefined : new WriterLock(folder, this.#options.chain.id)
  }

  #hasEnded(writer: string): boolean {
    const row = this.#database.get('writerEnd', writer)
    return row === undefined || row.ended_at !== null
  }

  #readHead(): void {
    const { chain } = this.#options
    chain.head = this.#drive(chain.readHead()) ?? chain.head
    this.#headKnown = true
  }

  /** A commit that reported an error may still have happened: the chain knows. */
  #isCommitted(head: ChainHead | undefined): boolean {
    try {
      this.#database.rollback()
      return head !== undefined && this.#drive(this.#options.chain.readHead())?.link === head.link
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
    if (this.#options.path === IN_MEMORY && isFull(error))
      return new StoreError('full', 'the memory store is full and takes no more', { cause: error })
    const found = storeErrorOf(error, 'cannot write to the database')
    return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
  }

  /** Every step at once, on this thread. */
  #drive<T>(steps: Steps<T>): T {
    return drive(steps, this.#answer)
  }

  readonly #answer = (ask: Ask): void => {
    this.#database.answer(ask)
    this.#options.guard.check(ask)
  }
}
