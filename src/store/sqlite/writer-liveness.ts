import type { Database } from './database.ts'
import { lockStateOf } from './writer-lock.ts'

/** A living writer puts a removed lock file back well within this time. */
const MISSING_LOCK_GRACE_MS = 15_000

/** Which other writers live: only one whose lock can be taken is dead (rule 17). */
export class WriterLiveness {
  readonly #database: Database
  readonly #lockFolder: string
  readonly #missingSinceMs = new Map<string, number>()

  constructor(database: Database, lockFolder: string) {
    this.#database = database
    this.#lockFolder = lockFolder
  }

  isAlive(writer: string): boolean {
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
