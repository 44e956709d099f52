import { type ErrorCode, isRefusal } from '#core/errors'

/** When a call that did not run may be made again; SDK clients show the message, others may read this. */
export function retryHeader(error: {
  readonly code: ErrorCode
  readonly retryAfterMs?: number | undefined
}): Record<string, string> {
  const { code, retryAfterMs } = error
  if (retryAfterMs === undefined || !isRefusal(code)) return {}
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}
