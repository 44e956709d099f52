import { isJsonObject } from '#core/json'
import type { HttpAnswer } from './http-exchange.ts'

/** Nobody is made to wait longer than this between attempts; a longer wait goes back to the caller (T-06). */
export const LONGEST_WAIT_MS = 60_000
/** How often a failure with `can_retry` is resent at most (T-06). */
export const MOST_TOOL_RETRIES = 2

const FIRST_WAIT_MS = 500
const JITTER = 0.25

/** 500 ms, doubling, at most one minute (T-06). */
export function backoffMs(earlierRetries: number): number {
  return Math.min(FIRST_WAIT_MS * 2 ** earlierRetries, LONGEST_WAIT_MS)
}

/** Spreads clients that failed together; never shortens a wait (OTC-95). */
export function withJitter(waitMs: number, random: () => number): number {
  return waitMs * (1 + JITTER * random())
}

export interface RetryAdvice {
  readonly resend: boolean
  /** The server refused the request before it did anything, and expects to take it later. */
  readonly refused: boolean
  /** How long the server asks to wait. */
  readonly afterMs?: number
}

/**
 * Whether the same request, with the same call id, may go out again (T-07). `x-should-retry` overrules the
 * status in both directions (C-24). A server that ignores call ids gets a request twice only if it says that
 * it refused the first.
 */
export function retryAdvice(answer: HttpAnswer, dedupes: boolean, now: number): RetryAdvice {
  const { status, headers, body } = answer
  const afterMs = retryAfterMs(headers.get('retry-after'), now)
  const asked = headers.get('x-should-retry')
  const needsSomebody = isJsonObject(body) && body.missing_requirements !== undefined
  const isOpen = status >= 400 && !needsSomebody && asked !== 'false'
  const refused = isOpen && (status === 429 || asked === 'true')
  const passing = isOpen && dedupes && (status === 408 || status >= 500)
  return {
    resend: (refused || passing) && (afterMs ?? 0) <= LONGEST_WAIT_MS,
    refused,
    ...(afterMs === undefined ? {} : { afterMs }),
  }
}

/** Seconds or an HTTP date. */
function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined
  const seconds = header.trim() === '' ? Number.NaN : Number(header)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000)
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
