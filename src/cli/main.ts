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

/** What still runs this long after a command ended is left behind. */
const LAST_MOMENT_MS = 2_000
/** Who reads the config again on SIGHUP; while there is nobody the signal stops the process. */
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
  onStrayRejection,
  onUncaughtException,
  exit: (code) => process.exit(code),
  openBrowser,
  startProcess,
  startWorker: createWorkers(),
  worker,
  onReload,
}

// The reader of a pipe may leave early (`collet journal | head`): that is no failure. A terminal that was closed takes
// no more text, and what has to be ended is ended without it.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error) => {
    const code = 'code' in error ? error.code : undefined
    if (code === 'EPIPE') process.exit(EXIT.ok)
    if (code !== 'EIO') throw error
  })
}

process.exitCode = await runCli(process.argv.slice(2), io)
// A question that was answered leaves it open.
if (process.stdin.isTTY) process.stdin.unref()
setTimeout(() => process.exit(), LAST_MOMENT_MS).unref()

/** `console.log` in a tool must not end up between messages (MCP-97). */
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
  // The parent of `serve --watch` sends SIGTERM to its child whenever a file has changed.
  const terminate = () => listener(process.channel === undefined ? 'supervisor' : 'person')
  const hangUp = () => (reloaders.size === 0 ? byPerson() : undefined)
  process.on('SIGINT', byPerson)
  process.on('SIGTERM', terminate)
  process.on('SIGHUP', hangUp)
  // A child of `serve --watch` also stops when its parent is gone.
  if (process.channel !== undefined) {
    process.on('disconnect', byPerson)
    process.channel.unref()
  }
  return () => {
    process.off('SIGINT', byPerson)
    process.off('SIGTERM', terminate)
    process.off('SIGHUP', hangUp)
    process.off('disconnect', byPerson)
  }
}

/** On a terminal the same signal means that it was closed, and stops the server. */
function onReload(listener: () => void): () => void {
  if (process.stdin.isTTY) return () => undefined
  reloaders.add(listener)
  process.on('SIGHUP', listener)
  return () => {
    reloaders.delete(listener)
    process.off('SIGHUP', listener)
  }
}

/** Ctrl-C on the terminal, and its end, reach workers too; whoever started them tells each once. */
function onStopOf({ stopped }: WorkerSide): CliIo['onStop'] {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  return (listener) => {
    for (const signal of signals) process.on(signal, () => undefined)
    void stopped.then(listener)
    return () => undefined
  }
}

function onStrayRejection(listener: (reason: unknown) => void): () => void {
  process.on('unhandledRejection', listener)
  return () => process.off('unhandledRejection', listener)
}

function onUncaughtException(listener: (error: unknown) => void): () => void {
  process.on('uncaughtException', listener)
  return () => process.off('uncaughtException', listener)
}

/** In a process group of its own: Ctrl-C on the terminal reaches the parent only, which passes it on once. */
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

/** A machine without a browser, or without a program that knows one, is no failure: the address is printed too. */
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
