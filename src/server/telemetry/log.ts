/**
 * The log of a process: lines on stderr, as JSON or, on a terminal, for a person. Fields with the names of credentials or of call
 * contents are redacted at any depth, and addresses lose their paths, so that no line contains a secret (OTC-103).
 */

import { writeSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Settings } from '#config/settings'
import type { Logger, WriteLine } from '#kernel/base/logger'
import { textOfThrown } from '#kernel/base/thrown'
import { type CallLine, type TerminalLines, terminalLines } from './terminal-lines.ts'

export interface ServerLog extends Logger {
  /** Whether lines of a level are written. A record and not a function, because each request reads it. */
  readonly writes: Readonly<Record<keyof Logger, boolean>>
  /** Writes lines of this level and above from now on. */
  setLevel(level: Settings['logLevel']): void
  /** Writes one line about a call that ended; present on a terminal. */
  readonly logCall?: ((call: CallLine) => void) | undefined
}

/** The part of a stream that the log uses; not a type of Node, because the declarations of this package must not need Node's types. */
interface LogStream {
  write(line: string): void
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

type LogStyle = NonNullable<Settings['logStyle']>

export function createLog(
  level: Settings['logLevel'],
  stream: LogStream = STDERR,
  style: LogStyle = { format: 'json', isColored: false },
): ServerLog {
  const writes = { debug: false, info: false, warn: false, error: false }
  const setLevel = (minLevel: Settings['logLevel']): void => {
    let isWritten = false
    for (const name of LEVELS) {
      isWritten ||= name === minLevel
      writes[name] = isWritten
    }
  }
  setLevel(level)
  const terminal = terminalOf(style)
  const format = terminal?.line ?? jsonLine
  const writer =
    (name: keyof Logger): WriteLine =>
    (fields: object | string, message?: string) => {
      if (!writes[name]) return
      stream.write(
        typeof fields === 'string'
          ? format(name, {}, fields)
          : format(name, redactMembers(fields instanceof Error ? { err: fields } : fields, 0), message),
      )
    }
  const logCall = (call: CallLine): void => {
    if (terminal !== undefined && writes.info) stream.write(terminal.call(call))
  }
  return {
    ...{ writes, setLevel, logCall: terminal === undefined ? undefined : logCall },
    ...{ debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') },
  }
}

/** `auto` means lines for a person if stderr is a terminal. */
function terminalOf({ format, isColored }: LogStyle): TerminalLines | undefined {
  const isTerminal = isatty(STDERR_NUMBER)
  if (format === 'json' || (format === 'auto' && !isTerminal)) return undefined
  return terminalLines({ isColored: isColored && isTerminal, now: () => new Date() })
}

/** A line without a message takes the message of its error. */
const jsonLine: TerminalLines['line'] = (level, fields, message) => {
  const { err } = fields
  const msg = message ?? (err instanceof Error ? withoutPaths(err.message) : undefined)
  const described = err === undefined ? {} : { err: describeError(err) }
  const line = { level, time: new Date().toISOString(), ...fields, ...described }
  return `${render(msg === undefined ? line : { ...line, msg })}\n`
}

/** A line as a text for people: the message, other fields as JSON without credentials, and the stack of an error. */
export function fieldsText(
  fields: object,
  message: string | undefined,
  omitted: ReadonlySet<string>,
): string {
  const { err, ...others } = redactMembers(fields, 0)
  const shown = Object.entries(others).filter(([name]) => !omitted.has(name))
  const stack = err instanceof Error ? withoutPaths(err.stack ?? err.message) : undefined
  const error = err === undefined ? undefined : (stack ?? textOfThrown(err))
  return [message, shown.length === 0 ? undefined : render(Object.fromEntries(shown)), error]
    .filter((text) => text !== undefined)
    .join('\n')
    .replaceAll('\0', '')
}

/** Class instances may contain cycles or big integers; such fields are replaced so that the line is still written. */
function render(fields: object): string {
  try {
    return JSON.stringify(fields)
  } catch {
    const plain = (value: unknown): string => (typeof value === 'object' ? '[object]' : String(value))
    const members = Object.entries(fields).map(([name, value]) => [name, plain(value)])
    return JSON.stringify(Object.fromEntries(members))
  }
}

const STDERR_NUMBER = 2
const FULL_PIPE_MS = 10
const pause = new Int32Array(new SharedArrayBuffer(4))

/** Writes synchronously, so that no line is lost when the process ends. */
const STDERR: LogStream = {
  write(line) {
    let rest = Buffer.from(line)
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(STDERR_NUMBER, rest))
      } catch (error) {
        // If the reader has gone, lines are lost and the server keeps running.
        if (!(error instanceof Error) || !('code' in error) || error.code !== 'EAGAIN') return
        Atomics.wait(pause, 0, 0, FULL_PIPE_MS)
      }
    }
  },
}

/** Takes only standard fields: own properties of library errors may contain requests with their headers. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error, message: textOfThrown(error) }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  const cause = error.cause === undefined ? {} : { cause: describeError(error.cause) }
  const { message, stack } = error
  return { type: error.name, message: withoutPaths(message), stack: withoutPaths(stack), ...code, ...cause }
}

/** Some services put a key into the path of an address, so only the host is logged. */
function withoutPaths(text: string | undefined): string | undefined {
  return text?.replaceAll(/(\bhttps?:\/\/[^\s/?#"'<>]+)[/?#][^\s"'<>]*/gi, '$1/…')
}

const REDACTED = '[redacted]'
const MAX_DEPTH = 6

/** Field names, lower case without `-` and `_`, that carry credentials or the content of calls. */
const SENSITIVE_NAMES: ReadonlySet<string> = new Set([
  'accesstoken',
  'apikey',
  'authorization',
  'body',
  'clientsecret',
  'codeverifier',
  'colletauthorization',
  'colletsecret',
  'cookie',
  'idtoken',
  'input',
  'inputs',
  'inputjson',
  'key',
  'otcapikey',
  'output',
  'oxpapikey',
  'password',
  'proxyauthorization',
  'refreshtoken',
  'secret',
  'secrets',
  'setcookie',
  'token',
  'tokens',
  'value',
  'valuejson',
  'xapikey',
])

/** Copies log fields without credentials and call contents. */
function redactMembers(fields: object, depth: number): Record<string, unknown> {
  const isSensitive = (name: string) => SENSITIVE_NAMES.has(name.toLowerCase().replaceAll(/[-_]/g, ''))
  const redacted = (name: string, value: unknown) => (isSensitive(name) ? REDACTED : redact(value, depth))
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, redacted(name, value)]))
}

function redact(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth >= MAX_DEPTH) return '[deep]'
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1))
  return isRecord(value) ? redactMembers(value, depth + 1) : value
}

/** Class instances are not copied: a `Secret` renders itself as `[redacted]`, and `describeError` renders errors. */
function isRecord(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
