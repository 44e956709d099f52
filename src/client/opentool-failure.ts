import { FAILURE_CODES, REFUSAL_CODES } from '#core/errors'
import { isJsonObject } from '#core/json'
import { NO_ACCESS, type ReadException } from '#protocols/opentool/codec-client-answer'
import {
  type FailureClass,
  readRefusal,
  readToolError,
  type WireFailure,
} from '#protocols/otc/codec-client-reply'
import { CallFailure, type CallFailureOptions } from './call-failure.ts'
import type { NoAnswer, NoAnswerReason } from './http-exchange.ts'
import { OpenToolException } from './opentool-exception.ts'
import { noAnswerFailure } from './send-with-retries.ts'

const FAILURES: ReadonlySet<string> = new Set(FAILURE_CODES)
const REFUSALS: ReadonlySet<string> = new Set(REFUSAL_CODES)

const DOUBT = 'Whether the call ran is not known; check before you repeat it.'

/** What an answer that is no result means for the caller. */
export function failureOf(read: ReadException, facts: CallFailureOptions): CallFailure {
  const wire = toWireFailure(read, facts.status ?? 0)
  const message = wire.class === 'transport' ? `${wire.message} ${DOUBT}` : wire.message
  const code = codeOf(read)
  return new CallFailure(wire.class, message, {
    ...facts,
    ...wire,
    ...(code === undefined ? {} : { code }),
    cause: new OpenToolException(read),
  })
}

/** An exchange without an answer. Only what the specification has a name for gets one (OTS-64). */
export function noAnswer(
  error: NoAnswer,
  doing: string,
  facts: CallFailureOptions & { readonly isCall?: boolean },
): CallFailure {
  const { isCall = false, ...options } = facts
  const { message } = noAnswerFailure(error, doing, isCall ? { advice: DOUBT } : {})
  const read = EXCEPTION_OF[error.reason]
  const cause = read === undefined ? error.cause : new OpenToolException(read(message), error.cause ?? error)
  return new CallFailure('transport', message, { ...options, cause })
}

const EXCEPTION_OF = {
  network: () => NO_ACCESS,
  timeout: () => NO_ACCESS,
  aborted: undefined,
  too_large: callException,
  too_much: callException,
  redirect: callException,
} satisfies Record<NoAnswerReason, ((message: string) => ReadException) | undefined>

function callException(message: string): ReadException {
  return { name: 'OpenToolServerCallException', code: 500, message }
}

/** The stable code that servers of this package send beside the number. */
function codeOf({ data }: ReadException): string | undefined {
  const code = isJsonObject(data) ? data.code : undefined
  return typeof code === 'string' ? code : undefined
}

function toWireFailure(read: ReadException, status: number): WireFailure {
  const { message, data } = read
  const code = codeOf(read)
  if (isJsonObject(data) && code !== undefined) {
    const said = { ...data, message }
    if (FAILURES.has(code)) return readToolError(said, undefined)
    if (REFUSALS.has(code)) return refusalOf(code, readRefusal(code === 'input_invalid' ? 422 : 400, said))
  }
  return { class: classOf(read, status), message, canRetry: false }
}

/** Nothing ran; a server that says when to come back expects the same call again. */
function refusalOf(code: string, wire: WireFailure): WireFailure {
  if (code === 'approval_required') return { ...wire, class: 'approval_required' }
  return wire.retryAfterMs === undefined ? wire : { ...wire, canRetry: true }
}

/** For servers that say no more than a number (OTS-40, OTS-41). */
function classOf({ name, code }: ReadException, status: number): FailureClass {
  switch (name) {
    case 'OpenToolServerUnauthorizedException':
      return 'unauthenticated'
    case 'OpenToolServerNoAccessException':
      return 'server'
    case 'ResponseNullException':
    case 'ErrorNullException':
      return 'transport'
    case 'OpenToolServerCallException':
      if (status >= 500) return 'transport'
      if (code === -32_602 || (code === 400 && status < 300)) return 'validation'
      if (code === 405 || status >= 400 || (code <= -32_600 && code >= -32_700)) return 'server'
      return code === status ? 'transport' : 'tool'
  }
}
