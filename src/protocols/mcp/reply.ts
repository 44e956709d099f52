import {
  CALL_ID_ADVICE,
  type Challenge,
  type ErrorCode,
  issuePhrase,
  type MissingRequirements,
  mayRepeat,
} from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { ASSERT_USERS_SCOPE, coversScope, type Principal } from '#kernel/base/principal'
import type { CallError, CallReply, Success } from '#kernel/call/call'
import type { Tool } from '#kernel/tool/tool'
import { callReplyHeaders } from '#protocols/call-wire'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { unknownToolText } from '#search/for-models'
import { type CallNoun, entryMembers } from './codec-entry.ts'
import { type Answer, errorAnswer, resultAnswer, TOOL_ERROR_TYPE } from './codec-message.ts'
import type { McpOptions } from './exchange.ts'
import { encodeShownFailure, encodeValue } from './results/content.ts'
import { fitFailure, fitResult } from './results/fit.ts'
import { META, NEW_REVISION, type Revision, TRAITS } from './wire.ts'

/*
 * Encodes the outcome of a tool call as an MCP result or error, and the members that every result has.
 * `tool-calls.ts` and the other methods use it.
 * Invariant: stored values that fit are sent byte for byte; hidden and unknown tools get identical answers (MCP-61).
 */

export class ResultEnvelopes {
  readonly serverInfo: JsonObject
  readonly #byRevision: Readonly<Record<Revision, ResultEnvelope>>

  constructor({ name, serverVersion }: McpOptions) {
    this.serverInfo = { name, version: serverVersion }
    this.#byRevision = {
      '2025-06-18': new ResultEnvelope('2025-06-18', this.serverInfo),
      '2025-11-25': new ResultEnvelope('2025-11-25', this.serverInfo),
      [NEW_REVISION]: new ResultEnvelope(NEW_REVISION, this.serverInfo),
    }
  }

  of(revision: Revision): ResultEnvelope {
    return this.#byRevision[revision]
  }
}

/** Failures whose text comes from the tool or its upstream. */
const FOREIGN_TEXTS: ReadonlySet<ErrorCode> = new Set(['tool_failed', 'upstream_failed'])

export interface ReplyTarget {
  readonly noun: CallNoun
  readonly id: JsonRpcId
  readonly name: string
  /** True if the client sent an idempotency key, which few clients of MCP do. */
  readonly hasCallId: boolean
  readonly revision: Revision
  readonly principal: Principal
  readonly envelope: ResultEnvelope
  /** `undefined` if the principal has no tool of this name. */
  readonly tool: Tool | undefined
  /** Maximum bytes of a result that a model gets at once; 0 = no limit (MCP-180). */
  readonly modelBytes: number
  /** Name of the tool that reads results. */
  readToolName(): string
  /** False on stdio, which has no status codes. */
  readonly hasHttp: boolean
  /** The name in the arguments of `call_tool`. */
  readonly namedInArguments?: string | undefined
  readonly metadataUrl: string | undefined
}

/** Encodes a finished call as a result, or as an error if the call could not begin (MCP-60 to MCP-69). */
export function encodeReply(reply: CallReply, target: ReplyTarget): Answer {
  const { callId, runId, outcome, untrusted } = reply
  const headers = callReplyHeaders(reply)
  if (outcome.ok) return resultAnswer(target.id, valueResult(outcome, reply, target), headers)
  return encodeFailure(outcome.error, { callId, runId, headers, target, untrusted })
}

function valueResult(outcome: Success, { callId, runId, untrusted }: CallReply, target: ReplyTarget): string {
  const { envelope, tool, revision, noun } = target
  const metaJson = outcome.shown?.metaJson
  // The value of an entry is the result itself.
  if (noun !== 'tool')
    return envelope.complete(entryMembers(outcome.valueJson, target), { callId, runId, untrusted, metaJson })
  const fitted = fitResult(outcome, callId, target)
  const members = fitted?.members ?? encodeValue(outcome, tool, revision)
  return envelope.complete(members, { callId, runId, untrusted, metaJson, shapedJson: fitted?.shapedJson })
}

interface FailedReply {
  readonly callId: string
  readonly runId?: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly target: ReplyTarget
  readonly untrusted?: true | undefined
}

export function encodeFailure(failure: CallError, failed: FailedReply): Answer {
  const { callId, headers, target } = failed
  const error = withCallersNames(failure, target)
  const { id } = target
  const answer = MCP_ANSWERS[error.code]
  switch (answer.kind) {
    case 'error': {
      const { namedInArguments: named } = target
      // Clients show models no errors of the protocol, and a model that wrote a wrong name can search again.
      if (error.code === 'tool_not_found' && named !== undefined)
        return toolError({ ...error, message: unknownToolText(named) }, failed)
      // The message names only what the client sent (MCP-61).
      const message = error.code === 'tool_not_found' ? unknownTool(target, error) : error.message
      return errorAnswer(
        id,
        { code: answer.code, message, ...callData(error, callId) },
        { ...answer, headers },
      )
    }
    case 'later': {
      const data = { call_id: callId, code: error.code }
      const wireError = { code: answer.status, message: error.message, data }
      return errorAnswer(id, wireError, {
        status: answer.status,
        headers: { ...headers, ...retryAfter(error) },
      })
    }
    case 'forbidden':
      return encodeForbidden(error, failed)
    case 'tool error':
    case 'ask':
      return target.noun === 'tool' ? toolError(error, failed) : entryError(error, failed)
  }
}

/** Only tool results can report failures; other methods fail with a JSON-RPC error that has the text of the failure. */
function entryError(error: CallError, { callId, headers, target }: FailedReply): Answer {
  const own = error.code === 'input_invalid' ? JSON_RPC_CODES.badParams : JSON_RPC_CODES.internal
  const wireError = {
    code: error.errorNumber ?? own,
    message: describeFailure(error),
    ...callData(error, callId),
  }
  return errorAnswer(target.id, wireError, { headers })
}

function unknownTool({ name, noun }: ReplyTarget, { details }: CallError): string {
  const text = noun === 'tool' ? `Unknown tool: ${name}` : `Unknown ${noun}: ${name}`
  return details?.nextStep === undefined ? text : `${text}. ${details.nextStep}`
}

/**
 * Uses the tool name that the model called, and removes advice about a call id that the client did not send. Texts of
 * tools and upstreams are not changed.
 */
function withCallersNames(error: CallError, { tool, name, hasCallId }: ReplyTarget): CallError {
  if (FOREIGN_TEXTS.has(error.code)) return error
  const named = tool === undefined ? error.message : error.message.replaceAll(tool.id, name)
  const message = hasCallId ? named : named.replace(CALL_ID_ADVICE.repeat, '').replace(CALL_ID_ADVICE.ask, '')
  return message === error.message ? error : { ...error, message }
}

/** A failure as a result that the model reads; it has a value only if another MCP server sent one (MCP-63). */
export function toolError(
  error: CallError,
  { callId, runId, headers, target, untrusted }: FailedReply,
): Answer {
  const { code: errorCode, canRetry, shown } = error
  const fitted = fitFailure(error, callId, target)
  const { members, shapedJson } = fitted ?? {
    members:
      shown === undefined
        ? `"content":[{"type":"text","text":${JSON.stringify(describeFailure(error))}}]`
        : encodeShownFailure(shown, target.revision),
  }
  const of = { callId, runId, errorCode, canRetry, untrusted, shapedJson, metaJson: shown?.metaJson }
  const result = target.envelope.complete(`${members},"isError":true`, of)
  return { ...resultAnswer(target.id, result, headers), errorType: TOOL_ERROR_TYPE }
}

/**
 * A token gets a challenge, because its scopes can be extended; an API key gets a tool error (MCP-93). The caller sees the tool, so
 * its token has the tool's scopes, and only the scope to name a user can be missing. If no scope is missing there is no challenge,
 * because the client would repeat it for ever.
 */
function encodeForbidden(error: CallError, failed: FailedReply): Answer {
  const { target, callId } = failed
  const { id, scopes } = target.principal
  const lacksScope = !coversScope(scopes, ASSERT_USERS_SCOPE)
  if (!target.hasHttp || !id.startsWith('jwt:') || !lacksScope) return toolError(error, failed)
  const challenge = [
    'Bearer error="insufficient_scope"',
    `scope="${[...(target.tool?.policy.scopes ?? []), ASSERT_USERS_SCOPE].join(' ')}"`,
    ...(target.metadataUrl === undefined ? [] : [`resource_metadata="${target.metadataUrl}"`]),
  ].join(', ')
  const wireError = { code: 403, message: error.message, data: { call_id: callId, code: error.code } }
  return errorAnswer(target.id, wireError, {
    status: 403,
    headers: { ...failed.headers, 'www-authenticate': challenge },
  })
}

/** No data for `tool_not_found`, so that hidden and unknown tools get identical answers. */
function callData({ code }: CallError, callId: string) {
  return code === 'tool_not_found' ? {} : { data: { call_id: callId, code } }
}

function retryAfter(error: CallError): Record<string, string> {
  const { retryAfterMs = 1_000 } = error
  if (!mayRepeat(error)) return {}
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}

const ERROR_CODE = 'collet/errorCode'
/** In `_meta`, because MCP has no member for it and rule 9 requires it. */
const CAN_RETRY = '"collet/canRetry":true'
const UNTRUSTED = `"${META.contentTrust}":"untrusted"`

interface ResultOf {
  readonly callId?: string
  /** Absent if nothing was recorded. */
  readonly runId?: string | undefined
  readonly errorCode?: ErrorCode
  /** True if nothing took effect and the call may be retried with the same call id. */
  readonly canRetry?: boolean
  /** The text comes from a third party (OWP-58). */
  readonly untrusted?: true | undefined
  /** The address of the whole result, if this one is shortened or projected. */
  readonly shapedJson?: string | undefined
  /** `_meta` from another MCP server: a non-empty JSON object without this server's member names. */
  readonly metaJson?: string | undefined
}

/** The members that every result of one revision has: its type and the server (MCP-07, MCP-08). */
class ResultEnvelope {
  readonly #open: string
  readonly #server: string
  readonly #hasResultType: boolean

  constructor(revision: Revision, serverInfo: JsonObject) {
    this.#hasResultType = TRAITS[revision].hasResultType
    this.#open = this.#hasResultType ? '{"resultType":"complete",' : '{'
    this.#server = `${JSON.stringify(META.serverInfo)}:${JSON.stringify(serverInfo)}`
  }

  /** A finished result; `members` is JSON without braces. */
  complete(members: string, of: ResultOf = {}): string {
    const meta = this.#meta(of)
    return `${this.#open}${members}${meta === '' ? '' : `,"_meta":{${meta}}`}}`
  }

  /** A result with questions that the caller must answer before the call can finish; newest revision only (MCP-70). */
  inputRequired(members: JsonObject, callId: string): string {
    const own = JSON.stringify(members).slice(1, -1)
    return `{"resultType":"input_required",${own},"_meta":{${this.#meta({ callId })}}}`
  }

  /** A result without members. */
  empty(): string {
    const meta = this.#meta({})
    return this.#hasResultType ? `{"resultType":"complete","_meta":{${meta}}}` : '{}'
  }

  /** The handle of a call that continues; newest revision only (MCP-121). */
  task(members: JsonObject, callId: string): string {
    const own = JSON.stringify(members).slice(1, -1)
    return `{"resultType":"task",${own},"_meta":{${this.#meta({ callId })}}}`
  }

  #meta({ callId, runId, errorCode, canRetry, untrusted, metaJson, shapedJson }: ResultOf): string {
    return [
      ...(this.#hasResultType ? [this.#server] : []),
      ...(callId === undefined ? [] : [`${JSON.stringify(META.callId)}:${JSON.stringify(callId)}`]),
      ...(runId === undefined ? [] : [`"${META.runId}":${JSON.stringify(runId)}`]),
      ...(errorCode === undefined ? [] : [`"${ERROR_CODE}":"${errorCode}"`]),
      ...(canRetry === true ? [CAN_RETRY] : []),
      ...(untrusted === true ? [UNTRUSTED] : []),
      ...(shapedJson === undefined ? [] : [`"${META.shaped}":${shapedJson}`]),
      ...(metaJson === undefined ? [] : [metaJson.slice(1, -1)]),
    ].join(',')
  }
}

const MAX_ISSUES = 20

/** Text of a failed call for the model: the problem, its place and the next step (MCP-62). */
export function describeFailure(error: CallError): string {
  const { issues = [], missing } = error.details ?? {}
  // The message already contains the first ones.
  const further = issues.filter((issue) => !error.message.includes(issuePhrase(issue)))
  return [
    error.message,
    ...further.slice(0, MAX_ISSUES).map(issuePhrase),
    ...(further.length > MAX_ISSUES ? [`(and ${further.length - MAX_ISSUES} more)`] : []),
    ...(missing === undefined ? [] : describeMissing(missing)),
    ...(error.additionalPromptContent === undefined ? [] : [error.additionalPromptContent]),
  ].join('\n')
}

/** Names the addresses of pages, for clients that cannot open them themselves (MCP/T-11). */
function describeMissing(missing: MissingRequirements): readonly string[] {
  const pages = pagesOf(missing)
  return [
    ...pages.map(({ challenge, message }) => `${message}: ${challenge.url}`),
    ...(missing.secrets ?? []).map(({ id }) => `Missing secret: ${id}`),
    ...(missing.userId === true ? ['Missing: the user of the call.'] : []),
    ...(pages.length === 0 ? [] : [nextStepText(missing)]),
  ]
}

/** The message of an approval already says to call again. */
function nextStepText({ approval }: MissingRequirements): string {
  return `Ask the user to open the address.${approval === undefined ? ' Then call the tool again.' : ''}`
}

export interface Page {
  readonly key: string
  readonly message: string
  readonly challenge: Challenge
}

/** Pages that a person has to open before the call can continue, each with the key of its answer. */
export function pagesOf({ approval, authorization = [] }: MissingRequirements): readonly Page[] {
  return [
    ...(approval === undefined ? [] : [{ key: 'approval', message: 'Approval needed', challenge: approval }]),
    ...authorization.map((challenge, index) => ({
      key: index === 0 ? 'authorization' : `authorization_${index + 1}`,
      message: `Authorization needed from ${challenge.provider}${scopesText(challenge.scopes)}`,
      challenge,
    })),
  ]
}

function scopesText(scopes: readonly string[]): string {
  return scopes.length === 0 ? '' : ` (${scopes.join(' ')})`
}

/** How one error code is encoded (MCP-69). */
type McpAnswer =
  /** A JSON-RPC error, with HTTP 200 except for internal errors (MCP/T-3). */
  | { readonly kind: 'error'; readonly code: number; readonly status: 200 | 500 }
  /** A result that the model reads (MCP-62, MCP-63). */
  | { readonly kind: 'tool error' }
  /** Nothing ran and a later retry may succeed. The HTTP status is also the JSON-RPC code (MCP-20). */
  | { readonly kind: 'later'; readonly status: 429 | 503 }
  /** A person has to act first (MCP/T-11). */
  | { readonly kind: 'ask' }
  /** 403 with a challenge for tokens, a result for all other credentials (MCP-93). */
  | { readonly kind: 'forbidden' }

const BAD_PARAMS: McpAnswer = { kind: 'error', code: JSON_RPC_CODES.badParams, status: 200 }
const TOOL_ERROR: McpAnswer = { kind: 'tool error' }

export const MCP_ANSWERS = {
  unauthenticated: { kind: 'forbidden' },
  request_invalid: BAD_PARAMS,
  version_unsupported: BAD_PARAMS,
  key_conflict: BAD_PARAMS,
  call_not_found: BAD_PARAMS,
  tool_not_found: BAD_PARAMS,
  session_not_found: BAD_PARAMS,
  run_not_found: BAD_PARAMS,
  not_authorized: { kind: 'forbidden' },
  input_invalid: TOOL_ERROR,
  requirement_missing: { kind: 'ask' },
  approval_required: { kind: 'ask' },
  approval_rejected: TOOL_ERROR,
  rate_limited: { kind: 'later', status: 429 },
  budget_exceeded: { kind: 'later', status: 429 },
  overloaded: { kind: 'later', status: 503 },
  not_ready: { kind: 'later', status: 503 },
  internal: { kind: 'error', code: JSON_RPC_CODES.internal, status: 500 },
  tool_failed: TOOL_ERROR,
  tool_timeout: TOOL_ERROR,
  cancelled: TOOL_ERROR,
  upstream_failed: TOOL_ERROR,
  egress_denied: TOOL_ERROR,
  output_invalid: TOOL_ERROR,
  result_too_large: TOOL_ERROR,
  ambiguous: TOOL_ERROR,
  outcome_unknown: TOOL_ERROR,
  result_expired: TOOL_ERROR,
  session_lost: TOOL_ERROR,
  workflow_diverged: TOOL_ERROR,
} satisfies Record<ErrorCode, McpAnswer>
