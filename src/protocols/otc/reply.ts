import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import { type AnswerForm, type Answering, unreadForm } from './codec-answer-form.ts'
import { type EncodeOptions, encodeRefusal, type ShownError, toWholeMs } from './codec-error.ts'
import { OTC_ANSWERS } from './errors.ts'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  ERROR_CODE_HEADER,
  OXP_VERSION_HEADER,
  PROTOCOL_VERSION,
} from './wire.ts'

const DEFAULT_RETRY_AFTER_MS = 1_000

/** Statuses of HTTP itself, which the server decides and this protocol keeps (T-26). */
const HTTP_STATUSES: ReadonlySet<number> = new Set([403, 404, 405, 413, 421, 431])

export function jsonReply(status: number, body: string, headers: Record<string, string> = {}): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json', [OXP_VERSION_HEADER]: PROTOCOL_VERSION, ...headers },
    body,
  }
}

/** A refusal in the standard's shape. `suggested` is the status the server would give. */
export function refusalReply(
  form: AnswerForm,
  error: ShownError,
  options: EncodeOptions & {
    readonly suggested?: number
    readonly headers?: Readonly<Record<string, string>>
  },
): HttpReply {
  const { status, retry } = OTC_ANSWERS[error.code]
  const isHttpLevel = options.suggested !== undefined && HTTP_STATUSES.has(options.suggested)
  return jsonReply(
    isHttpLevel ? options.suggested : status === 200 ? 400 : status,
    encodeRefusal(form, error, options),
    {
      ...(form.callId === undefined ? {} : { [CALL_ID_HEADER]: callIdToHeader(form.callId) }),
      [ERROR_CODE_HEADER]: error.code,
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
      ...(retry ? retryHeaders(error.retryAfterMs) : {}),
      ...options.headers,
    },
  )
}

/** How every route of this protocol renders what failed before it was asked. */
export function refuseWith(options: EncodeOptions & Answering): HttpRoute['refuse'] {
  return (request, error, status) =>
    refusalReply(unreadForm(request.headers, options), error, { ...options, suggested: status })
}

/** Generated SDKs obey both headers; sending again is safe because nothing ran (C-24). */
function retryHeaders(retryAfterMs: number | undefined): Record<string, string> {
  const seconds = Math.max(1, Math.ceil(toWholeMs(retryAfterMs ?? DEFAULT_RETRY_AFTER_MS) / 1_000))
  return { 'retry-after': String(seconds), 'x-should-retry': 'true' }
}
