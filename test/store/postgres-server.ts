import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'

/** Controls of a server. `kill` leaves the data unchanged, and `start` continues with it. */
type PostgresOrder = 'start' | 'kill' | 'pause' | 'resume' | 'fill' | 'free'

export interface PostgresServer {
  /** URL of the database that every server has. */
  readonly url: string
  /** Creates an empty database; returns its URL. */
  createDatabase(name: string): Promise<string>
  order(order: PostgresOrder): Promise<void>
  stop(): Promise<void>
}

export interface PostgresOptions {
  /** `name=value` */
  readonly settings?: readonly string[]
  /** Size of a separate disk in memory, which a test can fill; needs bubblewrap. */
  readonly diskMb?: number
}

/** Starts a PostgreSQL for tests that kill or measure it; others share one (databases.ts). It ends with this process. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const disk = options.diskMb === undefined ? undefined : mkdtempSync(join(tmpdir(), 'collet-disk-'))
  const child = startProcess(options, disk)
  const ended = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const nextLine = async () =>
    await Promise.race([lines.next().then(({ value }) => value), ended.then(() => undefined)])
  const port = await nextLine()
  if (port === undefined) throw new Error('PostgreSQL did not start')
  const urlOf = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`
  const url = urlOf('postgres')
  return {
    url,
    async createDatabase(name) {
      const admin = new Client({ connectionString: url })
      await admin.connect()
      await admin.query(`CREATE DATABASE ${name}`)
      await admin.end()
      return urlOf(name)
    },
    async order(order) {
      child.stdin.write(`${order}\n`)
      const line = await nextLine()
      if (line !== 'done') throw new Error(`PostgreSQL did not carry out "${order}": ${line}`)
    },
    async stop() {
      child.stdin.end()
      await ended
      if (disk !== undefined) rmSync(disk, { recursive: true, force: true })
    },
  }
}

function startProcess({ settings = [], diskMb }: PostgresOptions, disk: string | undefined) {
  const file = fileURLToPath(new URL('postgres-process.ts', import.meta.url))
  const command = [process.execPath, '--disable-warning=ExperimentalWarning', file, ...settings]
  const stdio = ['pipe', 'pipe', 'inherit'] as const
  if (disk === undefined || diskMb === undefined) {
    return spawn(process.execPath, command.slice(1), { stdio: [...stdio] })
  }
  // Another user inside: PostgreSQL refuses to run as root.
  const nobody = ['--unshare-user', '--uid', '65534', '--gid', '65534']
  const mounts = ['--dev-bind', '/', '/', '--size', String(diskMb * 1_048_576), '--tmpfs', disk]
  return spawn(
    'bwrap',
    ['--die-with-parent', '--unshare-pid', '--proc', '/proc', ...nobody, ...mounts, ...command],
    {
      stdio: [...stdio],
      env: { ...process.env, TMPDIR: disk },
    },
  )
}
