import { randomBytes } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import { Chain } from '#kernel/store/journal'
import { KeyRing } from '#kernel/store/key-ring'
import type { StoreDefinition } from '#kernel/store/module'
import { RowGuard } from '#kernel/store/row-mac'
import type { StoreOptions, StoreParts } from '#kernel/store/store'
import { IN_MEMORY, SqliteEngine, type SqliteEngineOptions } from './engine.ts'

/**
 * Opens a SQLite file, or a database in memory, with the modules of a store definition. The composition root and tests pass the
 * result to `createStore`. Every change is fsynced before it is acknowledged; many changes share a commit.
 */

export interface SqliteOptions extends StoreOptions, Pick<SqliteEngineOptions, 'path' | 'maxBytes'> {}

export function openSqlite(definition: StoreDefinition, options: SqliteOptions): StoreParts {
  const { masterKey, oldMasterKey, nowMs = Date.now, place, onForeign, ...rest } = options
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  const chain = new Chain(keys, nowMs, { place })
  const guard = new RowGuard(keys, definition.guarded, onForeign)
  const engine = new SqliteEngine({ ...rest, definition, chain, guard })
  return { definition, engine, chain, guard, nowMs, isShared: false }
}

/**
 * Opens a database in memory, without file, locks and checkpoints, for tests and for tools without effects. At `maxBytes` it
 * refuses new calls and evicts nothing (rule 13).
 */
export function openInMemory(
  definition: StoreDefinition,
  options: Omit<SqliteOptions, 'path' | 'masterKey'> = {},
): StoreParts {
  const maxBytes = options.maxBytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  return openSqlite(definition, { ...options, maxBytes, path: IN_MEMORY, masterKey: randomBytes(32) })
}
