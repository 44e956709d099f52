import { openInMemory, openSqlite, type SqliteOptions } from '#kernel/store/sqlite/open'
import { createColletStore, DEFINITION } from '#store/collet-store'
import type { Store } from '#store/ports/store'

/** The store of the product in one SQLite file. */
export function openSqliteStore(options: SqliteOptions): Store {
  return createColletStore(openSqlite(DEFINITION, options))
}

/** The store of the product in memory. */
export function openMemoryStore(options?: Omit<SqliteOptions, 'path' | 'masterKey'>): Store {
  return createColletStore(openInMemory(DEFINITION, options))
}
