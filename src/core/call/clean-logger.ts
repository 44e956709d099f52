import type { Logger, WriteLine } from '#core/ports/logger'
import type { CallRequest } from './call-request.ts'
import { redactLogged, redactText } from './redact-secrets.ts'

/** The log a tool gets: the credentials of its call never appear in it, whatever the tool writes (OWP-75). */
export function cleanLogger(log: Logger, request: CallRequest): Logger {
  if (request.tokens.size === 0 && request.secrets.size === 0) return log
  const write =
    (level: keyof Logger): WriteLine =>
    (said: object | string, message?: string) => {
      if (typeof said === 'string') log[level](redactText(said, request))
      else
        log[level](
          redactLogged(said, request),
          message === undefined ? undefined : redactText(message, request),
        )
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
