import { once } from 'node:events'
import { createServer } from 'node:http'
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The address where a test file requests its own database. */
    readonly databases: string
  }
}

/**
 * The PostgreSQL that all files of a run share: that of `DATABASE_URL`, or one that is started when the first file asks for
 * a database. It lives in this process, which outlives every worker, and ends with it however it ends.
 */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  // Provided values reach every project.
  if (!project.isRootProject()) return undefined
  const given = process.env.DATABASE_URL
  let starting: ReturnType<typeof startServer> | undefined
  const databases: string[] = []
  const create = async (name: string): Promise<string> => {
    starting ??= given === undefined ? startServer() : Promise.resolve({ url: given, stop: undefined })
    const { url } = await starting
    databases.push(name)
    await administer(url, `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`)
    return Object.assign(new URL(url), { pathname: name }).href
  }
  const front = createServer((request, response) => {
    create(request.url?.slice(1) ?? '').then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  }).listen(0, '127.0.0.1')
  await once(front, 'listening')
  const address = front.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  project.provide('databases', `http://127.0.0.1:${address.port}`)
  return async () => {
    front.closeAllConnections()
    front.close()
    const server = await starting?.catch(() => undefined)
    if (server?.stop !== undefined) await server.stop()
    else if (server !== undefined)
      for (const name of databases)
        await administer(server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }
}

/** Autovacuum would visit every database in turn, and none lives long enough to need it. */
const SETTINGS = ['max_connections=400', 'autovacuum=off', 'full_page_writes=off']

async function startServer(): Promise<{
  readonly url: string
  readonly stop?: (() => Promise<void>) | undefined
}> {
  const server = await startPostgres({ settings: SETTINGS })
  return { url: server.url, stop: () => server.stop() }
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
