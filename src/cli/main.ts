import { spawn } from 'node:child_process'
import { userInfo } from 'node:os'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { ownCommand } from '#server/own-command'
import { EXIT } from './command.ts'
import { type CliIo, REAL_SERVICES, type ServerProcess, type StopRequester, type WorkerSide } from './io.ts'
import type { TextStream } from './output.ts'
import { runCli } from './run.ts'
import { createWorkers, joinWorkers } from './workers.ts'

/**
 * The process entry point of the CLI: connects the real terminal, signals, child processes and services with
 * `runCli`. `bin/collet.js` starts it. Invariant: only this module and `workers.ts` use the streams and
 * signals of `process`.
 */

/** The process exits this long after its command has ended, even if something still runs. */
const EXIT_DELAY_MS = 2_000
/** Listeners that reload the config on SIGHUP; without one the signal stops the process. */
const reloaders = new Set<() => void>()

const worker = await joinWorkers()

const io: CliIo = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  takeStdout,
  environment: readEnvironment(),
  workingFolder: process.cwd(),
  program: ownProgram(),
  command: ownCommand(),
  userName: userName(),
  clock: SYSTEM_CLOCK,
  services: REAL_SERVICES,
  onStop: worker === undefined ? onStop : onStopOf(worker),
  onStrayRejection(listener) {
    process.on('unhandledRejection', listener)
    return () => process.off('unhandledRejection', listener)
  },
  onUncaughtException(listener) {
    process.on('uncaughtException', listener)
    return () => process.off('uncaughtException', listener)
  },
  exit: (code) => process.exit(code),
  openBrowser,
  startProcess,
  startWorker: createWorkers(),
  worker,
  onReload,
}

// The reader of a pipe may stop early (`collet journal | head`), which is not a failure. A closed terminal (EIO) accepts
// no more text; the command still finishes.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error) => {
    const code = 'code' in error ? error.code : undefined
    if (code === 'EPIPE') process.exit(EXIT.ok)
    if (code !== 'EIO') throw error
  })
}

process.exitCode = await runCli(process.argv.slice(2), io)
// Asking a question leaves stdin open.
if (process.stdin.isTTY) process.stdin.unref()
setTimeout(() => process.exit(), EXIT_DELAY_MS).unref()

/** Keeps `console.log` of a tool out of the MCP messages (MCP-97). */
function takeStdout(): TextStream {
  const write = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr)
  return { write: (text) => write(text) }
}

function ownProgram(): readonly string[] {
  const [, script = ''] = process.argv
  return [process.execPath, ...process.execArgv, script]
}

function onStop(listener: (by: StopRequester) => void): () => void {
  const byPerson = () => listener('person')
  const listeners = Object.entries({
    SIGINT: byPerson,
    // The parent of `serve --watch` sends SIGTERM to its child whenever a file has changed.
    SIGTERM: () => listener(process.channel === undefined ? 'supervisor' : 'person'),
    SIGHUP: () => (reloaders.size === 0 ? byPerson() : undefined),
    // A child of `serve --watch` also stops when its parent is gone.
    disconnect: byPerson,
  })
  for (const [event, stop] of listeners) process.on(event, stop)
  process.channel?.unref()
  return () => {
    for (const [event, stop] of listeners) process.off(event, stop)
  }
}

/** On a terminal, SIGHUP means that the terminal was closed, so it stops the server. */
function onReload(listener: () => void): () => void {
  if (process.stdin.isTTY) return () => undefined
  reloaders.add(listener)
  process.on('SIGHUP', listener)
  return () => {
    reloaders.delete(listener)
    process.off('SIGHUP', listener)
  }
}

/** Ignores signals in a worker: Ctrl-C and a closed terminal reach it too, but only its parent may stop it. */
function onStopOf({ stopped }: WorkerSide): CliIo['onStop'] {
  return (listener) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined)
    void stopped.then(listener)
    return () => undefined
  }
}

/** The child has its own process group, so Ctrl-C reaches only the parent, which passes it on once. */
function startProcess(args: readonly string[]): ServerProcess {
  const [file = '', ...own] = ownProgram()
  const child = spawn(file, [...own, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  })
  const { promise, resolve } = Promise.withResolvers<number>()
  child.on('exit', (code) => resolve(code ?? EXIT.server))
  child.on('error', () => resolve(EXIT.server))
  return { ended: promise, stop: () => child.kill('SIGTERM'), kill: () => child.kill('SIGKILL') }
}

const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}

/** A missing browser is not a failure: the address is also printed. */
function openBrowser(url: string): void {
  const [file = '', ...args] = OPENERS[process.platform] ?? ['xdg-open']
  const child = spawn(file, [...args, url], { stdio: 'ignore', detached: true })
  child.on('error', () => undefined)
  child.unref()
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'unknown'
  }
}
