import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'

/** Rows of a query, read directly from the database. */
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

export function postgresRows(url: string): ReadRows {
  return async (sql) => {
    const client = new Client({ connectionString: url })
    await client.connect()
    try {
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }
}
