import type { JournalGroup, JournalHead } from '#core/journal/journal-group'
import type { CallAddress, CallFilter, CallRecord } from '#core/ports/store'
import { StoreError } from '#core/store-error'
import type { StoreKeys } from '#store/keys/store-keys'
import { callFromRow } from '#store/sql/call-row'
import { integer, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import { GroupContents } from './group-contents.ts'
import { readJournal } from './journal-reader.ts'
import type { DeadWriter } from './recovery.ts'
import { storeErrorOf } from './sqlite-errors.ts'
import { type Verification, verifyJournal } from './verify-journal.ts'

/** The reading side of the store, on a connection of its own: it sees every commit and waits for none. */
export class StoreReader {
  readonly #database: Database
  readonly #keys: StoreKeys
  readonly #contents: GroupContents

  constructor(database: Database, keys: StoreKeys) {
    this.#database = database
    this.#keys = keys
    this.#contents = new GroupContents(database, keys.wrap)
  }

  find(record: string): CallRecord | undefined {
    return this.#guard(() => {
      try {
        return this.#findOnce(record)
      } catch (error) {
        // The call may have changed between its row and its contents: what is there now is consistent.
        if (error instanceof StoreError && error.code === 'unreadable') return this.#findOnce(record)
        throw error
      }
    })
  }

  list(filter: CallFilter): readonly CallRecord[] {
    const { state, limit } = filter
    const tenant = filter.tenant ?? null
    return this.#guard(() => {
      const rows =
        state === undefined
          ? this.#database.all('listCalls', tenant, tenant, limit)
          : this.#database.all('listCallsByState', state, tenant, tenant, limit)
      return rows.map((row) => callFromRow(row, this.#contents))
    })
  }

  cancelRequests(writer: string): readonly CallAddress[] {
    return this.#guard(() =>
      this.#database
        .all('cancelRequests', writer)
        .map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') })),
    )
  }

  /** Writers that have not ended, dead or alive. */
  openWriters(): readonly DeadWriter[] {
    return this.#guard(() =>
      this.#database.all('openWriters').map((row) => ({ no: integer(row, 'no'), id: text(row, 'id') })),
    )
  }

  findChallenge(id: string): Row | undefined {
    return this.#guard(() => this.#database.get('findChallenge', id))
  }

  readJournal(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    return this.#guard(() => readJournal(this.#database, after, limit))
  }

  verify(head: JournalHead | undefined): Verification {
    return this.#guard(() => verifyJournal(this.#database, this.#keys.chain, head))
  }

  close(): void {
    this.#database.close()
  }

  #findOnce(record: string): CallRecord | undefined {
    const row = this.#database.get('findCall', record)
    return row === undefined ? undefined : callFromRow(row, this.#contents)
  }

  #guard<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }
}
