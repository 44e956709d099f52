import { StoreError } from '#kernel/base/errors'
import { get, type Steps } from './engine.ts'
import type { KeyRing } from './key-ring.ts'
import { refuseForeignTriggers } from './row-mac.ts'

/**
 * Versions of the tables: which steps a database still needs, and who may take them. Both engines use it when they open a
 * database. A released step never changes again: a change of the tables is a step of its own, at the end.
 */

/** What a database of some version still lacks, once it is certain that it is ours to change (rule 14). */
export function* missingSteps(
  version: number,
  keys: KeyRing,
  migrations: readonly string[],
): Steps<readonly string[]> {
  yield* refuseForeignTriggers()
  if (version > migrations.length) {
    throw new StoreError(
      'unreadable',
      `it was written by a newer Collet (schema ${version}); this one knows ${migrations.length}`,
    )
  }
  if (version > 0) {
    yield* refuseUnfinishedCopy()
    yield* keys.load()
  }
  return migrations.slice(version)
}

/** What opening a database may do to its tables: bring them up to date, insist that they are, or only look. */
export type SchemaMode = 'migrate' | 'require' | 'look'

/** From which version to which a database was brought, or would be. */
export interface Migration {
  readonly from: number
  readonly to: number
}

/** Commands of operators, and servers whose role may not change tables, leave that to `collet migrate`. */
export function refuseOutdated({ from, to }: Migration, mode: SchemaMode): void {
  if (mode !== 'require' || from === to) return
  const found = from === 0 ? 'it holds no store yet' : `its schema is ${from} and this Collet needs ${to}`
  throw new StoreError('unreadable', `${found}. Run: collet migrate`)
}

/** In `meta` while `collet store copy` fills a database: how far it came. */
export const COPY_MARK = 'copy_of'

function* refuseUnfinishedCopy(): Steps<void> {
  if ((yield* get('readMeta', COPY_MARK)) === undefined) return
  throw new StoreError(
    'unreadable',
    'the copy into it is not finished. Run the same collet store copy again: it goes on where it was',
  )
}
