import { type PostgresServer, startPostgres } from '../test/store/postgres-server.ts'

let running: Promise<PostgresServer> | undefined
let made = 0

/** An empty database of a PostgreSQL that waits for the disk, as one in use does; started with the first. */
export async function createDatabase(): Promise<string> {
  running ??= startPostgres({ settings: ['fsync=on', 'max_connections=200'] })
  made += 1
  return await (await running).createDatabase(`bench_${made}`)
}

export async function stopDatabase(): Promise<void> {
  await (await running)?.stop()
}
