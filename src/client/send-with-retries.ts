import { CallFailure, type CallFailureOptions } from './call-failure.ts'
import type { ClientSettings } from './client-options.ts'
import { exchange, type HttpAnswer, type HttpSending, NoAnswer } from './http-exchange.ts'
import { backoffMs, type RetryAdvice, retryAdvice, withJitter } from './retry-policy.ts'
import { untilAborted } from './wait.ts'

export interface SendingRules {
  readonly settings: ClientSettings
  readonly signal: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
  /** Whether the server runs a request once however often it arrives. */
  readonly dedupes: boolean
  /** Counts resent requests over the whole call. */
  readonly progress: { resent: number }
}

/**
 * Sends one request until it is answered, at most `maxRetries` times more (T-07). The request never changes,
 * so a call keeps its id. Throws `NoAnswer` when there was none; the last answer is for the caller to read.
 */
export async function sendWithRetries(sending: HttpSending, rules: SendingRules): Promise<HttpAnswer> {
  const { settings, signal, progress } = rules
  const limits = { ...settings, signal, timeoutMs: rules.timeoutMs ?? settings.timeoutMs }
  for (;;) {
    const result = await exchange(sending, limits).catch(keepNoAnswer)
    const advice = result instanceof NoAnswer ? adviceOn(result, rules) : adviceOnAnswer(result, rules)
    if (!advice.resend || progress.resent >= settings.maxRetries) {
      if (result instanceof NoAnswer) throw result
      return result
    }
    await pause(advice.afterMs ?? backoffMs(progress.resent), settings, signal)
    progress.resent += 1
  }
}

/** Waits before another attempt. */
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

/** What a caller gets when nothing usable came back. */
export function noAnswerFailure(
  { message, reason, cause }: NoAnswer,
  doing: string,
  { advice, ...options }: CallFailureOptions & { readonly advice?: string } = {},
): CallFailure {
  const sentences = [`${doing} ${message}.`, NEXT_STEP[reason], advice ?? '']
  return new CallFailure('transport', sentences.filter((sentence) => sentence !== '').join(' '), {
    ...options,
    ...(cause === undefined ? {} : { cause }),
  })
}

const NEXT_STEP = {
  network: '',
  timeout: '',
  aborted: '',
  too_large: 'Raise maxResponseBytes if it is right.',
  too_much: '',
  redirect: 'Redirects are not followed: connect to the address it points to.',
} satisfies Record<NoAnswer['reason'], string>

function keepNoAnswer(error: unknown): NoAnswer {
  if (error instanceof NoAnswer) return error
  throw error
}

function adviceOn({ reason }: NoAnswer, { dedupes }: SendingRules): RetryAdvice {
  return { resend: dedupes && (reason === 'network' || reason === 'timeout'), refused: false }
}

function adviceOnAnswer(answer: HttpAnswer, { dedupes, settings }: SendingRules): RetryAdvice {
  return retryAdvice(answer, dedupes, settings.now())
}
