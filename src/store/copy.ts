import { hash } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from '#kernel/base/errors'
import type { Row, SqlValue, Steps } from '#kernel/store/engine'
import type { KeyRing } from '#kernel/store/key-ring'
import { RowGuard } from '#kernel/store/row-mac'
import { integer, text, word } from '#kernel/store/rows'
import { COPY_MARK } from '#kernel/store/schema'
import { DEFINITION } from './collet-store.ts'
import { verifyJournal } from './verify.ts'

/**
 * Copies all rows of a store into an empty database (`collet store copy`), also between engines. Sealed bytes stay as they are, so
 * both stores have the same key. The progress is stored in the target with the rows themselves: an interrupted copy continues
 * there, and no server opens the target before it is complete and verified.
 */

export interface StoreTables {
  /** Version of the schema; 0 if there are no tables. */
  version(): Promise<number>
  /** Creates the current tables, empty. Must be called inside a transaction. */
  makeTables(): Promise<void>
  /** Writers that are known to be alive, each as host and process if known, or else as its id. */
  livingWriters(): Promise<readonly string[]>
  /** Prevents changes by other processes until `close` is called. */
  freeze(tables: readonly TableShape[]): Promise<void>
  query(text: string, ...values: SqlValue[]): Promise<readonly Row[]>
  insert(table: TableShape, rows: readonly Row[]): Promise<void>
  /** The highest number that a numbered table ever assigned, if the database stores it. */
  lastNumber(table: TableShape): Promise<number | undefined>
  /** Ensures that the next row gets a higher number than `last` and than every existing row. */
  raiseNumber(table: TableShape, last: number): Promise<void>
  transaction<T>(work: () => Promise<T>): Promise<T>
  run<T>(steps: Steps<T>): Promise<T>
  close(): Promise<void>
}

export interface TableShape {
  readonly name: string
  readonly columns: readonly { readonly name: string; readonly type: (typeof COLUMN_TYPES)[number] }[]
  /** Columns of the primary key, in its order. */
  readonly key: readonly string[]
  /** Selects the rows to copy. */
  readonly condition: string
}

const COLUMN_TYPES = ['INTEGER', 'TEXT', 'BLOB'] as const

export interface CopyProgress {
  readonly table: string
  readonly rows: number
  readonly total: number
}

export interface CopyResult {
  /** `already` if the target is already a complete copy. */
  readonly kind: 'copied' | 'already'
  readonly tables: readonly { readonly name: string; readonly rows: number }[]
  readonly chains: number
}

export async function copyTables(
  source: StoreTables,
  target: StoreTables,
  { keys, onProgress }: { readonly keys: KeyRing; onProgress(progress: CopyProgress): void },
): Promise<CopyResult> {
  const tables = currentTables()
  await refuseLivingWriters(source)
  await source.freeze(tables)
  // A writer may have started between the check and the freeze.
  await refuseLivingWriters(source)
  const content = await contentOf(source, tables)
  const begun = await target.transaction(() => begin(target, tables, content))
  if (begun === 'already') return resultOf('already', content)
  const copy = new RunningCopy(source, target, begun)
  const total = [...content.counts.values()].reduce((sum, rows) => sum + rows, 0)
  for (const table of tables) await copy.take(table, (rows) => onProgress({ table: table.name, rows, total }))
  await verifyCopy(target, tables, content, keys)
  await target.transaction(async () => {
    for (const table of tables) await target.raiseNumber(table, (await source.lastNumber(table)) ?? 0)
    await copy.end()
  })
  return resultOf('copied', content)
}

function resultOf(kind: CopyResult['kind'], { counts, heads }: Content): CopyResult {
  return { kind, tables: [...counts].map(([name, rows]) => ({ name, rows })), chains: heads.length }
}

/** Reads the tables from the schema itself. `meta`, which contains the progress of a copy, is last. */
function currentTables(): readonly TableShape[] {
  const database = new DatabaseSync(':memory:')
  try {
    for (const step of DEFINITION.migrations) database.exec(step)
    const names = database
      .prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .all()
      .map((row) => text(row, 'name'))
    const info = database.prepare('SELECT name, type, pk FROM pragma_table_info(?)')
    return [...names.filter((name) => name !== 'meta'), 'meta'].map((name) => {
      const columns = info.all(name)
      const key = columns
        .filter((row) => integer(row, 'pk') > 0)
        .sort((left, right) => integer(left, 'pk') - integer(right, 'pk'))
      return {
        name,
        columns: columns.map((row) => ({ name: text(row, 'name'), type: word(row, 'type', COLUMN_TYPES) })),
        key: key.map((row) => text(row, 'name')),
        condition: name === 'meta' ? COPIED_META : 'TRUE',
      }
    })
  } finally {
    database.close()
  }
}

/** Rows of `meta` that are not about the database itself. */
const COPIED_META = `name NOT IN ('schema_version', 'probe', '${COPY_MARK}')`

async function refuseLivingWriters(source: StoreTables): Promise<void> {
  const living = await source.livingWriters()
  if (living.length === 0) return
  throw new StoreError(
    'not_written',
    `the source is still used by a server: ${living.join(', ')}. Stop the server first, so that the copy misses no change; after a crash or a kill, wait ten seconds`,
  )
}

interface Content {
  readonly counts: ReadonlyMap<string, number>
  readonly heads: readonly string[]
}

/** Every writer starts its own chain, so equal heads mean equal contents. */
async function contentOf(tables: StoreTables, shapes: readonly TableShape[]): Promise<Content> {
  const counts = new Map<string, number>()
  for (const { name, condition } of shapes) {
    const [row = {}] = await tables.query(`SELECT count(*) AS n FROM ${name} WHERE ${condition}`)
    counts.set(name, integer(row, 'n'))
  }
  const heads =
    await tables.query(`SELECT w.id, g.n, g.link FROM writers w JOIN commit_groups g ON g.writer = w.no
    WHERE g.n = (SELECT max(n) FROM commit_groups WHERE writer = w.no) ORDER BY w.id`)
  return {
    counts,
    heads: heads.map((row) => headText(text(row, 'id'), integer(row, 'n'), text(row, 'link'))),
  }
}

function headText(writer: string, group: number, link: string): string {
  return `${writer}:${group}:${link}`
}

interface CopyMark {
  /** Digest of the source's contents when the copy started. */
  readonly origin: string
  readonly done: readonly string[]
  /** Key of the last copied row in the table in progress. */
  readonly after: readonly SqlValue[] | null
  readonly rows: number
}

/** Tables that have rows even in an empty store. The rows of the source replace them. */
const PREFILLED_TABLES: ReadonlySet<string> = new Set(['meta', 'key_generations'])

/** Returns the progress to continue from, or starts afresh. Runs in a transaction of the target. */
async function begin(
  target: StoreTables,
  tables: readonly TableShape[],
  content: Content,
): Promise<CopyMark | 'already'> {
  const fresh: CopyMark = { origin: originOf(content), done: [], after: null, rows: 0 }
  const version = await target.version()
  const wanted = DEFINITION.migrations.length
  if (version === 0) await target.makeTables()
  else if (version !== wanted) {
    const advice = version < wanted ? 'Run: collet migrate' : 'Use the Collet that wrote it'
    throw new StoreError('unreadable', `the target has schema version ${version}, not ${wanted}. ${advice}`)
  }
  const mark = await readMark(target)
  if (mark?.origin === fresh.origin) return mark
  if (mark === undefined && version > 0) {
    const found = await contentOf(target, tables)
    if (originOf(found) === fresh.origin) return 'already'
    if ([...found.counts].some(([name, rows]) => !PREFILLED_TABLES.has(name) && rows > 0))
      throw new StoreError(
        'not_written',
        'the target contains another store, or a copy that has been used in the meantime. It was not overwritten: name an empty database',
      )
  }
  // Removes an incomplete copy of an earlier state of the source, or the meta of an empty store.
  for (const { name, condition } of tables) await target.query(`DELETE FROM ${name} WHERE ${condition}`)
  await target.query('DELETE FROM meta WHERE name = ?', COPY_MARK)
  await target.query('INSERT INTO meta (name, value) VALUES (?, ?)', COPY_MARK, JSON.stringify(fresh))
  return fresh
}

function originOf({ counts, heads }: Content): string {
  return hash('sha256', JSON.stringify([...counts, ...heads]), 'base64url')
}

async function readMark(target: StoreTables): Promise<CopyMark | undefined> {
  const [row] = await target.query('SELECT value FROM meta WHERE name = ?', COPY_MARK)
  return row === undefined ? undefined : JSON.parse(text(row, 'value'))
}

/** Limits for one page: few enough rows for one statement, few enough bytes for one commit. */
const PAGE_ROWS = 1_000
const PAGE_BYTES = 4 * 1024 * 1024

/** A copy in progress. Each page is committed together with the new progress. */
class RunningCopy {
  readonly #source: StoreTables
  readonly #target: StoreTables
  #mark: CopyMark

  constructor(source: StoreTables, target: StoreTables, mark: CopyMark) {
    this.#source = source
    this.#target = target
    this.#mark = mark
  }

  async take(table: TableShape, onPage: (rows: number) => void): Promise<void> {
    const { done } = this.#mark
    if (done.includes(table.name)) return
    for (;;) {
      const rows = await this.#page(table)
      const last = rows.at(-1)
      const mark =
        last === undefined
          ? { ...this.#mark, done: [...done, table.name], after: null }
          : { ...this.#mark, after: keyOf(table, last), rows: this.#mark.rows + rows.length }
      await this.#target.transaction(async () => {
        await this.#target.insert(table, rows)
        await this.#move(mark)
      })
      onPage(mark.rows)
      if (last === undefined) return
    }
  }

  /** Removes the mark, so that servers can open the target. */
  async end(): Promise<void> {
    await this.#change('DELETE FROM meta WHERE name = ? AND value = ? RETURNING name', COPY_MARK)
  }

  async #move(mark: CopyMark): Promise<void> {
    const statement = 'UPDATE meta SET value = ? WHERE name = ? AND value = ? RETURNING name'
    await this.#change(statement, JSON.stringify(mark), COPY_MARK)
    this.#mark = mark
  }

  async #change(statement: string, ...values: SqlValue[]): Promise<void> {
    const changed = await this.#target.query(statement, ...values, JSON.stringify(this.#mark))
    if (changed.length === 1) return
    const advice = 'another process is copying into the same target. Wait until it has finished'
    throw new StoreError('not_written', advice)
  }

  /** Returns the next rows by key. Sizes are read first, because a thousand rows of several megabytes would be too much. */
  async #page(table: TableShape): Promise<readonly Row[]> {
    const { name, columns, key, condition } = table
    const order = key.join(', ')
    const { after } = this.#mark
    const rest =
      after === null ? condition : `${condition} AND (${order}) > (${after.map(() => '?').join(', ')})`
    const bytes = columns
      .filter(({ type }) => type !== 'INTEGER')
      .map((column) => `coalesce(octet_length(${column.name}), 0)`)
    const sizes = await this.#source.query(
      `SELECT ${order}, ${['0', ...bytes].join(' + ')} AS bytes FROM ${name} WHERE ${rest} ORDER BY ${order} LIMIT ${PAGE_ROWS}`,
      ...(after ?? []),
    )
    const last = lastThatFits(sizes)
    if (last === undefined) return []
    return await this.#source.query(
      `SELECT ${columns.map((column) => column.name).join(', ')} FROM ${name}
        WHERE ${rest} AND (${order}) <= (${key.map(() => '?').join(', ')}) ORDER BY ${order}`,
      ...(after ?? []),
      ...keyOf(table, last),
    )
  }
}

function lastThatFits(sizes: readonly Row[]): Row | undefined {
  let bytes = 0
  const firstExcess = sizes.findIndex((row, index) => {
    bytes += integer(row, 'bytes')
    return index > 0 && bytes > PAGE_BYTES
  })
  return firstExcess === -1 ? sizes.at(-1) : sizes[firstExcess - 1]
}

function keyOf({ key }: TableShape, row: Row): readonly SqlValue[] {
  return key.map((column) => sqlValue(row[column]))
}

/** Checks that a value from one database can be a parameter for another. */
export function sqlValue(value: unknown): SqlValue {
  if (value === null || typeof value === 'string' || typeof value === 'number' || value instanceof Uint8Array)
    return value
  throw new StoreError('unreadable', 'a stored value is neither text, number nor bytes')
}

/** Checks that all counts and heads are equal, and that every link and MAC is valid under the key. */
async function verifyCopy(
  target: StoreTables,
  tables: readonly TableShape[],
  expected: Content,
  keys: KeyRing,
): Promise<void> {
  const { counts, heads } = await contentOf(target, tables)
  for (const [name, rows] of expected.counts) {
    const copied = counts.get(name)
    if (copied !== rows)
      throw new StoreError('unknown', `the copy has ${copied} rows in ${name}, but the source has ${rows}`)
  }
  const verified = await target.run(
    verifyJournal({ keys, guard: new RowGuard(keys, DEFINITION.guarded) }, undefined),
  )
  const linked = new Set(verified.heads.map(({ writer, group, link }) => headText(writer, group, link)))
  if (verified.ok && heads.join() === expected.heads.join() && heads.every((head) => linked.has(head))) return
  throw new StoreError(
    'unreadable',
    'the journal in the copy is not intact, so servers cannot open the copy. Check the source: collet journal verify',
  )
}
