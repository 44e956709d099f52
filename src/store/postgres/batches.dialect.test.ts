import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DEFINITION } from '#store/collet-store'
import { createDatabase } from '../../../test/store/databases.ts'
import { numbered, postgresSchema, postgresText, SCALAR_FUNCTIONS } from './batches.ts'
import { PARTS_TABLES } from './journal-parts.ts'

const { migrations: MIGRATIONS, queries: QUERIES } = DEFINITION

/** Statements that read every row of a table, each with the reason. */
const SCANS: Readonly<Record<string, string>> = {
  allWriters: 'one row per process that has written',
  oldChains: 'one row per process that has written',
  deleteChallenges: 'a few rows, and stopped by its limit',
  'approvals all': 'a check of the whole store',
  'approval_decisions all': 'a check of the whole store',
  'key_owners all': 'a check of the whole store',
  'api_keys all': 'a check of the whole store',
  'pins all': 'a check of the whole store',
  'standing_rules all': 'a check of the whole store',
  activeAlerts: 'one row per alert that is active',
  receiptKeys: 'one row per key that signed receipts',
}
const NAMES = Object.keys(QUERIES)

let client: Client

beforeAll(async () => {
  client = new Client({ connectionString: await createDatabase('dialect') })
  await client.connect()
  await client.query(SCALAR_FUNCTIONS)
  for (const step of MIGRATIONS) await client.query(postgresSchema(step))
  await client.query(PARTS_TABLES)
})
afterAll(async () => {
  await client.end()
})

it('parameters are numbered, and a question mark in quotes is unchanged', () => {
  expect(numbered("SELECT ? WHERE a = '?''?' AND b = ?")).toBe("SELECT $1 WHERE a = '?''?' AND b = $2")
})

describe('every statement', () => {
  it('is valid in both databases, with the same number of parameters', async () => {
    const sqlite = new DatabaseSync(':memory:')
    for (const step of MIGRATIONS) sqlite.exec(step)
    const refused: string[] = []
    for (const name of NAMES) {
      sqlite.prepare(QUERIES[name] ?? '')
      try {
        await client.query(`PREPARE "${name}" AS ${postgresText(name)}`)
      } catch (error) {
        refused.push(`${name}: ${String(error)}`)
      }
    }
    expect(refused).toEqual([])
    sqlite.close()
  })

  it('uses 64-bit numbers, which times in milliseconds need', async () => {
    const { rows } = await client.query(
      `SELECT name FROM pg_prepared_statements WHERE 'integer'::regtype = ANY (parameter_types)`,
    )
    expect(rows.map(({ name }) => name)).toEqual([])
  })

  it('finds its rows by an index, and never scans a table', async () => {
    await client.query('SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off')
    const scanning: string[] = []
    for (const name of NAMES) {
      const { rows } = await client.query(`EXPLAIN (GENERIC_PLAN) ${postgresText(name)}`)
      const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
      // A sequential scan that remains although seqscan is off means that there is no index for it.
      if (/Seq Scan on (?!pg_)/.test(plan)) scanning.push(name)
    }
    expect(scanning.filter((name) => !(name in SCANS))).toEqual([])
  })

  it('uses no column name that PostgreSQL treats as something else', () => {
    const reserved = /(?<![."\w])(user|current_date|current_time|session_user)\b(?!["(])/i
    expect(NAMES.filter((name) => reserved.test(QUERIES[name] ?? ''))).toEqual([])
  })
})
