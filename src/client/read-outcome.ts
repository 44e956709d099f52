import type { JsonValue } from '#core/json'
import { runOf } from '#protocols/call-headers'
import { readCallReply, type WireFailure } from '#protocols/otc/codec-client-reply'
import { ERROR_CODE_HEADER } from '#protocols/otc/wire'
import { CallFailure } from './call-failure.ts'
import { type CallRun, doubtOf, factsOf } from './call-run.ts'
import type { HttpAnswer } from './http-exchange.ts'
import { retryAdvice } from './retry-policy.ts'

export interface CallResult {
  /** `null` for tools without output (OTC-91). */
  readonly value: JsonValue
  readonly callId: string
  /** The run whose events tell of it, on servers of this package. */
  readonly runId?: string
  /** The full id that was called. */
  readonly toolId: string
  /** Run time as the server measured it. */
  readonly durationMs?: number
  /** How often the call was sent again. */
  readonly retries: number
}

export function readOutcome(answer: HttpAnswer, run: CallRun): CallResult | CallFailure {
  const reading = readCallReply(answer.status, answer.body, {
    dialect: run.target.wire.dialect,
    errorCode: answer.headers.get(ERROR_CODE_HEADER),
  })
  switch (reading.kind) {
    case 'value': {
      const { value, callId = run.callId, durationMs } = reading
      return {
        ...factsOf(run),
        callId,
        value,
        ...(durationMs === undefined ? {} : { durationMs }),
        ...runOf(answer.headers),
      }
    }
    case 'failure':
      return failureOf(reading.failure, answer, run)
    case 'unreadable': {
      const message = `The server answered ${answer.status} with something that is no call response.`
      return new CallFailure('transport', `${message} ${doubtOf(run)}`, {
        ...factsOf(run),
        status: answer.status,
      })
    }
  }
}

function failureOf(wire: WireFailure, answer: HttpAnswer, run: CallRun): CallFailure {
  const { refused, afterMs } = retryAdvice(answer, true, run.session.settings.now())
  const retryAfterMs = wire.retryAfterMs ?? afterMs
  const message = wire.class === 'transport' ? `${wire.message} ${doubtOf(run)}` : wire.message
  const code = answer.headers.get(ERROR_CODE_HEADER)
  return new CallFailure(wire.class, message, {
    ...factsOf(run),
    ...wire,
    ...(code === null ? {} : { code }),
    ...runOf(answer.headers),
    callId: wire.callId ?? run.callId,
    canRetry: wire.canRetry || (wire.class === 'server' && refused),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    status: answer.status,
  })
}
