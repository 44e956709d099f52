import { Client } from 'pg'
import { type PostgresServer, startPostgres } from '../test/store/postgres-server.ts'

let running: Promise<PostgresServer> | undefined
let made = 0
let version: string | undefined

/** Creates an empty database. The first call starts PostgreSQL, which waits for the disk as in production. */
export async function createDatabase(): Promise<string> {
  running ??= startPostgres({ settings: ['fsync=on', 'max_connections=200'] })
  made += 1
  const [server, name] = [await running, `bench_${made}`]
  version ??= await askVersion(server.url)
  return await server.createDatabase(name)
}

/** Version of the PostgreSQL that was used, even after it was stopped; `undefined` if none was used. */
export function databaseVersion(): string | undefined {
  return version
}

async function askVersion(url: string): Promise<string> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ server_version: string }>('SHOW server_version')
    return rows[0]?.server_version ?? 'unknown'
  } finally {
    await client.end()
  }
}

export async function stopDatabase(): Promise<void> {
  await (await running)?.stop()
}
