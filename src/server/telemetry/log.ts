import { destination, pino } from 'pino'
import type { Settings } from '#config/settings'
import type { Logger } from '#core/runtime'

export interface ServerLog extends Logger {
  isLevelEnabled(level: string): boolean
}

/** Where lines go. Not the library's own type: the types of this package need no types of Node. */
interface LogStream {
  write(line: string): void
}

const STDERR = 2

/** JSON lines on stderr. Credentials are blanked by the name of their field, at any depth. */
export function createLog(level: Settings['logLevel'], stream?: LogStream): ServerLog {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: redactFields },
      serializers: { err: describeError },
    },
    stream ?? destination(STDERR),
  )
}

/** Only what every error has: own properties of library errors may hold requests with their headers. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  const cause = error.cause === undefined ? {} : { cause: describeError(error.cause) }
  return { type: error.name, message: error.message, stack: error.stack, ...code, ...cause }
}

const REDACTED = '[redacted]'
const DEEPEST = 6

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
  if (depth >= DEEPEST) return '[deep]'
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
