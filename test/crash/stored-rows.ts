import { DatabaseSync } from 'node:sqlite'

/** The rows of a question, asked of the database itself. */
export type ReadRows = (sql: string) => Promise<readonly unknown[]>

export function sqliteRows(file: string): ReadRows {
  return async (sql) => {
    const database = new DatabaseSync(file, { readOnly: true })
    try {
      return database.prepare(sql).all()
    } finally {
      database.close()
    }
  }
}
