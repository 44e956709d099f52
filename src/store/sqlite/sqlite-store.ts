import { openInMemory, openSqlite, type SqliteOptions } from '#kernel/store/sqlite/open'
import { createColletStore, DEFINITION, type Store } from '#store/collet-store'

/** The store of the product in one SQLite file. */
export function openSqliteStore(options: SqliteOptions): Store {
  return createColletStore(openSqlite(DEFINITION, options))
}

/** The store of the product in memory, for tests and tools without effects. */
export function openMemoryStore(options?: Omit<SqliteOptions, 'path' | 'masterKey'>): Store {
  return createColletStore(openInMemory(DEFINITION, options))
}
