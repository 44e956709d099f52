import { type Clock, SYSTEM_CLOCK } from '#core/runtime'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import type { AskForConsent } from '#protocols/protocol'
import {
  type AnswerForm,
  type Answering,
  type EncodeOptions,
  encodeRefusal,
  OTC_ANSWERS,
  type ShownError,
  toWholeMs,
  unreadForm,
} from './codec-response.ts'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  DEFAULT_SCHEMA_ID,
  ERROR_CODE_HEADER,
  OXP_VERSION_HEADER,
  PROTOCOL_VERSION,
} from './wire.ts'

/** A route that needs no credential and reads no body. */
export function openGet(path: string, settings: OtcSettings, handle: HttpRoute['handle']): HttpRoute {
  return {
    method: 'GET',
    path,
    access: 'open',
    body: 'never',
    handle,
    refuse: refuseWith(settings),
  }
}

const DEFAULT_RETRY_AFTER_MS = 1_000

/** Statuses of HTTP itself, which the server decides and this protocol keeps (OTC/T-26). */
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

/** Generated SDKs obey both headers; sending again is safe because nothing ran (OTC/C-24). */
function retryHeaders(retryAfterMs: number | undefined): Record<string, string> {
  const seconds = Math.max(1, Math.ceil(toWholeMs(retryAfterMs ?? DEFAULT_RETRY_AFTER_MS) / 1_000))
  return { 'retry-after': String(seconds), 'x-should-retry': 'true' }
}

/** What an operator may choose about this protocol. */
export interface OtcOptions {
  /** Shown at `/uts/info` and in the OpenAPI document. */
  readonly serverVersion: string
  /** Keeps `developer_message` off the wire (OTC/T-20). */
  readonly hideDeveloperMessages?: boolean
  /** Refuses request members that no published shape has (OTC/T-23). */
  readonly strictRequests?: boolean
  /** Leaves one of the two list keys out of answers that would carry both (OTC/T-31). */
  readonly omitListKey?: 'tools' | 'items' | undefined
  /** `$schema` of answers to requests that name no version (OTC/C-16); default the newest. */
  readonly defaultSchema?: string | undefined
  readonly clock?: Clock
  /** Sends the person behind a challenge's `url` to where it can be met. */
  readonly askForConsent?: AskForConsent | undefined
}

/** The same with every default filled in. */
export interface OtcSettings {
  readonly serverVersion: string
  readonly hideDeveloperMessages: boolean
  readonly strict: boolean
  readonly omitListKey: 'tools' | 'items' | undefined
  readonly defaultSchema: string
  readonly clock: Clock
  readonly askForConsent: AskForConsent | undefined
}

export function otcSettings(options: OtcOptions): OtcSettings {
  return {
    serverVersion: options.serverVersion,
    hideDeveloperMessages: options.hideDeveloperMessages ?? false,
    strict: options.strictRequests ?? false,
    omitListKey: options.omitListKey,
    defaultSchema: options.defaultSchema ?? DEFAULT_SCHEMA_ID,
    clock: options.clock ?? SYSTEM_CLOCK,
    askForConsent: options.askForConsent,
  }
}
