import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Pooler } from './postgres-pooler.ts'

/** The installed PgBouncer, if any. */
export const PGBOUNCER = /PgBouncer (\S+)/.exec(
  spawnSync('pgbouncer', ['--version']).stdout?.toString() ?? '',
)?.[1]

const NOBODY = 65_534
const MAX_TRIES = 200

/** A real PgBouncer in transaction mode with default settings, except for addresses and paths. */
export async function startPgBouncer(url: string, size: number): Promise<Pooler> {
  const { hostname, port, username, password } = new URL(url)
  const folder = mkdtempSync(join(tmpdir(), 'collet-pgbouncer-'))
  const listening = await freePort()
  const secret = password === '' ? '' : ` password=${decodeURIComponent(password)}`
  writeFileSync(
    join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=${hostname} port=${port === '' ? 5432 : port} user=${decodeURIComponent(username)}${secret}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listening}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
`,
  )
  // PgBouncer refuses to run as root.
  const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  if ('uid' in owner) chownSync(folder, NOBODY, NOBODY)
  const child = spawn('pgbouncer', ['-q', join(folder, 'pgbouncer.ini')], {
    ...owner,
    cwd: folder,
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  for (let tries = 0; !(await answers(listening)); tries += 1) {
    if (tries === MAX_TRIES || child.exitCode !== null) throw new Error('PgBouncer did not start')
    await wait(50)
  }
  return {
    url: url.replace(`:${port}/`, `:${listening}/`),
    async close() {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}
