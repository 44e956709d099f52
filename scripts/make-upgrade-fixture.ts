import { hash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { VERSION } from '#server/version'
import { postgresSchema, SCALAR_FUNCTIONS } from '#store/postgres/batches'
import { PARTS_TABLES } from '#store/postgres/journal-parts'
import { MIGRATIONS } from '#store/schema'
import { openStore } from '#store/stores'
import { liveIn, lookAround } from '../test/store/lived-in.ts'
import { startPostgres } from '../test/store/postgres-server.ts'

/**
 * Writes down a lived-in store of each engine as this version makes it, for test/store/upgrade.test.ts. Run it when a version is
 * released, and before the first one whenever the tables change:
 *
 *     npx node --conditions=collet-source scripts/make-upgrade-fixture.ts && npx biome check --write test/store/upgrade
 */
const masterKey = Buffer.alloc(32, 'upgrade')
const folder = new URL(`../test/store/upgrade/${VERSION}/`, import.meta.url)
const dataFolder = mkdtempSync(join(tmpdir(), 'collet-fixture-'))
const postgres = await startPostgres()
try {
  mkdirSync(folder, { recursive: true })
  const file = join(dataFolder, 'collet.db')
  const far = await postgres.createDatabase('fixture')
  const facts = {
    version: VERSION,
    schema: MIGRATIONS.length,
    steps: hash('sha256', MIGRATIONS.join('\0'), 'base64url'),
    masterKey: masterKey.toString('base64'),
    sqlite: await live(`sqlite:${file}`),
    postgres: await live(far),
  }
  write('facts.json', `${JSON.stringify(facts, undefined, 2)}\n`)
  write('sqlite.sql', dumpSqlite(file))
  write('postgres.sql', await dumpPostgres(far))
} finally {
  await postgres.stop()
  rmSync(dataFolder, { recursive: true })
}

async function live(url: string) {
  const open = () => openStore(url, { dataFolder, masterKey, mode: 'server' })
  await liveIn(open)
  const store = await open()
  try {
    const { heads } = await store.verify()
    return { heads, seen: await lookAround(store) }
  } finally {
    await store.close()
  }
}

function dumpSqlite(file: string): string {
  const database = new DatabaseSync(file)
  try {
    const made = database
      .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
      .all()
    const tables = database
      .prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .all()
    return lines([
      ...made.map(({ sql }) => String(sql)),
      ...tables.flatMap(({ name }) =>
        inserts(String(name), database.prepare(`SELECT * FROM ${name}`).all(), 'VALUES'),
      ),
      `PRAGMA user_version = ${MIGRATIONS.length}`,
    ])
  } finally {
    database.close()
  }
}

async function dumpPostgres(url: string): Promise<string> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows: tables } = await client.query(
      `SELECT c.relname AS name, EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attidentity <> '') AS numbered
        FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`,
    )
    const parts: string[] = [SCALAR_FUNCTIONS, ...MIGRATIONS.map(postgresSchema), PARTS_TABLES]
    for (const { name, numbered } of tables) {
      const { rows } = await client.query(`SELECT * FROM ${name}`)
      parts.push(...inserts(name, rows, 'OVERRIDING SYSTEM VALUE VALUES'))
      if (numbered && rows.length > 0) parts.push(`SELECT setval('${name}_no_seq', max(no)) FROM ${name}`)
    }
    return lines(parts)
  } finally {
    await client.end()
  }
}

function inserts(table: string, rows: readonly Record<string, unknown>[], how: string): readonly string[] {
  return rows.map((row) => {
    const bytes = how === 'VALUES' ? (hex: string) => `X'${hex}'` : (hex: string) => `'\\x${hex}'`
    const values = Object.values(row).map((value) => literal(value, bytes))
    return `INSERT INTO ${table} (${Object.keys(row).join(', ')}) ${how} (${values.join(', ')})`
  })
}

function literal(value: unknown, bytes: (hex: string) => string): string {
  if (value === null) return 'NULL'
  if (value instanceof Uint8Array) return bytes(Buffer.from(value).toString('hex'))
  return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`
}

function lines(statements: readonly string[]): string {
  return `${statements.map((statement) => statement.trim().replace(/;$/, '')).join(';\n')};\n`
}

function write(name: string, text: string): void {
  writeFileSync(new URL(name, folder), text)
}
