import { type DestinationStream, destination, pino } from 'pino'
import type { Settings } from '#config/settings'
import type { Logger } from '#core/ports/logger'
import { redactFields } from './redact-fields.ts'

export interface ServerLog extends Logger {
  isLevelEnabled(level: string): boolean
}

const STDERR = 2

/** JSON lines on stderr. Credentials are blanked by the name of their field, at any depth. */
export function createLog(level: Settings['logLevel'], stream?: DestinationStream): ServerLog {
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
