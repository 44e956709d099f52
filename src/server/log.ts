import { destination, pino } from 'pino'
import type { Settings } from '#config/settings'
import type { Logger } from '#core/runtime'
import { redactFields } from './redact-fields.ts'

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
