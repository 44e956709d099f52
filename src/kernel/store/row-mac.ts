import { StoreError } from '#kernel/base/errors'
import { isSameSecret } from '#kernel/base/hash'
import { type Row, type StatementRequest, type Steps, statements } from './engine.ts'
import type { Generation, KeyRing, ResealableRows } from './key-ring.ts'
import { generationOfTag, tagOf } from './key-ring.ts'
import type { GuardedTable } from './module.ts'
import { text } from './rows.ts'

/**
 * MACs of guarded rows (`GuardedTable`). Writers seal a row after they change it; the engine checks rows as it reads them.
 * A row that was changed without the key is refused and reported, never used.
 */

const { get, all, write } = statements<string>()

/** The statements of a guarded table, by name: read one row, write its MAC, read all rows, read a page of rows. */
export function guardedQueries({ table, names }: GuardedTable): Readonly<Record<string, string>> {
  const key = names.join(', ')
  const matchesKey = names.map((column) => `${column} = ?`).join(' AND ')
  const placeholders = names.map(() => '?').join(', ')
  return {
    [`${table} row`]: `SELECT * FROM ${table} WHERE ${matchesKey}`,
    [`${table} seal`]: `UPDATE ${table} SET mac = ? WHERE ${matchesKey}`,
    [`${table} all`]: `SELECT * FROM ${table}`,
    [`${table} page`]: `SELECT * FROM ${table} WHERE (${key}) > (${placeholders}) ORDER BY ${key} LIMIT ?`,
  }
}

export function* allRows({ table }: GuardedTable): Steps<readonly Row[]> {
  return yield* all(`${table} all`)
}

/** Each value is preceded by its length, so that no two different rows have the same text. */
export function rowMac({ no, rows }: Generation, { table, columns }: GuardedTable, row: Row): string {
  const parts = columns.flatMap((column) => {
    const value = row[column]
    const written = value === null || value === undefined ? '' : String(value)
    return [`\n${column} ${value === null ? 'null' : typeof value} ${Buffer.byteLength(written)} `, written]
  })
  return tagOf(no, rows, table, ...parts)
}

/** A MAC under a past generation is not accepted, because a rotation gives every intact row a new MAC. */
function hasOwnMac(keys: KeyRing, table: GuardedTable, row: Row): boolean {
  if (typeof row.mac !== 'string') return false
  const generation = keys.find(generationOfTag(row.mac))
  if (generation === undefined || generation.no < keys.current.floor) return false
  return isSameSecret(row.mac, rowMac(generation, table, row))
}

/** Names a row for the operator by its primary key, never by its contents. */
export function nameOfRow({ table, names }: Pick<GuardedTable, 'table' | 'names'>, row: Row): string {
  return `${table} ${names.map((column) => String(row[column])).join(' ')}`
}

/** Checks guarded rows as they are read; each store has one guard. */
export class RowGuard {
  readonly tables: readonly GuardedTable[]
  readonly #keys: KeyRing
  /** The statements whose answers `check` must see, with their tables. */
  readonly checkedReads: ReadonlyMap<string, GuardedTable>
  readonly #reported = new Set<string>()
  readonly #onForeign: (row: string, table: string) => void

  constructor(
    keys: KeyRing,
    tables: readonly GuardedTable[],
    onForeign: (row: string, table: string) => void = () => undefined,
  ) {
    this.#keys = keys
    this.tables = tables
    this.checkedReads = new Map(
      tables.flatMap((table) => table.checkedReads.map((query) => [query, table] as const)),
    )
    this.#onForeign = onForeign
  }

  /**
   * Called by the engine with the answers of `checkedReads`. A foreign row is one that was changed without the key. A single
   * foreign row is an error for the operator, never "not found" (rule 14); in a list it is left out and reported.
   */
  check(request: StatementRequest): void {
    if (request.kind === 'write') return
    const table = this.checkedReads.get(request.query)
    if (table === undefined) return
    if (request.kind === 'all') {
      request.answer = request.answer.filter((row) => this.isOwn(table, row))
    } else if (request.answer !== undefined && !this.isOwn(table, request.answer)) {
      throw new StoreError(
        'unreadable',
        `${nameOfRow(table, request.answer)} was changed by someone without the key, so it is refused. Run: collet journal verify`,
      )
    }
  }

  /** Reports each foreign row once. */
  isOwn(table: GuardedTable, row: Row): boolean {
    if (hasOwnMac(this.#keys, table, row)) return true
    const name = nameOfRow(table, row)
    if (!this.#reported.has(name)) {
      this.#reported.add(name)
      this.#onForeign(name, table.table)
    }
    return false
  }
}

/** Gives a changed row its new MAC. The caller has already read the row, which checked its previous MAC. */
export function* sealRow(keys: KeyRing, table: GuardedTable, ...names: readonly string[]): Steps<void> {
  yield* refuseForeignTriggers()
  const row = yield* get(`${table.table} row`, ...names)
  if (row !== undefined) yield* write(`${table.table} seal`, rowMac(keys.current, table, row), ...names)
}

/** Gives rows a MAC under the current generation, except foreign rows. */
export function resealingOf(table: GuardedTable): ResealableRows {
  const namesOf = (row: Row) => table.names.map((column) => text(row, column))
  return {
    what: table.label ?? table.table,
    page: `${table.table} page`,
    start: table.names.map(() => ''),
    after: namesOf,
    isDue: (row, keys) => generationOfTag(String(row.mac)) !== keys.current.no && hasOwnMac(keys, table, row),
    *reseal(group, row) {
      if (table.resealContents !== undefined) yield* table.resealContents(group, row)
      yield* sealRow(group.keys, table, ...namesOf(row))
    },
  }
}

/** Names of the triggers in the database. Collet creates none: a trigger could change rows while they are written. */
export function* foreignTriggers(): Steps<readonly string[]> {
  return (yield* all('triggers')).map((row) => text(row, 'name'))
}

/** Runs while no other process can write, so that the row that is signed is the row that was written. */
export function* refuseForeignTriggers(): Steps<void> {
  const [name] = yield* foreignTriggers()
  if (name === undefined) return
  throw new StoreError(
    'unreadable',
    `the database has a trigger that Collet did not create (${name}). Restore a backup, or drop the trigger and run \`collet journal verify\``,
  )
}

export const queries = { triggers: "SELECT name FROM sqlite_schema WHERE type = 'trigger'" } as const
