import { StoreError } from '#kernel/base/errors'
import { get, type Steps } from './engine.ts'
import type { KeyRing } from './key-ring.ts'
import { refuseForeignTriggers } from './row-mac.ts'

/**
 * Versions of the tables: which migration steps a database still needs, and who may run them. Both engines use it when they open
 * a database. A released step never changes: a change of the tables is a new step at the end.
 */

/** The migrations that a database still needs, once it is certain that it belongs to this store (rule 14). */
export function* missingMigrations(
  version: number,
  keys: KeyRing,
  migrations: readonly string[],
): Steps<readonly string[]> {
  yield* refuseForeignTriggers()
  if (version > migrations.length) {
    throw new StoreError(
      'unreadable',
      `it was written by a newer Collet (schema ${version}); this version supports up to ${migrations.length}`,
    )
  }
  if (version > 0) {
    yield* refuseUnfinishedCopy()
    yield* keys.load()
  }
  return migrations.slice(version)
}

/** What opening a database may do with its tables: migrate them, require the current version, or only look. */
export type SchemaMode = 'migrate' | 'require' | 'look'

export interface Migration {
  readonly from: number
  readonly to: number
}

/** Operator commands, and servers whose role may not change tables, leave migration to `collet migrate`. */
export function refuseOutdated({ from, to }: Migration, mode: SchemaMode): void {
  if (mode !== 'require' || from === to) return
  const found = from === 0 ? 'it holds no store yet' : `its schema is ${from} and this Collet needs ${to}`
  throw new StoreError('unreadable', `${found}. Run: collet migrate`)
}

/** In `meta` while `collet store copy` fills a database: its progress. */
export const COPY_MARK = 'copy_of'

function* refuseUnfinishedCopy(): Steps<void> {
  if ((yield* get('readMeta', COPY_MARK)) === undefined) return
  throw new StoreError(
    'unreadable',
    'the copy into it is not finished. Run the same collet store copy again: it continues where it stopped',
  )
}
