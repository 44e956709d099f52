import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import { type RunningServer, startServer } from '#server/start-server'
import { createDatabase } from '../store/databases.ts'
import { testSettings } from '../test-settings.ts'

const GRACE_MS = 200

/** Servers in this process on one PostgreSQL database, as behind a load balancer. */
export interface Replicas {
  readonly servers: readonly RunningServer[]
  /** URL of one server. */
  url(index: number): string
  /** URL of each server in turn. */
  next(): string
  /** Starts another server on the same database, possibly with another configuration. */
  start(changes?: Partial<Settings>): Promise<RunningServer>
  close(): Promise<void>
}

/** Index of the server that a tool runs in: each server has its own tools. */
export type ToolsOf = (server: number) => readonly object[]

/** Three servers with the same configuration; `toolsOf` makes the tools of each. */
export async function startReplicas(
  database: string,
  toolsOf: ToolsOf,
  changes: Partial<Settings> = {},
): Promise<Replicas> {
  const store = await createDatabase(database)
  const masterKey = randomBytes(32)
  const servers: RunningServer[] = []
  const folders: string[] = []
  const start = async (more: Partial<Settings> = {}): Promise<RunningServer> => {
    const tools: readonly Tool[] = requireTools(toolsOf(servers.length))
    const settings = testSettings({ store, masterKey, tools, ...changes, ...more })
    folders.push(settings.dataFolder)
    const server = await startServer(settings, { graceMs: GRACE_MS })
    servers.push(server)
    return server
  }
  for (const _ of [0, 1, 2]) await start()
  let turn = 0
  const url = (index: number): string => {
    const server = servers[index % servers.length]
    if (server === undefined) throw new Error('no such server')
    return server.url
  }
  return {
    servers,
    url,
    next() {
      turn += 1
      return url(turn)
    },
    start,
    async close() {
      await Promise.all(servers.map((server) => server.close()))
      for (const folder of folders) rmSync(folder, { recursive: true, force: true })
    },
  }
}
