import { randomBytes } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import { Chain } from '#kernel/store/journal'
import { KeyRing } from '#kernel/store/key-ring'
import type { StoreDefinition } from '#kernel/store/module'
import { RowGuard } from '#kernel/store/row-mac'
import type { SchemaMode } from '#kernel/store/schema'
import type { StoreParts } from '#kernel/store/store'
import { IN_MEMORY, SqliteEngine } from './engine.ts'

/**
 * Opens a SQLite file, or a database in memory, with the modules of a store definition. The composition root and tests pass the
 * result to `createStore`. Every change is fsynced before it is acknowledged; many changes share a commit.
 */

export interface SqliteOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  /** The previous key, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  /** Default: the tables are created, or brought up to date. */
  readonly schema?: SchemaMode | undefined
  readonly nowMs?: () => number
  /** Host and process, for operators. */
  readonly place?: string | undefined
  readonly maxBytes?: number
  /** Called after each commit with the number of changes and the duration. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
  /** Called once for each guarded row that was changed without the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
}

export function openSqlite(definition: StoreDefinition, options: SqliteOptions): StoreParts {
  const { path, masterKey, oldMasterKey, schema, maxBytes, onCommit } = options
  const { nowMs = Date.now, place, onForeign } = options
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  const chain = new Chain(keys, nowMs, { place })
  const guard = new RowGuard(keys, definition.guarded, onForeign)
  const engine = new SqliteEngine({ definition, path, chain, guard, schema, maxBytes, onCommit })
  return { definition, engine, chain, guard, nowMs, isShared: false }
}

/**
 * A database that ends with its process, without file, locks and checkpoints. For tests and for tools without effects. At
 * `maxBytes` it refuses new calls and evicts nothing (rule 13).
 */
export function openInMemory(
  definition: StoreDefinition,
  options: Omit<SqliteOptions, 'path' | 'masterKey'> = {},
): StoreParts {
  const maxBytes = options.maxBytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  return openSqlite(definition, { ...options, maxBytes, path: IN_MEMORY, masterKey: randomBytes(32) })
}
