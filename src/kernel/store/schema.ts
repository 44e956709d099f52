import { StoreError } from '#kernel/base/errors'
import { get, type Steps } from './engine.ts'
import type { KeyRing } from './key-ring.ts'
import { refuseForeignTriggers } from './row-mac.ts'

/**
 * Versions of the tables: which migration steps a database still needs, and who may run them. Both engines use this module when
 * they open a database. A released step never changes: every change to the tables is a new step at the end.
 */

/** The migrations that a database still needs, after checking that the database belongs to this store (rule 14). */
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

/** How opening a database treats its tables: it migrates them, requires the current version, or only reads the version. */
export type SchemaMode = 'migrate' | 'require' | 'inspect'

export interface Migration {
  readonly from: number
  readonly to: number
}

/** Operator commands, and servers whose role may not change tables, leave migration to `collet migrate`. */
export function refuseOutdated({ from, to }: Migration, mode: SchemaMode): void {
  if (mode !== 'require' || from === to) return
  const found =
    from === 0 ? 'it does not contain a store yet' : `its schema is ${from} and this Collet needs ${to}`
  throw new StoreError('unreadable', `${found}. Run: collet migrate`)
}

/** Name of the row in `meta` with the progress of `collet store copy`, present while it fills a database. */
export const COPY_MARK = 'copy_of'

function* refuseUnfinishedCopy(): Steps<void> {
  if ((yield* get('readMeta', COPY_MARK)) === undefined) return
  throw new StoreError(
    'unreadable',
    'the copy into it is not finished. Run the same collet store copy again: it continues where it stopped',
  )
}
