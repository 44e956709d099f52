import { constants, DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { Worker } from 'node:worker_threads'

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
// What is left is the private database: no files (ATTACH, VACUUM INTO), no settings, no extensions.
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

/** JSON has no integers beyond 2^53 and no bytes: they travel as text. */
function toCell(value: SQLOutputValue): string | number | null {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (typeof value !== 'bigint') return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

process.on('message', ({ id, question }: { id: number; question: NotebookQuestion }) => {
  process.send?.({ id, answer: answer(question) })
})

// A server that is killed ends nothing, and a statement that never ends hears nothing: somebody else has to look.
new Worker(
  `const parent = process.ppid
   setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 1_000)`,
  { eval: true },
).unref()
