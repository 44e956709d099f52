import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'

export interface PostgresServer {
  /** An empty database, or a copy of one. */
  createDatabase(name: string, template?: string): Promise<string>
  dropDatabase(name: string): Promise<void>
  stop(): Promise<void>
}

/** Starts a PostgreSQL of its own for a test file; it ends with that file, however the file ends. */
export async function startPostgres(): Promise<PostgresServer> {
  const file = fileURLToPath(new URL('postgres-process.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const port = await Promise.race([firstLine(child.stdout), ended.then(() => undefined)])
  if (port === undefined) throw new Error('PostgreSQL did not start')
  const urlOf = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`
  const admin = new Client({ connectionString: urlOf('postgres') })
  await admin.connect()
  return {
    async createDatabase(name, template = 'template1') {
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template}`)
      return urlOf(name)
    },
    async dropDatabase(name) {
      await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    },
    async stop() {
      await admin.end()
      child.stdin.end()
      await ended
    },
  }
}

async function firstLine(stream: NodeJS.ReadableStream): Promise<string | undefined> {
  for await (const line of createInterface({ input: stream })) return line
  return undefined
}
