import { type ErrorCode, mayRepeat, ToolError } from '#kernel/base/errors'
import { newCallId } from '#kernel/base/ids'
import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallReply, Outcome } from '#kernel/call/call'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  ERROR_CODE_HEADER,
  toChallenges,
  toMissing,
  toParameterErrors,
} from '#protocols/call-wire'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { type DecodeOptions, readCallKey, withoutNulls } from './codec-request.ts'
import {
  ARCADE_SCHEMA_ID,
  type CallPath,
  claimedFamily,
  type Dialect,
  OXP_SCHEMA_ID,
  OXP_VERSION_HEADER,
  PROTOCOL_VERSION,
  SERVED_SCHEMA_IDS,
  schemaFamily,
  type WireErrorBody,
  type WireToolError,
} from './wire.ts'

/*
 * Encodes OTC answers: results in each dialect, refusals, and the headers and status of every error code. The routes and pages of
 * this folder use it.
 * Invariant: `OTC_ANSWERS` is total, and a call that started is always answered with 200, so that clients do not repeat it (OTC-11).
 */

interface OtcAnswer {
  readonly status: 200 | 400 | 401 | 404 | 422
  /** True if nothing ran and waiting helps; then `Retry-After` and `x-should-retry` are sent (OTC/C-24). */
  readonly retry: boolean
}

const REFUSED: OtcAnswer = { status: 400, retry: false }
const LATER: OtcAnswer = { status: 400, retry: true }
/** The tool ran or may have run: always 200 with `success: false` (OTC-11, OTC-83). */
const FAILED: OtcAnswer = { status: 200, retry: false }

/** The standard defines 400 before the call, 422 for input and 200 after (OTC-63). */
export const OTC_ANSWERS = {
  unauthenticated: { status: 401, retry: false },
  request_invalid: REFUSED,
  version_unsupported: REFUSED,
  key_conflict: REFUSED,
  call_not_found: { status: 404, retry: false },
  tool_not_found: REFUSED,
  session_not_found: REFUSED,
  run_not_found: REFUSED,
  not_authorized: REFUSED,
  input_invalid: { status: 422, retry: false },
  requirement_missing: REFUSED,
  approval_required: REFUSED,
  approval_rejected: REFUSED,
  rate_limited: LATER,
  budget_exceeded: LATER,
  overloaded: LATER,
  not_ready: LATER,
  internal: REFUSED,
  tool_failed: FAILED,
  tool_timeout: FAILED,
  cancelled: FAILED,
  upstream_failed: FAILED,
  egress_denied: FAILED,
  output_invalid: FAILED,
  result_too_large: FAILED,
  ambiguous: FAILED,
  outcome_unknown: FAILED,
  result_expired: FAILED,
  session_lost: FAILED,
  workflow_diverged: FAILED,
} satisfies Record<ErrorCode, OtcAnswer>

interface ResultForm {
  readonly dialect: Dialect
  /** `undefined` if the answer has no `$schema`. */
  readonly schemaId: string | undefined
  /** When the call ended; only the March draft contains it. */
  readonly finishedAtMs: number
}

/** One result as pieces of JSON text. The value was serialised once and is not parsed again. */
interface ResultText {
  readonly schema: string | undefined
  readonly id: string
  /** `"duration":…,`, or empty if the duration is unknown (OTC-89). */
  readonly duration: string
  readonly success: string
  /** `"value":…` or `"error":…`, never both (OTC-92). */
  readonly outcomeJson: string
  /** `,"output":{…}`, or empty for a result that the March drafts cannot express (OTC/C-19). */
  readonly output: string
  readonly finishedAtMs: number
}

/** The 200 body of each dialect (OTC §3.1). */
const BODIES = {
  proto: (text) =>
    `{"$schema":${text.schema},"execution_id":${text.id},${text.duration}"finished_at":"${new Date(text.finishedAtMs).toISOString()}","success":${text.success},"output":{${text.outcomeJson}}}`,
  execute: (text) => {
    const result = `"execution_id":${text.id},${text.duration}"success":${text.success}${text.output}`
    return `{"$schema":${text.schema},${result},"response":{${result}}}`
  },
  'rfc-call': (text) =>
    `{"$schema":${text.schema},"call_id":${text.id},${text.duration}"success":${text.success}${text.output},"result":${plain(text)}}`,
  'otc-1.0': (text) => `{"$schema":${text.schema},"result":${plain(text)}}`,
  'oxp-1.0': (text) => `{"$schema":${text.schema},"result":${plain(text)}}`,
  'oxp-header': (text) =>
    text.schema === undefined ? plain(text) : `{"$schema":${text.schema},${members(text)}}`,
  uts: (text) => `{"success":${text.success},"call_id":${text.id},${text.outcomeJson}}`,
} satisfies Record<Dialect, (text: ResultText) => string>

export function encodeResult(form: ResultForm, reply: CallReply, options: EncodeOptions): string {
  const { outcome } = reply
  const outcomeJson = outcome.ok
    ? `"value":${outcome.valueJson}`
    : `"error":${encodeToolError(outcome.error, options)}`
  // RFC values are objects, numbers, strings and booleans, so null means no output there (OTC/C-19).
  const hasOutput = !outcome.ok || outcome.valueJson !== 'null'
  return BODIES[form.dialect]({
    schema: form.schemaId === undefined ? undefined : JSON.stringify(form.schemaId),
    id: JSON.stringify(reply.callId),
    duration: outcome.durationMs === undefined ? '' : `"duration":${outcome.durationMs},`,
    success: outcome.ok ? 'true' : 'false',
    outcomeJson,
    output: hasOutput ? `,"output":{${outcomeJson}}` : '',
    finishedAtMs: form.finishedAtMs,
  })
}

/** A bare CallToolResponse, which other answers have as `result`. */
export function encodePlainResult(callId: string, outcome: Outcome, options: EncodeOptions): string {
  const form: ResultForm = { dialect: 'oxp-header', schemaId: undefined, finishedAtMs: 0 }
  return encodeResult(form, { callId, outcome, replayed: true }, options)
}

function plain(text: ResultText): string {
  return `{${members(text)}}`
}

function members(text: ResultText): string {
  return `"call_id":${text.id},${text.duration}"success":${text.success},${text.outcomeJson}`
}

/** The members of `ToolError` and of a recorded `CallError` that OTC can express. */
type ShownError = Pick<ToolError, 'code' | 'message' | 'canRetry'> &
  Partial<Pick<ToolError, 'developerMessage' | 'retryAfterMs' | 'additionalPromptContent' | 'details'>>

export interface EncodeOptions {
  /** True if `developer_message` is left out (OTC/T-20). */
  readonly hideDeveloperMessages: boolean
}

/** Body of a refusal; its members are the same in every dialect (OTC §3.1). */
export function encodeRefusal(form: AnswerForm, error: ShownError, options: EncodeOptions): string {
  const { issues, missing } = error.details ?? {}
  const body: WireErrorBody = defined({
    $schema: form.schemaId,
    message: error.message,
    developer_message: developerMessage(error, options),
    parameter_errors: issues && toParameterErrors(issues),
    missing_requirements: missing && toMissing(missing),
    challenges: missing && toChallenges(missing),
    supported: error.code === 'version_unsupported' ? supportedVersions(form) : undefined,
    call_id: error.code === 'approval_required' ? form.callId : undefined,
  })
  return JSON.stringify(body)
}

/** Supported versions in the form that the request used: `$schema` ids or header values. */
function supportedVersions({ schemaId }: AnswerForm): readonly string[] {
  return schemaId === undefined ? [PROTOCOL_VERSION] : Object.values(SERVED_SCHEMA_IDS)
}

/** The `error` of a 200. `can_retry` is present only if it is true, because absent means false (OTC-93). */
export function encodeToolError(error: ShownError, options: EncodeOptions): string {
  const { retryAfterMs } = error
  const shown: WireToolError = defined({
    message: error.message,
    developer_message: developerMessage(error, options),
    can_retry: error.canRetry || undefined,
    additional_prompt_content: error.additionalPromptContent,
    retry_after_ms: retryAfterMs === undefined ? undefined : toWholeMs(retryAfterMs),
  })
  return JSON.stringify(shown)
}

/** Rounds up to the non-negative integer that this wire requires (OTC/C-30). */
function toWholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : 0
}

function developerMessage(error: ShownError, options: EncodeOptions): string | undefined {
  return options.hideDeveloperMessages ? undefined : error.developerMessage
}

const DEFAULT_RETRY_AFTER_MS = 1_000

/** HTTP statuses that the server suggests and this protocol keeps (OTC/T-26). */
const HTTP_STATUSES: ReadonlySet<number> = new Set([403, 404, 405, 413, 421, 431])

export function jsonReply(status: number, body: string, headers: Record<string, string> = {}): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json', [OXP_VERSION_HEADER]: PROTOCOL_VERSION, ...headers },
    body,
  }
}

/** A refusal in the standard's shape. `suggested` is the status that the server would use. */
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
      ...(retry && mayRepeat(error) ? retryHeaders(error.retryAfterMs) : {}),
      ...options.headers,
    },
  )
}

/** Renders failures that happen before a route's handler runs. */
export function refuseWith(options: EncodeOptions & Answering): HttpRoute['refuse'] {
  return (request, error, status) =>
    refusalReply(unreadForm(request.headers, options), error, { ...options, suggested: status })
}

/** Generated SDKs obey both headers; a retry is safe because nothing ran (OTC/C-24). */
function retryHeaders(retryAfterMs: number | undefined): Record<string, string> {
  const seconds = Math.max(1, Math.ceil(toWholeMs(retryAfterMs ?? DEFAULT_RETRY_AFTER_MS) / 1_000))
  return { 'retry-after': String(seconds), 'x-should-retry': 'true' }
}

interface AnswerForm {
  /** `undefined` in the header dialect, which has no `$schema` (OTC/C-18). */
  readonly schemaId: string | undefined
  /** `undefined` while no call id is known (rule 6). */
  readonly callId: string | undefined
}

type Answering = Pick<DecodeOptions, 'defaultSchema'>

/** Form of an answer to a request whose body was not read, so only the header can show the dialect. */
export function unreadForm(headers: HttpRequest['headers'], { defaultSchema }: Answering): AnswerForm {
  const schemaId = headers[OXP_VERSION_HEADER] === undefined ? defaultSchema : undefined
  return { schemaId, callId: undefined }
}

/** Form of an answer to a call whose body was not read. It always has a call id, from the header or a new one (rule 6, OTC-45). */
export function unreadCallForm(headers: HttpRequest['headers'], answering: Answering): AnswerForm {
  return { ...unreadForm(headers, answering), callId: knownCallId({}, headers) ?? newCallId() }
}

/** Form of a refusal to a body that could not be decoded; uses every readable part of the body. */
export function refusedForm(
  path: CallPath,
  request: Pick<HttpRequest, 'headers' | 'body'>,
  answering: Answering,
): AnswerForm {
  const { body, headers } = request
  if (!isJsonObject(body)) return unreadCallForm(headers, answering)
  const callId = knownCallId(body, headers) ?? newCallId()
  const { $schema: schema, request: wrapped } = withoutNulls(body)
  if (schema !== undefined || wrapped === undefined)
    return { schemaId: schemaIdFor(schema, headers, answering), callId }
  if (headers[OXP_VERSION_HEADER] !== undefined) return { schemaId: OXP_SCHEMA_ID, callId }
  return { schemaId: path === '/call' ? ARCADE_SCHEMA_ID : answering.defaultSchema, callId }
}

/** `$schema` of a refusal: the id in the request, the served id of its family (OTC/T-08), or the default. */
export function schemaIdFor(
  named: JsonValue | undefined,
  headers: HttpRequest['headers'],
  answering: Answering,
): string | undefined {
  if (typeof named !== 'string') return unreadForm(headers, answering).schemaId
  if (schemaFamily(named) !== undefined) return named
  const family = claimedFamily(named)
  return family === undefined ? answering.defaultSchema : SERVED_SCHEMA_IDS[family]
}

function knownCallId(body: JsonObject, headers: HttpRequest['headers']): string | undefined {
  try {
    return readCallKey(withoutNulls(isJsonObject(body.request) ? body.request : body), headers)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}
