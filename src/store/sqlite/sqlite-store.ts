import { Chain } from '#store/chain'
import { deriveStoreKeys } from '#store/encryption'
import { RowGuard } from '#store/row-mac'
import { createStore, type SqlStore } from '#store/store'
import { SqliteEngine } from './engine.ts'

export interface SqliteStoreOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  readonly nowMs?: () => number
  /** Told after each commit: how many changes, how long. */
  readonly onCommit?: (changes: number, durationMs: number) => void
  /** Told once of each row that decides and was changed by somebody without the key. */
  readonly onForeign?: (row: string, table: string) => void
}

/** Calls and journal in one SQLite file: every change fsynced before it is acknowledged, many per commit. */
export function openSqliteStore(options: SqliteStoreOptions): SqlStore {
  const { path, masterKey, nowMs = Date.now, onCommit, onForeign } = options
  const keys = deriveStoreKeys(masterKey)
  const chain = new Chain(keys, nowMs)
  const guard = new RowGuard(keys.rows, onForeign)
  return createStore({ engine: new SqliteEngine({ path, chain, guard, onCommit }), chain, guard, nowMs })
}
