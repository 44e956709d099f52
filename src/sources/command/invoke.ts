import { stat } from 'node:fs/promises'
import { constants } from 'node:os'
import { fault, ToolError } from '#kernel/base/errors'
import { type JsonValue, parseJson, tooMuchJson } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { BadArgument, expandArgv, textOf } from '#sources/common/argv-template'
import { readBinding } from '#sources/common/options'
import {
  type Confinement,
  isReplaced,
  type ProcessEnd,
  runProcess,
  SANDBOX_BASE,
  SHARED_NETWORK,
} from '#sources/common/process'
import type { Invocation } from '#sources/kit/source'
import { BINDING, type CommandBinding, isolationProblem } from './discover.ts'
import type { CommandOptions } from './options.ts'

/**
 * Runs one command for the command source: sets its environment, sandbox and limits, and reads its output as a value. `index.ts` uses
 * it for each call.
 * Invariant: a call runs its command at most once.
 */

interface CommandEnvironment {
  readonly confinement: Confinement
  /** Variables of this process that a command may get. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Values of the variables that the options set. */
  readonly values: CommandOptions['env']
  readonly killGraceMs: number
  readonly closing: AbortSignal
}

/** Variables that most programs need and that reveal nothing about this server. */
const HARMLESS_VARIABLES = ['PATH', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ']

/** Runs the accepted command once (rule 32). */
export async function invokeCommand(
  { nativeName, binding: accepted, input, context }: Invocation,
  host: CommandEnvironment,
): Promise<JsonValue | undefined> {
  const binding = readBinding(BINDING, `the command ${nativeName}`, accepted)
  const problem = binding.isolation === 'required' ? isolationProblem(binding, host.confinement) : undefined
  if (problem !== undefined) throw notRun(nativeName, problem)
  const isCapped = binding.cpuSeconds !== null || binding.memoryMb !== null
  if (isCapped && host.confinement.prlimit === undefined) {
    throw notRun(nativeName, 'cpuSeconds and memoryMb need the program prlimit, which is not found.')
  }
  const [, ...args] = expanded(binding, input)
  const command = await confine([binding.program, ...args], binding, host.confinement)
  const signal = AbortSignal.any([context.signal, host.closing])
  signal.throwIfAborted()
  const end = await runProcess({
    command,
    cwd: binding.cwd,
    env: variablesOf(nativeName, binding, context, host),
    stdin: stdinOf(binding, input),
    maxOutputBytes: binding.maxOutputBytes,
    killGraceMs: host.killGraceMs,
    signal,
  }).catch((cause: unknown) => {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown'
    throw fault('upstream_failed', `The command ${nativeName} could not be started (${code}).`, {
      canRetry: true,
      developerMessage: cause instanceof Error ? cause.message : code,
      cause,
    })
  })
  signal.throwIfAborted()
  const reading = { binding, hidden: Object.values(host.values) }
  const stderr = stderrText(end, reading)
  if (stderr !== '') context.log.debug({ stderr }, 'The command wrote to its standard error')
  return readEnd(nativeName, end, reading)
}

function expanded(binding: CommandBinding, input: Invocation['input']): readonly string[] {
  try {
    return expandArgv(binding.argv, input)
  } catch (error) {
    if (error instanceof BadArgument) throw new ToolError(error.message, { cause: error })
    throw error
  }
}

function stdinOf({ stdin }: CommandBinding, input: Invocation['input']): string | undefined {
  if (stdin === null) return undefined
  if (stdin === 'json') return JSON.stringify(input)
  const name = stdin.slice(1, -1)
  const value = Object.hasOwn(input, name) ? input[name] : undefined
  return value === undefined || value === null ? '' : textOf(value)
}

/** The command's variables. From this process it gets only harmless variables and those that its options name. */
function variablesOf(
  nativeName: string,
  binding: CommandBinding,
  context: Invocation['context'],
  host: CommandEnvironment,
): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const name of [...HARMLESS_VARIABLES, ...binding.inheritEnv]) {
    const value = host.environment[name]
    if (value !== undefined) variables[name] = value
  }
  for (const name of binding.env) {
    const value = host.values[name]
    if (value === undefined)
      throw notRun(nativeName, `The variable ${name} is no longer in the options of the command.`)
    variables[name] = value.reveal()
  }
  for (const [name, id] of Object.entries(binding.secretEnv)) variables[name] = context.secret(id).reveal()
  for (const [name, id] of Object.entries(binding.tokenEnv)) variables[name] = context.token(id).reveal()
  // A command can forward the key to a service, which then recognises a repeated attempt (rule 27).
  variables.COLLET_EFFECT_KEY = context.effectKey()
  return variables
}

/** The error if nothing was started. */
function notRun(nativeName: string, why: string): ToolError {
  const message = `The command ${nativeName} was not started; ask the operator of this server.`
  return fault('upstream_failed', message, { canRetry: true, developerMessage: why })
}

/** The command line that runs `argv` with the limits of its binding. */
async function confine(
  argv: readonly string[],
  binding: CommandBinding,
  { bwrap, prlimit }: Confinement,
): Promise<readonly string[]> {
  const inside =
    bwrap === undefined || binding.isolation === 'none'
      ? argv
      : [bwrap, ...(await sandboxArgs(binding)), '--', ...argv]
  return prlimit === undefined ? inside : [prlimit, ...limitArgs(binding), '--', ...inside]
}

async function sandboxArgs(binding: CommandBinding): Promise<readonly string[]> {
  const { network, cwd, program, writable, hide } = binding
  return [
    ...SANDBOX_BASE,
    '--unshare-all',
    ...(network ? SHARED_NETWORK : []),
    ...[cwd, program].filter(isReplaced).flatMap((path) => ['--ro-bind', path, path]),
    ...writable.flatMap((path) => ['--bind', path, path]),
    ...(await Promise.all(hide.map(hidingArgs))).flat(),
    '--chdir',
    cwd,
  ]
}

async function hidingArgs(path: string): Promise<readonly string[]> {
  try {
    return (await stat(path)).isDirectory() ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path]
  } catch {
    return []
  }
}

/** The soft limit sends a signal that names the cause; the hard limit kills. Core files are turned off, because they contain memory. */
function limitArgs({ cpuSeconds, memoryMb }: CommandBinding): readonly string[] {
  return [
    '--core=0',
    ...(cpuSeconds === null ? [] : [`--cpu=${cpuSeconds}:${cpuSeconds + 1}`]),
    ...(memoryMb === null ? [] : [`--as=${memoryMb * 1024 * 1024}`]),
  ]
}

interface Reading {
  readonly binding: CommandBinding
  /** Values to redact from output. */
  readonly hidden: readonly Secret[]
}

/** The value of a command that has ended; throws if it failed. */
function readEnd(name: string, end: ProcessEnd, reading: Reading): JsonValue | undefined {
  const { binding } = reading
  if (end.isTooLong) {
    const message = `The command ${name} wrote more than ${binding.maxOutputBytes} bytes and was stopped. Ask for less.`
    throw fault('result_too_large', message)
  }
  const signal = end.killedBy ?? signalIn(end.exitCode)
  if (end.exitCode === null || (signal !== undefined && !binding.okExitCodes.includes(end.exitCode))) {
    throw new ToolError(withStderr(`The command ${name} ${endedBy(signal, binding)}`, end, reading))
  }
  if (!binding.okExitCodes.includes(end.exitCode)) {
    const message = withStderr(`The command ${name} ended with exit code ${end.exitCode}`, end, reading)
    throw new ToolError(message, { canRetry: binding.retryExitCodes.includes(end.exitCode) })
  }
  return readValue(name, end.stdout, binding)
}

/** A sandbox reports the signal that killed its command as an exit code, as shells do. */
function signalIn(exitCode: number | null): NodeJS.Signals | undefined {
  if (exitCode === null || exitCode <= 128) return undefined
  const found = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)
  return SIGNALS.find((signal) => signal === found?.[0])
}

/** The signals that may end a command. */
const SIGNALS = ['SIGXCPU', 'SIGKILL', 'SIGTERM', 'SIGSEGV', 'SIGABRT', 'SIGINT', 'SIGHUP'] as const

function endedBy(signal: NodeJS.Signals | undefined, { cpuSeconds }: CommandBinding): string {
  if (cpuSeconds !== null && signal === 'SIGXCPU')
    return `used more than the allowed ${cpuSeconds} s of processor time`
  return `was killed by ${signal ?? 'a signal'}`
}

function readValue(name: string, stdout: Buffer, { output }: CommandBinding): JsonValue | undefined {
  if (output === 'none') return undefined
  const text = textIn(stdout)
  if (text === undefined)
    throw fault('output_invalid', `The command ${name} wrote output that is not UTF-8 text.`)
  // The last line break is not part of the value.
  if (output === 'text') return text.replace(/\r?\n$/, '')
  const problem = tooMuchJson(stdout)
  if (problem !== undefined)
    throw fault('result_too_large', `The command ${name} wrote JSON that ${problem}. Ask for less.`)
  const value = parseJson(text)
  if (value !== undefined) return value
  throw fault('output_invalid', `The command ${name} wrote output that is not JSON.`, {
    developerMessage: `${stdout.length} bytes on standard output are not one JSON value.`,
  })
}

function textIn(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const EXCERPT_CHARACTERS = 2_000
/** Shorter values are not redacted, because they would occur in every text. */
const MIN_HIDDEN = 6
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours and cursor moves of a terminal
const TERMINAL = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f]/g

function withStderr(what: string, end: ProcessEnd, reading: Reading): string {
  const text = stderrText(end, reading)
  return text === '' ? `${what} and wrote no reason.` : `${what}: ${text}`
}

/** The end of what the command wrote to stderr, without secrets. */
function stderrText({ stderr }: ProcessEnd, { hidden }: Reading): string {
  let text = new TextDecoder().decode(stderr).replaceAll(TERMINAL, '').trim()
  for (const secret of hidden) {
    const plain = secret.reveal()
    if (plain.length >= MIN_HIDDEN) text = text.replaceAll(plain, '[redacted]')
  }
  return text.length > EXCERPT_CHARACTERS ? `…${text.slice(-EXCERPT_CHARACTERS)}` : text
}
