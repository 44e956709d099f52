import type { Store } from '#core/ports/store'
import { createColletStore, DEFINITION } from '#store/collet-store'
import { openInMemory, openSqlite, type SqliteOptions } from './open.ts'

/** The store of the product in one SQLite file. */
export function openSqliteStore(options: SqliteOptions): Store {
  return createColletStore(openSqlite(DEFINITION, options))
}

/** The store of the product in memory. */
export function openMemoryStore(options?: Omit<SqliteOptions, 'path' | 'masterKey'>): Store {
  return createColletStore(openInMemory(DEFINITION, options))
}
