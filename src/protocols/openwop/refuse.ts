import type { ToolError } from '#core/errors'
import type { HttpRoute } from '#protocols/http-exchange'
import { encodeError } from './codec-error.ts'
import { HTTP_ERRORS, OPENWOP_ANSWERS } from './errors.ts'

const DEFAULT_RETRY_AFTER_MS = 1_000

/**
 * Everything that fails on this wire, thrown by a route or found before it: the flat envelope (OWP-95). It says
 * nothing that depends on what exists (OWP-97).
 */
export const refuse: HttpRoute['refuse'] = ({ traceId }, error, suggested) => {
  const { status, error: name } = answerOf(error, suggested)
  const retryAfterMs =
    status === 429 || status === 503 ? toWholeMs(error.retryAfterMs ?? DEFAULT_RETRY_AFTER_MS) : undefined
  return {
    status,
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
      ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) }),
    },
    body: encodeError({
      error: name,
      message: error.message,
      retryAfterMs,
      scope: error.details.scope,
      correlationId: status >= 500 ? traceId : undefined,
    }),
  }
}

function answerOf(error: ToolError, suggested: number): { status: number; error: string } {
  const answer = OPENWOP_ANSWERS[error.code]
  if (error.code !== 'request_invalid') return answer
  const name = HTTP_ERRORS.get(suggested)
  return name === undefined ? answer : { status: suggested, error: name }
}

/** At least one, so that `Retry-After` is never 0. */
function toWholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.max(1, Math.ceil(ms)) : DEFAULT_RETRY_AFTER_MS
}
