import { openInMemory, openSqlite, type SqliteOptions } from '#kernel/store/sqlite/open'
import { createColletStore, DEFINITION, type Store } from '#store/collet-store'

/** Collet's store in one SQLite file. */
export function openSqliteStore(options: SqliteOptions): Store {
  return createColletStore(openSqlite(DEFINITION, options))
}

/** Collet's store in memory, for tests and tools without effects. */
export function openMemoryStore(options?: Omit<SqliteOptions, 'path' | 'masterKey'>): Store {
  return createColletStore(openInMemory(DEFINITION, options))
}
