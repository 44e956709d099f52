import { join } from 'node:path'
import type { Store } from '#core/ports/store'
import { readKeyFile, readOrCreateKeyFile } from '#store/encryption'
import { MemoryStore } from '#store/memory/memory'
import { backUpDatabase } from '#store/sqlite/database'
import { SqliteStore } from '#store/sqlite/sqlite-store'

export const KEY_FILE = 'key'

export interface OpenStoreOptions {
  /** Folder of the key file. */
  readonly dataFolder: string
  /** `COLLET_KEY`; without it the key file is used. */
  readonly masterKey: Uint8Array | undefined
  /** Operators' commands never make a key file: a missing one means they look in the wrong place. */
  readonly mode: 'server' | 'operator'
  readonly onCommit?: (changes: number, durationMs: number) => void
  /** Told of rows that decide and were changed by somebody without the key. */
  readonly onForeign?: (row: string, table: string) => void
}

/** The store behind a URL: `memory:` or `sqlite:PATH`. */
export function openStore(url: string, options: OpenStoreOptions): Store {
  return url === 'memory:' ? new MemoryStore() : openSqlite(url, options)
}

export function openSqlite(url: string, options: OpenStoreOptions): SqliteStore {
  const { onCommit, onForeign } = options
  const path = pathOf(url)
  return new SqliteStore({
    path,
    masterKey: masterKeyOf(options, path),
    ...(onCommit === undefined ? {} : { onCommit }),
    ...(onForeign === undefined ? {} : { onForeign }),
  })
}

/** Copies the database of a store, also while a server uses it, to a file that must not be there yet. */
export function backUpStore(url: string, target: string): void {
  backUpDatabase(pathOf(url), target)
}

function pathOf(url: string): string {
  if (url.startsWith('sqlite:')) return url.slice('sqlite:'.length)
  throw new Error(`The store '${url}' is not known. Write 'sqlite:PATH' or 'memory:'.`)
}

function masterKeyOf(options: OpenStoreOptions, database: string): Uint8Array {
  if (options.masterKey !== undefined) return options.masterKey
  const file = join(options.dataFolder, KEY_FILE)
  return options.mode === 'server' ? readOrCreateKeyFile(file, database) : readKeyFile(file)
}
