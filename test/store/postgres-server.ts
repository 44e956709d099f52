import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'

export interface PostgresServer {
  /** An empty database; gives its URL. */
  createDatabase(name: string): Promise<string>
  stop(): Promise<void>
}

export interface PostgresOptions {
  /** `name=value` */
  readonly settings?: readonly string[]
}

/** Starts a PostgreSQL of its own for a test file; it ends with that file, however the file ends. */
export async function startPostgres({ settings = [] }: PostgresOptions = {}): Promise<PostgresServer> {
  const file = fileURLToPath(new URL('postgres-process.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file, ...settings], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const port = await Promise.race([firstLine(child.stdout), ended.then(() => undefined)])
  if (port === undefined) throw new Error('PostgreSQL did not start')
  const urlOf = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`
  const admin = new Client({ connectionString: urlOf('postgres') })
  await admin.connect()
  return {
    async createDatabase(name) {
      await admin.query(`CREATE DATABASE ${name}`)
      return urlOf(name)
    },
    async stop() {
      await admin.end()
      child.stdin.end()
      await ended
    },
  }
}

/** Takes everything out of the tables of a store: far quicker than another database. */
export async function emptyDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('meta', 'key_generations')",
    )
    const deletes = rows.map(({ name }) => `DELETE FROM ${name};`)
    await client.query(
      `${deletes.join(' ')} DELETE FROM meta WHERE name NOT IN ('identity', 'schema_version')`,
    )
  } finally {
    await client.end()
  }
}

async function firstLine(stream: NodeJS.ReadableStream): Promise<string | undefined> {
  for await (const line of createInterface({ input: stream })) return line
  return undefined
}
