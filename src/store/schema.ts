import { StoreError } from '#core/errors'
import { queries as approvalQueries, tables as approvalTables } from './calls/approvals.ts'
import { queries as callChangeQueries } from './calls/call-changes.ts'
import { queries as callQueries, tables as callTables } from './calls/calls.ts'
import { queries as operatorQueries } from './calls/operator-views.ts'
import { queries as recoveryQueries } from './calls/recovery.ts'
import { queries as rejectionQueries, tables as rejectionTables } from './calls/rejections.ts'
import { queries as runQueries, tables as runTables } from './calls/runs.ts'
import { queries as workflowQueries } from './calls/workflows.ts'
import { queries as chainQueries, tables as chainTables } from './commit-queue.ts'
import { queries as consentQueries, tables as consentTables } from './consents.ts'
import { get, type Steps } from './engine.ts'
import { queries as importQueries, tables as importTables, sealPlainPins } from './imports.ts'
import { queries as journalQueries } from './journal.ts'
import { type KeyRing, queries as ringQueries, tables as ringTables } from './key-ring.ts'
import { queries as keyQueries, tables as keyTables } from './keys.ts'
import { queries as limitQueries, tables as limitTables } from './limits.ts'
import { queries as noticeQueries, tables as noticeTables } from './notices.ts'
import { queries as protocolQueries, tables as protocolTables } from './protocol-state.ts'
import { queries as rotationQueries, tables as rotationTables } from './rotation.ts'
import { queries as metaQueries, tables as metaTables, refuseForeignTriggers } from './rows.ts'
import { queries as vaultQueries, tables as vaultTables } from './vault.ts'
import { queries as verifyQueries } from './verify.ts'

/**
 * Every statement, from the module that uses it. Parameters are positional. Each text is one that SQLite and PostgreSQL
 * both understand; `max` and `min` of two values are functions that the schema of PostgreSQL adds.
 */
export const QUERIES = {
  ...approvalQueries,
  ...callChangeQueries,
  ...callQueries,
  ...operatorQueries,
  ...recoveryQueries,
  ...rejectionQueries,
  ...runQueries,
  ...workflowQueries,
  ...chainQueries,
  ...consentQueries,
  ...importQueries,
  ...journalQueries,
  ...keyQueries,
  ...limitQueries,
  ...noticeQueries,
  ...protocolQueries,
  ...metaQueries,
  ...ringQueries,
  ...rotationQueries,
  ...vaultQueries,
  ...verifyQueries,
} as const

export type QueryName = keyof typeof QUERIES

/**
 * From nothing to the tables of today, one step per version. Once a version is released its step never changes again: a
 * change of the tables is then a step of its own, at the end.
 */
export const MIGRATIONS: readonly string[] = [
  [
    metaTables,
    ringTables,
    rotationTables,
    chainTables,
    callTables,
    runTables,
    approvalTables,
    consentTables,
    vaultTables,
    keyTables,
    importTables,
    limitTables,
    protocolTables,
  ].join(''),
  noticeTables,
  rejectionTables,
  // The rows themselves are rewritten by `upgradeRows`.
  'UPDATE pin_sources SET revision = revision + 1 WHERE revision > 0;',
  'ALTER TABLE writers ADD COLUMN place TEXT;',
  'ALTER TABLE calls ADD COLUMN ran_ms INTEGER;',
]

const SEALED_PINS = 4

/** What a step changes in rows that only their keys can open or sign; follows the steps, in their transaction. */
export function* upgradeRows(migration: Migration, keys: KeyRing): Steps<void> {
  if (leavesRemains(migration)) yield* sealPlainPins(keys)
}

/** Whether an upgrade took something out of rows that must not stay in freed pages either. */
export function leavesRemains({ from, to }: Migration): boolean {
  return from > 0 && from < SEALED_PINS && to >= SEALED_PINS
}

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
