import { constants } from 'node:os'
import { fault, ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import { tooMuchJson } from '#core/json-bounds'
import type { Secret } from '#core/secret'
import type { ProcessEnd } from '#sources/common/run-process'
import type { CommandBinding } from './binding.ts'

interface Reading {
  readonly binding: CommandBinding
  /** Values that must not come back in a text. */
  readonly hidden: readonly Secret[]
}

/** What a command that has ended says: its value, or why there is none. */
export function readEnd(name: string, end: ProcessEnd, reading: Reading): JsonValue | undefined {
  const { binding } = reading
  if (end.isTooLong) {
    throw fault(
      'result_too_large',
      `The command ${name} wrote more than ${binding.maxOutputBytes} bytes and was ended. Ask for less.`,
    )
  }
  const signal = end.killedBy ?? signalIn(end.exitCode)
  if (end.exitCode === null || (signal !== undefined && !binding.okExitCodes.includes(end.exitCode))) {
    throw new ToolError(withStderr(`The command ${name} ${endedBy(signal, binding)}`, end, reading))
  }
  if (!binding.okExitCodes.includes(end.exitCode)) {
    throw new ToolError(
      withStderr(`The command ${name} ended with exit code ${end.exitCode}`, end, reading),
      { canRetry: binding.retryExitCodes.includes(end.exitCode) },
    )
  }
  return readValue(name, end.stdout, binding)
}

/** A sandbox tells how its command was killed by its own exit code, as shells do. */
function signalIn(exitCode: number | null): NodeJS.Signals | undefined {
  if (exitCode === null || exitCode <= 128) return undefined
  const found = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)
  return SIGNALS.find((signal) => signal === found?.[0])
}

/** Those that limits and operators send. */
const SIGNALS = ['SIGXCPU', 'SIGKILL', 'SIGTERM', 'SIGSEGV', 'SIGABRT', 'SIGINT', 'SIGHUP'] as const

function endedBy(signal: NodeJS.Signals | undefined, { cpuSeconds }: CommandBinding): string {
  if (cpuSeconds !== null && signal === 'SIGXCPU')
    return `used more than the ${cpuSeconds} s of processor time it may`
  return `was ended by ${signal ?? 'a signal'}`
}

function readValue(name: string, stdout: Buffer, { output }: CommandBinding): JsonValue | undefined {
  if (output === 'none') return undefined
  const text = textIn(stdout)
  if (text === undefined)
    throw fault('output_invalid', `The command ${name} wrote something that is no UTF-8 text.`)
  // The last line end belongs to the terminal, not to the value.
  if (output === 'text') return text.replace(/\r?\n$/, '')
  const problem = tooMuchJson(stdout)
  if (problem !== undefined)
    throw fault('result_too_large', `The command ${name} wrote JSON that ${problem}. Ask for less.`)
  try {
    const value: JsonValue = JSON.parse(text)
    return value
  } catch {
    throw fault('output_invalid', `The command ${name} wrote something that is no JSON.`, {
      developerMessage: `${stdout.length} bytes on standard output are not one JSON value.`,
    })
  }
}

function textIn(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const EXCERPT_CHARACTERS = 2_000
/** Shorter values would be found in every text. */
const LEAST_HIDDEN = 6
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours and cursor moves of a terminal
const TERMINAL = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f]/g

function withStderr(what: string, { stderr }: ProcessEnd, { hidden }: Reading): string {
  let text = new TextDecoder().decode(stderr).replaceAll(TERMINAL, '').trim()
  for (const secret of hidden) {
    const plain = secret.reveal()
    if (plain.length >= LEAST_HIDDEN) text = text.replaceAll(plain, '[redacted]')
  }
  if (text === '') return `${what} and wrote no reason.`
  const excerpt = text.length > EXCERPT_CHARACTERS ? `…${text.slice(-EXCERPT_CHARACTERS)}` : text
  return `${what}: ${excerpt}`
}
