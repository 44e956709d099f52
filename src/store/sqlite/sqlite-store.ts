import { randomBytes } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import type { Store } from '#core/ports/store'
import { Chain } from '#store/commit-queue'
import { KeyRing } from '#store/key-ring'
import { RowGuard } from '#store/rows'
import type { SchemaMode } from '#store/schema'
import { createStore } from '#store/store'
import { IN_MEMORY } from './database.ts'
import { SqliteEngine } from './engine.ts'

interface SqliteStoreOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  /** The key before, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  /** Default: the tables are made, or brought up to date. */
  readonly schema?: SchemaMode | undefined
  readonly nowMs?: () => number
  /** Where this process runs, as operators read it. */
  readonly place?: string | undefined
  /** How large the database may become. */
  readonly mostBytes?: number
  /** Called after each commit: how many changes, how long. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
  /** Called once for each row that decides and was changed without the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
}

/** Calls and journal in one SQLite file: every change fsynced before it is acknowledged, many per commit. */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  const {
    path,
    masterKey,
    oldMasterKey,
    schema,
    nowMs = Date.now,
    place,
    mostBytes,
    onCommit,
    onForeign,
  } = options
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  const chain = new Chain(keys, nowMs, { place })
  const guard = new RowGuard(keys, onForeign)
  const engine = new SqliteEngine({ path, chain, guard, schema, mostBytes, onCommit })
  return createStore({ engine, chain, guard, nowMs, isShared: false })
}

/**
 * A store that is gone with its process: the same rules, without a file, locks and checkpoints. It is for tests and for
 * tools without effects. When it holds `mostBytes` it refuses what is new and evicts nothing (rule 13).
 */
export function openMemoryStore(options: Omit<SqliteStoreOptions, 'path' | 'masterKey'> = {}): Store {
  const mostBytes = options.mostBytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  return openSqliteStore({ ...options, mostBytes, path: IN_MEMORY, masterKey: randomBytes(32) })
}
