import { writeSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Settings } from '#config/settings'
import type { Logger, WriteLine } from '#kernel/base/logger'
import { textOfThrown } from '#kernel/base/thrown'
import { type TerminalLines, type ToldCall, terminalLines } from './terminal-lines.ts'

export interface ServerLog extends Logger {
  isLevelEnabled(level: string): boolean
  /** Lines of this level and above are written from now on. */
  setLevel(level: Settings['logLevel']): void
  /** Says in one line how a call ended; present on a terminal, where a person watches. */
  readonly tellCall?: ((told: ToldCall) => void) | undefined
}

/** Where lines go. Not a type of Node's: the types of this package need none. */
interface LogStream {
  write(line: string): void
}

const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error']

/** What lines look like. Default JSON. */
type LogStyle = NonNullable<Settings['logStyle']>

/** Lines on stderr, JSON where no person reads them. Credentials are blanked by the name of their field, at any depth. */
export function createLog(
  level: Settings['logLevel'],
  stream: LogStream = STDERR,
  style: LogStyle = { format: 'json', isColored: false },
): ServerLog {
  let least = rankOf(level)
  const terminal = terminalOf(style)
  const write = terminal === undefined ? jsonLine : terminal.line
  const writer = (name: keyof Logger): WriteLine => {
    const rank = rankOf(name)
    return (said: object | string, message?: string) => {
      if (rank < least) return
      stream.write(
        typeof said === 'string' ? write(name, {}, said) : write(name, redactFields(fieldsOf(said)), message),
      )
    }
  }
  const calls = rankOf('info')
  return {
    ...(terminal === undefined
      ? {}
      : {
          tellCall: (told: ToldCall) => {
            if (calls >= least) stream.write(terminal.call(told))
          },
        }),
    isLevelEnabled: (name) => rankOf(name) >= least,
    setLevel: (next) => {
      least = rankOf(next)
    },
    ...{ debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') },
  }
}

/** `silent` is above all of them. */
function rankOf(level: string): number {
  return level === 'silent' ? LEVELS.length : LEVELS.indexOf(level)
}

/** `auto` is for people where the lines go to a terminal. */
function terminalOf({ format, isColored }: LogStyle): TerminalLines | undefined {
  const isTerminal = isatty(STDERR_NUMBER)
  if (format === 'json' || (format === 'auto' && !isTerminal)) return undefined
  return terminalLines({ isColored: isColored && isTerminal, now: () => new Date() })
}

function fieldsOf(said: object): object {
  return said instanceof Error ? { err: said } : said
}

/** A line without a message has the message of its error. */
function jsonLine(
  level: string,
  fields: Readonly<Record<string, unknown>>,
  message: string | undefined,
): string {
  const { err } = fields
  const msg = message ?? (err instanceof Error ? withoutPaths(err.message) : undefined)
  const described = err === undefined ? {} : { err: describeError(err) }
  const line = { level, time: new Date().toISOString(), ...fields, ...described }
  return `${render(msg === undefined ? line : { ...line, msg })}\n`
}

/** Instances of classes may hold circles and big integers: the line then says so, and is written. */
function render(fields: object): string {
  try {
    return JSON.stringify(fields)
  } catch {
    return JSON.stringify(
      Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [
          name,
          typeof value === 'object' ? '[object]' : String(value),
        ]),
      ),
    )
  }
}

const STDERR_NUMBER = 2
const FULL_PIPE_MS = 10
const pause = new Int32Array(new SharedArrayBuffer(4))

/** Written at once, so that no line is lost when the process ends. */
const STDERR: LogStream = {
  write(line) {
    let rest = Buffer.from(line)
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(STDERR_NUMBER, rest))
      } catch (error) {
        // A reader that has left costs lines, not the server.
        if (!(error instanceof Error) || !('code' in error) || error.code !== 'EAGAIN') return
        Atomics.wait(pause, 0, 0, FULL_PIPE_MS)
      }
    }
  },
}

/** Only what every error has: own properties of library errors may hold requests with their headers. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error, message: textOfThrown(error) }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  const cause = error.cause === undefined ? {} : { cause: describeError(error.cause) }
  const { message, stack } = error
  return { type: error.name, message: withoutPaths(message), stack: withoutPaths(stack), ...code, ...cause }
}

/** Some services put the key of their customer into the path of an address, so a log has only the host. */
function withoutPaths(text: string | undefined): string | undefined {
  return text?.replaceAll(/(\bhttps?:\/\/[^\s/?#"'<>]+)[/?#][^\s"'<>]*/gi, '$1/…')
}

const REDACTED = '[redacted]'
const MAX_DEPTH = 6

/** Field names, lower case without `-` and `_`, that carry credentials or the content of calls. */
const SENSITIVE: ReadonlySet<string> = new Set([
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

/** A copy of log fields whose credentials and call contents are blanked. */
function redactFields(fields: object): Record<string, unknown> {
  return redactMembers(fields, 0)
}

function redactMembers(fields: object, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isSensitive(name) ? REDACTED : redact(value, depth),
    ]),
  )
}

function redact(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth >= MAX_DEPTH) return '[deep]'
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1))
  return isRecord(value) ? redactMembers(value, depth + 1) : value
}

/** Class instances render themselves: a `Secret` as `[redacted]`, an error by its serializer. */
function isRecord(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function isSensitive(name: string): boolean {
  return SENSITIVE.has(name.toLowerCase().replaceAll(/[-_]/g, ''))
}
