import { isJsonObject } from '#kernel/base/json'
import { CallFailure, type CallFailureOptions } from './failure.ts'
import { exchange, type HttpAnswer, type HttpRequest, NoAnswer, untilAborted } from './http.ts'
import type { ClientSettings } from './options.ts'

/**
 * Decides whether and when a request is sent again: `Retry-After`, `x-should-retry`, backoff and jitter (OTC/T-06, OTC/T-07). All
 * requests of the client pass through it. Invariant: a request that may have run is repeated only if the server
 * deduplicates it.
 */

interface RetryRules {
  readonly settings: ClientSettings
  readonly signal: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
  /** True if the server runs a request only once, however often it arrives. */
  readonly dedupes: boolean
  /** Counts resent requests over the whole call. */
  readonly progress: { resent: number }
}

/**
 * Sends a request, and resends it at most `maxRetries` times while that may help (OTC/T-07). The request never changes, so a call
 * keeps its id. Returns the last answer; throws `NoAnswer` if the last attempt had none.
 */
export async function sendWithRetries(request: HttpRequest, rules: RetryRules): Promise<HttpAnswer> {
  const { settings, signal, progress } = rules
  const limits = { ...settings, signal, timeoutMs: rules.timeoutMs ?? settings.timeoutMs }
  for (;;) {
    const result = await exchange(request, limits).catch(keepNoAnswer)
    const advice: Partial<ReturnType<typeof retryAdvice>> =
      result instanceof NoAnswer
        ? { resend: rules.dedupes && (result.reason === 'network' || result.reason === 'timeout') }
        : retryAdvice(result, rules.dedupes, settings.now())
    if (!advice.resend || progress.resent >= settings.maxRetries) {
      if (result instanceof NoAnswer) throw result
      return result
    }
    await pause(advice.afterMs ?? backoffMs(progress.resent), settings, signal)
    progress.resent += 1
  }
}

/** Like `sendWithRetries`, but throws a missing answer as the `CallFailure` that the client's caller gets. */
export async function sendOrFail(
  request: HttpRequest,
  rules: RetryRules,
  action = `${request.method} ${request.url}`,
  facts: () => Parameters<typeof noAnswerFailure>[2] = () => ({}),
): Promise<HttpAnswer> {
  try {
    return await sendWithRetries(request, rules)
  } catch (error) {
    throw error instanceof NoAnswer ? noAnswerFailure(error, action, facts()) : error
  }
}

export async function pause(
  waitMs: number,
  settings: ClientSettings,
  signal: AbortSignal | undefined,
): Promise<void> {
  const ms = withJitter(waitMs, Math.random)
  try {
    await untilAborted(signal, () => settings.sleep(ms, signal))
  } catch (error) {
    if (signal?.aborted) throw new NoAnswer('aborted', 'was aborted by its caller', signal.reason)
    throw error
  }
}

/** The failure for a missing or unusable answer. */
export function noAnswerFailure(
  { message, reason, cause }: NoAnswer,
  action: string,
  { advice, ...options }: CallFailureOptions & { readonly advice?: string } = {},
): CallFailure {
  const sentences = [`${action} ${message}.`, NEXT_STEP[reason], advice ?? '']
  return new CallFailure('transport', sentences.filter((sentence) => sentence !== '').join(' '), {
    ...options,
    ...(cause === undefined ? {} : { cause }),
  })
}

const NEXT_STEP = {
  network: '',
  timeout: '',
  aborted: '',
  too_large: 'If this size is expected, raise maxResponseBytes.',
  too_much: '',
  redirect: 'Redirects are not followed: connect to the address it points to.',
} satisfies Record<NoAnswer['reason'], string>

function keepNoAnswer(error: unknown): NoAnswer {
  if (error instanceof NoAnswer) return error
  throw error
}

/** The longest wait before a retry. If the server requests a longer one, the caller gets the failure instead (OTC/T-06). */
export const MAX_WAIT_MS = 60_000
/** Maximum number of repetitions of a failure with `can_retry` (OTC/T-06). */
export const MAX_TOOL_RETRIES = 2

const FIRST_WAIT_MS = 500
const JITTER = 0.25

/** The wait starts at 500 ms and doubles, up to one minute (OTC/T-06). */
export function backoffMs(earlierRetries: number): number {
  return Math.min(FIRST_WAIT_MS * 2 ** earlierRetries, MAX_WAIT_MS)
}

/** Spreads the retries of clients that failed together; never shortens a wait (OTC-95). */
export function withJitter(waitMs: number, random: () => number): number {
  return waitMs * (1 + JITTER * random())
}

/**
 * Decides whether the same request, with the same call id, may be sent again (OTC/T-07). `x-should-retry` overrides the status in
 * both directions (OTC/C-24). A server that ignores call ids gets a request twice only if it states that it refused the first one.
 */
export function retryAdvice(answer: HttpAnswer, dedupes: boolean, now: number) {
  const { status, headers, body } = answer
  /** The wait that the server requests. */
  const afterMs = retryAfterMs(headers.get('retry-after'), now)
  const shouldRetry = headers.get('x-should-retry')
  const needsPerson = isJsonObject(body) && body.missing_requirements !== undefined
  const mayRetry = status >= 400 && !needsPerson && shouldRetry !== 'false'
  /** The server refused the request before it did anything, and expects it again. */
  const refused = mayRetry && (status === 429 || shouldRetry === 'true')
  const transient = mayRetry && dedupes && (status === 408 || status >= 500)
  return { resend: (refused || transient) && (afterMs ?? 0) <= MAX_WAIT_MS, refused, afterMs }
}

/** Reads a `Retry-After` header: seconds or an HTTP date. */
function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined
  const seconds = header.trim() === '' ? Number.NaN : Number(header)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000)
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
