import {
  BY_CALL_ID,
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
import { isObjectSchema, outputOf } from './codec-tool.ts'
import type { McpOptions } from './exchange.ts'
import { META, NEW_REVISION, type Revision } from './wire.ts'

/** The envelopes of all revisions, made once. */
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

/** Failures whose text is another's: a tool's own, or that of the server behind it. */
const WORDS_OF_OTHERS: ReadonlySet<ErrorCode> = new Set(['tool_failed', 'upstream_failed'])

/** How an outcome reaches its caller, once it needs no person any more. */
export interface ReplyTarget {
  readonly id: JsonRpcId
  readonly name: string
  /** Few clients of this protocol can send one. */
  readonly hasCallId: boolean
  readonly revision: Revision
  readonly principal: Principal
  readonly envelope: ResultEnvelope
  /** `undefined` for a name that is no tool of this principal. */
  readonly tool: Tool | undefined
  /** Absent on stdio, which cannot refuse by status. */
  readonly hasHttp: boolean
  readonly metadataUrl: string | undefined
}

/** A finished call as a result, or as an error where nothing could be called (MCP-60 to MCP-69). */
export function encodeReply(reply: CallReply, target: ReplyTarget): Answer {
  const { callId, runId, outcome, untrusted } = reply
  const headers = callReplyHeaders(reply)
  if (outcome.ok) return resultAnswer(target.id, valueResult(outcome, reply, target), headers)
  return encodeFailure(outcome.error, { callId, runId, headers, target, untrusted })
}

function valueResult(
  outcome: Success,
  { callId, runId, untrusted }: CallReply,
  { envelope, tool, revision }: ReplyTarget,
): string {
  const metaJson = outcome.shown?.metaJson
  return envelope.complete(encodeValue(outcome, tool, revision), { callId, runId, untrusted, metaJson })
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
  const error = inWordsOfCaller(failure, target)
  const { id } = target
  const answer = MCP_ANSWERS[error.code]
  switch (answer.kind) {
    case 'error': {
      // Hidden and unknown tools have the same bytes, and name only what was sent (MCP-61).
      const message = error.code === 'tool_not_found' ? unknownTool(target, error) : error.message
      return errorAnswer(
        id,
        { code: answer.code, message, ...callData(error, callId) },
        { ...answer, headers },
      )
    }
    case 'later': {
      const data = { call_id: callId, code: error.code }
      const said = { code: answer.status, message: error.message, data }
      return errorAnswer(id, said, { status: answer.status, headers: { ...headers, ...retryAfter(error) } })
    }
    case 'forbidden':
      return encodeForbidden(error, failed)
    case 'tool error':
    case 'ask':
      return toolError(error, failed)
  }
}

function unknownTool({ name }: ReplyTarget, { details }: CallError): string {
  const said = `Unknown tool: ${name}`
  return details?.nextStep === undefined ? said : `${said}. ${details.nextStep}`
}

/**
 * The model knows the tool by the name it called, and nothing of a call id that its client did not send; what tools and
 * upstreams say is theirs and stays as it is.
 */
function inWordsOfCaller(error: CallError, { tool, name, hasCallId }: ReplyTarget): CallError {
  if (WORDS_OF_OTHERS.has(error.code)) return error
  const named = tool === undefined ? error.message : error.message.replaceAll(tool.id, name)
  const message = hasCallId ? named : named.replace(BY_CALL_ID.repeat, '').replace(BY_CALL_ID.ask, '')
  return message === error.message ? error : { ...error, message }
}

/** A result that the model reads; no value beside it, unless another MCP server sent one (MCP-63). */
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

/** MCP-93: a token may be widened, a key cannot. */
function encodeForbidden(error: CallError, failed: FailedReply): Answer {
  const { target, callId } = failed
  const isToken = target.principal.id.startsWith('jwt:')
  if (!target.hasHttp || !isToken) return toolError(error, failed)
  const challenge = [
    'Bearer error="insufficient_scope"',
    `scope="${(target.tool?.policy.scopes ?? []).join(' ')}"`,
    ...(target.metadataUrl === undefined ? [] : [`resource_metadata="${target.metadataUrl}"`]),
  ].join(', ')
  const said = { code: 403, message: error.message, data: { call_id: callId, code: error.code } }
  return errorAnswer(target.id, said, {
    status: 403,
    headers: { ...failed.headers, 'www-authenticate': challenge },
  })
}

/** What tells two refusals apart must not tell hidden tools from unknown ones. */
function callData({ code }: CallError, callId: string) {
  return code === 'tool_not_found' ? {} : { data: { call_id: callId, code } }
}

function retryAfter(error: CallError): Record<string, string> {
  const { retryAfterMs = 1_000 } = error
  if (!mayRepeat(error)) return {}
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}

const ERROR_CODE = 'collet/errorCode'
/** The wire has no member for it, and rule 9 wants it said. */
const CAN_RETRY = '"collet/canRetry":true'
const UNTRUSTED = `"${META.contentTrust}":"untrusted"`

/** The call whose result it is, if any. */
interface ResultOf {
  readonly callId?: string
  /** Absent when nothing was recorded. */
  readonly runId?: string | undefined
  readonly errorCode?: ErrorCode
  /** Nothing took effect, and another attempt is left under the same call id. */
  readonly canRetry?: boolean
  /** Its text comes from others (OWP-58). */
  readonly untrusted?: true | undefined
  /** Members that another MCP server gave its result, as a JSON object that is not empty; none has a name of ours. */
  readonly metaJson?: string | undefined
}

/** What every result of one revision has besides its own members: its kind and who made it (MCP-07, MCP-08). */
class ResultEnvelope {
  readonly #open: string
  readonly #server: string
  readonly #isNew: boolean

  constructor(revision: Revision, serverInfo: JsonObject) {
    this.#isNew = revision === NEW_REVISION
    this.#open = this.#isNew ? '{"resultType":"complete",' : '{'
    this.#server = `${JSON.stringify(META.serverInfo)}:${JSON.stringify(serverInfo)}`
  }

  /** A finished result with these members, already JSON. */
  complete(members: string, of: ResultOf = {}): string {
    const meta = this.#meta(of)
    return `${this.#open}${members}${meta === '' ? '' : `,"_meta":{${meta}}`}}`
  }

  /** Not finished: the caller is asked first (MCP-70). Exists in the newest revision only. */
  inputRequired(members: JsonObject, callId: string): string {
    const own = JSON.stringify(members).slice(1, -1)
    return `{"resultType":"input_required",${own},"_meta":{${this.#meta({ callId })}}}`
  }

  #meta({ callId, runId, errorCode, canRetry, untrusted, metaJson }: ResultOf): string {
    return [
      ...(this.#isNew ? [this.#server] : []),
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

/** What a model reads of a failed call: what is wrong, where, and what to do next (MCP-62). */
export function describeFailure(error: CallError): string {
  const { issues = [], missing } = error.details ?? {}
  // The message tells the first ones itself.
  const further = issues.filter((issue) => !error.message.includes(issuePhrase(issue)))
  return [
    error.message,
    ...further.slice(0, MAX_ISSUES).map(issuePhrase),
    ...(further.length > MAX_ISSUES ? [`(and ${further.length - MAX_ISSUES} more)`] : []),
    ...(missing === undefined ? [] : describeMissing(missing)),
    ...(error.additionalPromptContent === undefined ? [] : [error.additionalPromptContent]),
  ].join('\n')
}

/** MCP/T-11: callers that cannot be shown a page get its address; the id under which the call goes on is beside the text. */
function describeMissing(missing: MissingRequirements): readonly string[] {
  const pages = pagesOf(missing)
  return [
    ...pages.map(({ challenge, message }) => `${message}: ${challenge.url}`),
    ...(missing.secrets ?? []).map(({ id }) => `Missing secret: ${id}`),
    ...(missing.userId === true ? ['Missing: the user the call is for.'] : []),
    ...(pages.length === 0 ? [] : [howToGoOn(missing)]),
  ]
}

/** That an approved call is made again is said by the message itself. */
function howToGoOn({ approval }: MissingRequirements): string {
  return `Ask the user to open the address.${approval === undefined ? ' Then call the tool again.' : ''}`
}

export interface Page {
  readonly key: string
  readonly message: string
  readonly challenge: Challenge
}

/** What a person has to open before the call can go on, each under the key an answer has. */
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

/** How values of one tool are written, found once per tool. */
interface ValueShape {
  /** `undefined` = declares nothing about its value. */
  readonly output: JsonObject | undefined
  readonly isObject: boolean
  /** Any value: it may bring content blocks of its own. */
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

/**
 * The members of a result that carry the value: its bytes as they were stored, and the same as text (MCP-64 to
 * MCP-67). `tool` is absent when the call was recorded for one that is gone.
 */
function encodeValue({ valueJson, shown }: Success, tool: Tool | undefined, revision: Revision): string {
  if (shown !== undefined && shown.contentJson === undefined) return contentMembers(valueJson, revision)
  const shape = tool === undefined ? undefined : shapeOf(tool)
  if (shape?.isNothing === true && valueJson === 'null') return '"content":[]'
  const own = shape?.isAny === true && shown === undefined ? readOwnContent(valueJson) : undefined
  if (own !== undefined) {
    const content = `"content":${JSON.stringify(own.content)}`
    if (own.structuredContent === undefined) return content
    const structured = JSON.stringify(own.structuredContent)
    return `${content},"structuredContent":${inRevision(structured, isPlainObject(structured), revision)}`
  }
  // A recorded value may be of an earlier version, whose schema was another: what is no object is never sent as one.
  const isObject = isPlainObject(valueJson) && (shape?.output === undefined || shape.isObject)
  const content = shown?.contentJson ?? `[{"type":"text","text":${JSON.stringify(valueJson)}}]`
  return `"content":${content},"structuredContent":${inRevision(valueJson, isObject, revision)}`
}

/** The members of a failure as another MCP server sent them. */
function encodeShownFailure({ contentJson = '[]', structuredJson }: Shown, revision: Revision): string {
  const content = `"content":${contentJson}`
  if (structuredJson === undefined) return content
  return `${content},"structuredContent":${inRevision(structuredJson, isPlainObject(structuredJson), revision)}`
}

/** A value that is content blocks of another MCP server, and `structuredContent` beside them if there was some. */
function contentMembers(valueJson: string, revision: Revision): string {
  if (revision === NEW_REVISION || !valueJson.includes('"structuredContent"')) return valueJson.slice(1, -1)
  const { content, structuredContent }: JsonObject = JSON.parse(valueJson)
  const members = `"content":${JSON.stringify(content)}`
  if (structuredContent === undefined) return members
  const structured = JSON.stringify(structuredContent)
  return `${members},"structuredContent":${inRevision(structured, isPlainObject(structured), revision)}`
}

function inRevision(json: string, isObject: boolean, revision: Revision): string {
  return revision === NEW_REVISION || isObject ? json : `{"result":${json}}`
}

function readOwnContent(valueJson: string): ReturnType<typeof readContentValue> {
  if (!isPlainObject(valueJson) || !valueJson.includes('"content"')) return undefined
  const value: JsonValue = JSON.parse(valueJson)
  return readContentValue(value)
}

/** Stored values are written without space before their first character. */
function isPlainObject(json: string): boolean {
  return json.startsWith('{')
}

/** A value that brings its own content blocks: texts, images, sounds, resources (MCP-64). */
interface ContentValue {
  readonly content: readonly JsonObject[]
  /** The value for programs, beside what is shown. */
  readonly structuredContent?: JsonValue
}

const MEMBERS: ReadonlySet<string> = new Set(['content', 'structuredContent'])

/**
 * A tool whose output is any value may give `{ content: […] }` in the shape of MCP, with or without
 * `structuredContent`; anything else in it makes it an ordinary value.
 */
function readContentValue(value: JsonValue): ContentValue | undefined {
  if (!isJsonObject(value) || !Array.isArray(value.content)) return undefined
  if (!Object.keys(value).every((member) => MEMBERS.has(member))) return undefined
  const content = value.content.filter(isBlock)
  if (content.length !== value.content.length) return undefined
  const { structuredContent } = value
  if (content.length > 0)
    return { content, ...(structuredContent === undefined ? {} : { structuredContent }) }
  // An answer of a service may look like this, and a model that reads only blocks would see nothing at all.
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

/** How one error code looks on this wire (MCP-69). */
type McpAnswer =
  /** A JSON-RPC error; inside HTTP 200 but for faults of ours (MCP/T-3). */
  | { readonly kind: 'error'; readonly code: number; readonly status: 200 | 500 }
  /** A result the model reads (MCP-62, MCP-63). */
  | { readonly kind: 'tool error' }
  /** Nothing ran and waiting helps: the HTTP status, which is the code too (MCP-20). */
  | { readonly kind: 'later'; readonly status: 429 | 503 }
  /** A person has to do something first (MCP/T-11). */
  | { readonly kind: 'ask' }
  /** 403 with a challenge for tokens, a result for everybody else (MCP-93). */
  | { readonly kind: 'forbidden' }

const BAD_PARAMS: McpAnswer = { kind: 'error', code: JSON_RPC_CODES.badParams, status: 200 }
const TOOL_ERROR: McpAnswer = { kind: 'tool error' }

/** Every code has an answer. */
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
