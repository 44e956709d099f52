import {
  CALL_ID_ADVICE,
  type Challenge,
  type ErrorCode,
  issuePhrase,
  type MissingRequirements,
  mayRepeat,
} from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallError, CallReply, Shown, Success } from '#kernel/call/call'
import type { Tool } from '#kernel/tool/tool'
import { callReplyHeaders } from '#protocols/call-wire'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import { innerUri, isObjectSchema, outputOf } from './codec-tool.ts'
import type { McpOptions } from './exchange.ts'
import { META, NEW_REVISION, type Revision, TRAITS } from './wire.ts'

/*
 * Encodes the outcome of a tool call as an MCP result or error, and the members that every result has.
 * `tool-calls.ts` and the other methods use it.
 * Invariant: stored values are sent as the bytes that were stored; hidden and unknown tools give the same bytes (MCP-61).
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

/** What a method calls; the errors of a request name it. */
export type CallNoun = 'tool' | 'prompt' | 'resource' | 'completion'

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
  /** False on stdio, which has no status codes. */
  readonly hasHttp: boolean
  readonly metadataUrl: string | undefined
}

/** Encodes a finished call: a result, or an error if nothing could be called (MCP-60 to MCP-69). */
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
  const members = noun === 'tool' ? encodeValue(outcome, tool, revision) : entryMembers(outcome, target)
  return envelope.complete(members, { callId, runId, untrusted, metaJson })
}

/** A resource says how long it may be cached in the newest revision, and not before it (MCP-116). */
function entryMembers({ valueJson }: Success, { noun, revision, name }: ReplyTarget): string {
  if (noun !== 'resource') return valueJson.slice(1, -1)
  const { ttlMs = 0, cacheScope = 'private', ...members }: JsonObject = JSON.parse(valueJson)
  const { uri: inner } = innerUri(name)
  // A page of an app keeps the address by which it was asked for (MCP-146).
  const contents = Array.isArray(members.contents)
    ? members.contents.map((part) =>
        isJsonObject(part) && part.uri === inner ? { ...part, uri: name } : part,
      )
    : undefined
  const rest = contents === undefined ? members : { ...members, contents }
  return JSON.stringify(TRAITS[revision].hasResultType ? { ...rest, ttlMs, cacheScope } : rest).slice(1, -1)
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

/** Only results of tools can report failures; other methods fail with a JSON-RPC error, in the server's own words. */
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

/** A failure that the model reads; it has no value, unless another MCP server sent one (MCP-63). */
export function toolError(
  error: CallError,
  { callId, runId, headers, target, untrusted }: FailedReply,
): Answer {
  const { code: errorCode, canRetry, shown } = error
  const members =
    shown === undefined
      ? `"content":[{"type":"text","text":${JSON.stringify(describeFailure(error))}}]`
      : encodeShownFailure(shown, target.revision)
  const of = { callId, runId, errorCode, canRetry, untrusted, metaJson: shown?.metaJson }
  return resultAnswer(target.id, target.envelope.complete(`${members},"isError":true`, of), headers)
}

/** Challenges a token, whose scopes can be extended; an API key gets a tool error (MCP-93). */
function encodeForbidden(error: CallError, failed: FailedReply): Answer {
  const { target, callId } = failed
  const isToken = target.principal.id.startsWith('jwt:')
  if (!target.hasHttp || !isToken) return toolError(error, failed)
  const challenge = [
    'Bearer error="insufficient_scope"',
    `scope="${(target.tool?.policy.scopes ?? []).join(' ')}"`,
    ...(target.metadataUrl === undefined ? [] : [`resource_metadata="${target.metadataUrl}"`]),
  ].join(', ')
  const wireError = { code: 403, message: error.message, data: { call_id: callId, code: error.code } }
  return errorAnswer(target.id, wireError, {
    status: 403,
    headers: { ...failed.headers, 'www-authenticate': challenge },
  })
}

/** Absent for `tool_not_found`, so that a hidden tool cannot be told from an unknown one. */
function callData({ code }: CallError, callId: string) {
  return code === 'tool_not_found' ? {} : { data: { call_id: callId, code } }
}

function retryAfter(error: CallError): Record<string, string> {
  const { retryAfterMs = 1_000 } = error
  if (!mayRepeat(error)) return {}
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}

const ERROR_CODE = 'collet/errorCode'
/** The wire has no member for it, and rule 9 requires it. */
const CAN_RETRY = '"collet/canRetry":true'
const UNTRUSTED = `"${META.contentTrust}":"untrusted"`

interface ResultOf {
  readonly callId?: string
  /** Absent if nothing was recorded. */
  readonly runId?: string | undefined
  readonly errorCode?: ErrorCode
  /** Nothing took effect, and the same call id may be tried again. */
  readonly canRetry?: boolean
  /** The text comes from a third party (OWP-58). */
  readonly untrusted?: true | undefined
  /** `_meta` of another MCP server, as a non-empty JSON object without names of ours. */
  readonly metaJson?: string | undefined
}

/** Members of every result in one revision: its kind and the server (MCP-07, MCP-08). */
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

  /** Questions to the caller before the call can finish; newest revision only (MCP-70). */
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

  #meta({ callId, runId, errorCode, canRetry, untrusted, metaJson }: ResultOf): string {
    return [
      ...(this.#hasResultType ? [this.#server] : []),
      ...(callId === undefined ? [] : [`${JSON.stringify(META.callId)}:${JSON.stringify(callId)}`]),
      ...(runId === undefined ? [] : [`"${META.runId}":${JSON.stringify(runId)}`]),
      ...(errorCode === undefined ? [] : [`"${ERROR_CODE}":"${errorCode}"`]),
      ...(canRetry === true ? [CAN_RETRY] : []),
      ...(untrusted === true ? [UNTRUSTED] : []),
      ...(metaJson === undefined ? [] : [metaJson.slice(1, -1)]),
    ].join(',')
  }
}

const MAX_ISSUES = 20

/** Text of a failed call for the model: the problem, its place and the next step (MCP-62). */
export function describeFailure(error: CallError): string {
  const { issues = [], missing } = error.details ?? {}
  // The message has the first ones already.
  const further = issues.filter((issue) => !error.message.includes(issuePhrase(issue)))
  return [
    error.message,
    ...further.slice(0, MAX_ISSUES).map(issuePhrase),
    ...(further.length > MAX_ISSUES ? [`(and ${further.length - MAX_ISSUES} more)`] : []),
    ...(missing === undefined ? [] : describeMissing(missing)),
    ...(error.additionalPromptContent === undefined ? [] : [error.additionalPromptContent]),
  ].join('\n')
}

/** For clients that cannot open a page: its address (MCP/T-11). */
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

interface ValueShape {
  readonly output: JsonObject | undefined
  readonly isObject: boolean
  /** Any value is allowed, so it may be content blocks. */
  readonly isAny: boolean
  readonly isNothing: boolean
}

const shapes = new WeakMap<Tool, ValueShape>()

function shapeOf(tool: Tool): ValueShape {
  const known = shapes.get(tool)
  if (known !== undefined) return known
  const output = outputOf(tool)
  const shape = {
    output,
    isObject: output !== undefined && isObjectSchema(output),
    isAny: output === undefined && tool.outputSchema !== null,
    isNothing: tool.outputSchema === null,
  }
  shapes.set(tool, shape)
  return shape
}

/** The value as `structuredContent` and as text (MCP-64 to MCP-67). `tool` is absent if it was removed since the call. */
function encodeValue({ valueJson, shown }: Success, tool: Tool | undefined, revision: Revision): string {
  if (shown !== undefined && shown.contentJson === undefined) return contentMembers(valueJson, revision)
  const shape = tool === undefined ? undefined : shapeOf(tool)
  if (shape?.isNothing === true && valueJson === 'null') return '"content":[]'
  const own = shape?.isAny === true && shown === undefined ? readOwnContent(valueJson) : undefined
  if (own !== undefined) {
    const content = `"content":${JSON.stringify(own.content)}`
    if (own.structuredContent === undefined) return content
    return `${content},${structuredMember(JSON.stringify(own.structuredContent), revision)}`
  }
  // A recorded value may come from an earlier version of the tool with another schema, so the value itself is checked.
  const isObject = isPlainObject(valueJson) && (shape?.output === undefined || shape.isObject)
  const content = shown?.contentJson ?? `[{"type":"text","text":${JSON.stringify(valueJson)}}]`
  return `"content":${content},${structuredMember(valueJson, revision, isObject)}`
}

/** A failure as another MCP server sent it. */
function encodeShownFailure({ contentJson = '[]', structuredJson }: Shown, revision: Revision): string {
  const content = `"content":${contentJson}`
  if (structuredJson === undefined) return content
  return `${content},${structuredMember(structuredJson, revision)}`
}

/** A value that consists of content blocks of another MCP server, with its `structuredContent`, if any. */
function contentMembers(valueJson: string, revision: Revision): string {
  if (TRAITS[revision].hasFullSchemas || !valueJson.includes('"structuredContent"'))
    return valueJson.slice(1, -1)
  const { content, structuredContent }: JsonObject = JSON.parse(valueJson)
  const members = `"content":${JSON.stringify(content)}`
  if (structuredContent === undefined) return members
  return `${members},${structuredMember(JSON.stringify(structuredContent), revision)}`
}

/** Older revisions accept only objects, so other values are wrapped (MCP-67). */
function structuredMember(json: string, revision: Revision, isObject = isPlainObject(json)): string {
  return `"structuredContent":${TRAITS[revision].hasFullSchemas || isObject ? json : `{"result":${json}}`}`
}

function readOwnContent(valueJson: string): ReturnType<typeof readContentValue> {
  if (!isPlainObject(valueJson) || !valueJson.includes('"content"')) return undefined
  const value: JsonValue = JSON.parse(valueJson)
  return readContentValue(value)
}

/** Stored values have no leading space. */
function isPlainObject(json: string): boolean {
  return json.startsWith('{')
}

/** A value that consists of content blocks: texts, images, sounds, resources (MCP-64). */
interface ContentValue {
  readonly content: readonly JsonObject[]
  readonly structuredContent?: JsonValue
}

const MEMBERS: ReadonlySet<string> = new Set(['content', 'structuredContent'])

/**
 * A tool without a declared output may return `{ content: […] }` in the shape of MCP, with or without
 * `structuredContent`. A value with any other member is an ordinary value.
 */
function readContentValue(value: JsonValue): ContentValue | undefined {
  if (!isJsonObject(value) || !Array.isArray(value.content)) return undefined
  if (!Object.keys(value).every((member) => MEMBERS.has(member))) return undefined
  const content = value.content.filter(isBlock)
  if (content.length !== value.content.length) return undefined
  const { structuredContent } = value
  if (content.length > 0)
    return { content, ...(structuredContent === undefined ? {} : { structuredContent }) }
  // A service may answer with no blocks, and a model that reads only blocks would see nothing.
  if (structuredContent === undefined) return undefined
  return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent }
}

function isBlock(block: JsonValue): block is JsonObject {
  if (!isJsonObject(block)) return false
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string'
    case 'image':
    case 'audio':
      return typeof block.data === 'string' && typeof block.mimeType === 'string'
    case 'resource_link':
      return typeof block.uri === 'string' && typeof block.name === 'string'
    case 'resource':
      return isResource(block.resource)
    default:
      return false
  }
}

function isResource(resource: JsonValue | undefined): boolean {
  return (
    isJsonObject(resource) &&
    typeof resource.uri === 'string' &&
    (typeof resource.text === 'string' || typeof resource.blob === 'string')
  )
}

/** Encoding of one error code (MCP-69). */
type McpAnswer =
  /** A JSON-RPC error, with HTTP 200 except for faults of ours (MCP/T-3). */
  | { readonly kind: 'error'; readonly code: number; readonly status: 200 | 500 }
  /** A result that the model reads (MCP-62, MCP-63). */
  | { readonly kind: 'tool error' }
  /** Nothing ran and a later retry may succeed: the HTTP status is also the code (MCP-20). */
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
