import { constants, DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { Worker } from 'node:worker_threads'

/**
 * The process of one notebook: an SQLite database in memory that runs the statements of its session. `notebook.ts`
 * starts it. Invariant: no statement can reach files, settings or extensions, and memory is limited.
 */

export interface NotebookQuestion {
  readonly sql: string
  readonly parameters: readonly (string | number | null)[]
}

export type NotebookAnswer =
  | {
      readonly ok: true
      readonly result: { columns: string[]; rows: (string | number | null)[][]; changes: number }
    }
  | { readonly ok: false; readonly problem: string }

const MAX_ROWS = 1_000
/** 64 MiB of 4 KiB pages. */
const MAX_PAGES = 16_384
const MAX_VALUE_BYTES = 1_000_000

const database = new DatabaseSync(':memory:', { limits: { length: MAX_VALUE_BYTES } })
database.exec(`PRAGMA max_page_count = ${MAX_PAGES}; PRAGMA temp_store = MEMORY;`)
// Only the private database remains: no files (ATTACH, VACUUM INTO), no settings, no extensions.
database.setAuthorizer((action, name) => {
  if (action === constants.SQLITE_ATTACH || action === constants.SQLITE_DETACH) return constants.SQLITE_DENY
  if (action === constants.SQLITE_PRAGMA) return constants.SQLITE_DENY
  if (action === constants.SQLITE_FUNCTION && name === 'load_extension') return constants.SQLITE_DENY
  return constants.SQLITE_OK
})

function answer({ sql, parameters }: NotebookQuestion): NotebookAnswer {
  try {
    const before = totalChanges()
    const statement = database.prepare(sql)
    if (statement.sourceSQL.length < sql.trimEnd().length)
      return { ok: false, problem: 'Send one statement at a time.' }
    const columns = statement.columns().map(({ name }) => name)
    const rows: (string | number | null)[][] = []
    statement.setReturnArrays(true)
    statement.setReadBigInts(true)
    for (const row of statement.iterate(...parameters)) {
      rows.push(Object.values(row).map(toCell))
      if (rows.length === MAX_ROWS) break
    }
    return { ok: true, result: { columns, rows, changes: totalChanges() - before } }
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) }
  }
}

function totalChanges(): number {
  return Number(database.prepare('SELECT total_changes() AS n').get()?.n ?? 0)
}

/** JSON has no integers beyond 2^53 and no bytes, so they travel as text. */
function toCell(value: SQLOutputValue): string | number | null {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (typeof value !== 'bigint') return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

process.on('message', ({ id, question }: { id: number; question: NotebookQuestion }) => {
  process.send?.({ id, answer: answer(question) })
})

// Child processes outlive a killed server, and an endless statement blocks this thread, so a worker watches the parent.
new Worker(
  `const parent = process.ppid
   setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 1_000)`,
  { eval: true },
).unref()
