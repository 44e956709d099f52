import { fault, type ToolError } from '#kernel/base/errors'
import { checkCallKey, LATEST, parseToolName, type ToolRef } from '#kernel/base/ids'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { type CallRequest, NO_SECRETS } from '#kernel/call/call'
import { readCallScope, readKeyHeader } from '#protocols/call-wire'
import type { HttpRequest } from '#protocols/http-exchange'
import {
  ARCADE_SCHEMA_ID,
  type CallPath,
  type Dialect,
  isSupportedVersion,
  OXP_SCHEMA_ID,
  OXP_VERSION_HEADER,
  PROTOCOL_VERSION,
  type SchemaFamily,
  SERVED_SCHEMA_IDS,
  schemaFamily,
} from './wire.ts'

/*
 * Decodes a call request of any OTC dialect into one `CallRequest`.
 * Used by `routes.ts`; the response codec reuses parts of it for refusals.
 * Invariant: version, envelope and members are checked in this order (OTC/T-12), and no message repeats a
 * credential.
 */

export interface DecodedCall {
  readonly dialect: Dialect
  /** `$schema` of the answer; `undefined` in the `oxp-header` dialect, which has none. */
  readonly schemaId: string | undefined
  readonly call: CallRequest
  /** A token without a provider, to be bound once the tool is known (OTC/C-26). */
  readonly loneToken: Secret | undefined
}

export interface DecodeOptions {
  /** Refuses members that no published shape has (OTC/T-23). */
  readonly strictRequests: boolean
  /** `$schema` of answers to requests that name no version (OTC/C-16). */
  readonly defaultSchema: string
}

type CallExchange = Pick<
  HttpRequest,
  'headers' | 'body' | 'traceId' | 'traceparent' | 'traceExtras' | 'adoptTrace'
>

/** Decodes one HTTP request into a call; throws a fault. Checks version, envelope and members, in this order (OTC/T-12). */
export function decodeCall(path: CallPath, request: CallExchange, options: DecodeOptions): DecodedCall {
  if (!isJsonObject(request.body)) throw invalid('A call needs a JSON object as its body.')
  const body = withoutNulls(request.body)
  const { schemaId, family } = decodeVersion(
    body.$schema,
    request.headers[OXP_VERSION_HEADER],
    options.defaultSchema,
  )
  const { dialect, call } = decodeEnvelope(path, body, family)
  if (options.strictRequests) {
    if (body !== call) refuseUnlisted(WRAPPER, body)
    refuseUnlisted(MEMBERS[dialect], call)
  }
  const tool = readTool(path, dialect, call)
  const context = decodeContext(call.context)
  const named = readTraceId(dialect, call)
  if (named !== undefined) request.adoptTrace?.(named)
  const input = readInput(call)
  const key = readCallKey(call, request.headers)
  const userId = dialect === 'uts' ? readUtsUser(call, context.userId) : context.userId
  const scope = readCallScope(request.headers)
  return {
    dialect,
    schemaId: answeredSchema(dialect, { family, schemaId, isNamed: body.$schema !== undefined }),
    loneToken: context.loneToken,
    call: {
      tool,
      input,
      key,
      traceId: named ?? request.traceId,
      protocol: 'otc',
      traceparent: request.traceparent,
      traceExtras: request.traceExtras,
      userId,
      userInfo: context.userInfo,
      tokens: context.tokens,
      secrets: context.secrets,
      runId: scope?.runId,
      sessionId: scope?.sessionId,
    },
  }
}

/**
 * The `$schema` of the answer. Only answers to bare bodies with the version in the header have none; the RFC's shape gets the RFC's
 * id (OTC/C-16).
 */
function answeredSchema(
  dialect: Dialect,
  { family, schemaId, isNamed }: DecodedVersion & { readonly isNamed: boolean },
): string | undefined {
  if (dialect === 'oxp-header' && family === 'oxp' && !isNamed) return undefined
  return dialect === 'rfc-call' && family === undefined ? ARCADE_SCHEMA_ID : schemaId
}

/** Reads the id, named `call_id` or `execution_id` (OTC/C-04); the Idempotency-Key header may carry it too (rule 4). */
export function readCallKey(call: JsonObject, headers: HttpRequest['headers']): string | undefined {
  const inBody = singleCallId(readString(call, 'call_id'), readString(call, 'execution_id'))
  const key = singleCallId(inBody, readKeyHeader(headers))
  return key === undefined ? undefined : checkCallKey(key)
}

function singleCallId(left: string | undefined, right: string | undefined): string | undefined {
  if (left !== undefined && right !== undefined && left !== right) {
    throw invalid(
      'The request has two different call ids; "call_id", "execution_id" and the Idempotency-Key header must be equal.',
    )
  }
  return left ?? right
}

function readTool(path: CallPath, dialect: Dialect, call: JsonObject): ToolRef {
  const allowLatest = isExecutePath(path)
  if (dialect !== 'proto') {
    const { tool_id: id } = call
    if (typeof id === 'string') return decodeToolRef(id, allowLatest)
    throw invalid('"tool_id" must be a string such as "Calculator.Add@1.0.0".')
  }
  const tool = isJsonObject(call.tool) ? withoutNulls(call.tool) : {}
  const { name, toolkit, version } = tool
  if (!isPlainName(name) || !isPlainName(toolkit)) {
    throw invalid('"tool" must have a "name" and a "toolkit" of letters, digits and underscores.')
  }
  if (version !== undefined && typeof version !== 'string') {
    throw invalid('"tool.version" must be a string such as "1.0.0".')
  }
  return decodeToolRef(
    version === undefined ? `${toolkit}.${name}` : `${toolkit}.${name}@${version}`,
    allowLatest,
  )
}

function isPlainName(text: JsonValue | undefined): text is string {
  return typeof text === 'string' && /^\w+$/.test(text)
}

/**
 * The samples and schemas of the specification use `input`, its field lists `inputs` (OTC/C-05). Any JSON is accepted here; the
 * gateway validates it (OTC/T-13).
 */
function readInput({ input, inputs }: JsonObject): JsonValue | undefined {
  if (input === undefined) return inputs
  if (inputs === undefined || canonicalJson(input) === canonicalJson(inputs)) return input
  throw invalid(
    '"input" and "inputs" are two names of one member, but their values differ. Send only "input".',
  )
}

/** The draft of March 2025 groups calls by `run_id`, which corresponds to a trace id. */
function readTraceId(dialect: Dialect, call: JsonObject): string | undefined {
  const traceId = readString(call, 'trace_id') || undefined
  return traceId ?? (dialect === 'proto' ? readString(call, 'run_id') : undefined)
}

/** universal-tool-server puts `user_id` beside `tool_id` (OTC/C-26). */
function readUtsUser(call: JsonObject, inContext: string | undefined): string | undefined {
  const topLevel = readString(call, 'user_id')
  if (topLevel !== undefined && inContext !== undefined && topLevel !== inContext) {
    throw invalid('"user_id" and "context.user_id" differ; send one of them.')
  }
  return inContext ?? (topLevel === '' ? undefined : topLevel)
}

function readString(call: JsonObject, member: string): string | undefined {
  const text = call[member]
  if (text === undefined || (typeof text === 'string' && !text.includes('\0'))) return text
  throw invalid(`"${member}" must be a string without NUL; leave it out when there is none.`)
}

/** The version of a request, in the spelling that the answer repeats (OTC/C-16). */
interface DecodedVersion {
  readonly schemaId: string
  /** `undefined` if the request names no version, so that the server's default applies (OTC-15). */
  readonly family: SchemaFamily | undefined
}

/**
 * Reads the version from `$schema` and from the header (OTC/C-17). Only 1.0 is served, so if the two differ,
 * one of them is refused.
 */
export function decodeVersion(
  schema: JsonValue | undefined,
  header: string | undefined,
  defaultSchema: string,
): DecodedVersion {
  if (header !== undefined && !isSupportedVersion(header)) {
    throw fault('version_unsupported', 'This server does not support the requested protocol version.', {
      developerMessage: `Header ${OXP_VERSION_HEADER} must be "${PROTOCOL_VERSION}" or absent.`,
    })
  }
  if (schema === undefined)
    return header === undefined
      ? { schemaId: defaultSchema, family: undefined }
      : { schemaId: OXP_SCHEMA_ID, family: 'oxp' }
  const family = typeof schema === 'string' ? schemaFamily(schema) : undefined
  if (typeof schema !== 'string' || (family === undefined && !URL.canParse(schema))) {
    throw invalid('"$schema" must be a URI; leave it out to use the newest version.')
  }
  if (family === undefined) {
    throw fault('version_unsupported', 'This server does not support the requested protocol version.', {
      developerMessage: `Supported "$schema" values: ${Object.values(SERVED_SCHEMA_IDS).join(', ')} and the same document under OpenToolCalling/Specification and OpenExecProtocol/Specification.`,
    })
  }
  return { schemaId: schema, family }
}

const WRAPPER = new Set(['$schema', 'request'])
const CALL = new Set(['tool_id', 'call_id', 'trace_id', 'input', 'context'])

/** Members that a call may have in each dialect if unknown members are refused (OTC/T-23, OTC/C-32). */
const MEMBERS = {
  proto: new Set(['$schema', 'run_id', 'execution_id', 'created_at', 'tool', 'inputs', 'input', 'context']),
  execute: new Set(['execution_id', ...CALL, 'inputs']),
  'rfc-call': new Set([...CALL, 'inputs']),
  'otc-1.0': new Set([...CALL, 'inputs']),
  'oxp-1.0': new Set([...CALL, 'inputs']),
  'oxp-header': new Set(['$schema', ...CALL]),
  uts: new Set(['$schema', ...CALL, 'execution_id', 'user_id']),
} satisfies Record<Dialect, ReadonlySet<string>>

/**
 * The published request schemas forbid unknown members, although the text of the specification allows them.
 * Strict mode follows the schemas.
 */
function refuseUnlisted(known: ReadonlySet<string>, object: JsonObject): void {
  const unknown = Object.keys(object).find((member) => !known.has(member))
  if (unknown === undefined) return
  throw invalid(
    `Unknown member ${JSON.stringify(unknown)}; this server accepts only ${[...known].join(', ')} here.`,
  )
}

const LATEST_SUFFIX = '@latest'
const MAX_REMEMBERED = 4_096
const MAX_REMEMBERED_LENGTH = 160

/** Parsed tool ids, because ids repeat from call to call; bounded in number and in length. */
const remembered = new Map<string, ToolRef>()

/** Parses a tool id (OTC-43) or another name of the tool (docs/names.md); `@latest` exists only in the execute drafts (OTC/C-15). */
function decodeToolRef(text: string, allowLatest: boolean): ToolRef {
  const known = remembered.get(text)
  if (known !== undefined) return known
  const ref = parseToolName(text)
  if (ref !== undefined) {
    if (text.length <= MAX_REMEMBERED_LENGTH) {
      if (remembered.size >= MAX_REMEMBERED) remembered.clear()
      remembered.set(text, ref)
    }
    return ref
  }
  if (allowLatest && text.endsWith(LATEST_SUFFIX)) {
    const base = parseToolName(text.slice(0, -LATEST_SUFFIX.length))
    if (base?.version === LATEST) return base
  }
  throw invalid(
    `${quote(text)} is not the name of a tool. Write its id, Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.0.0, or another name it is listed under.`,
  )
}

function quote(text: string): string {
  return JSON.stringify(text.length <= 80 ? text : `${text.slice(0, 80).toWellFormed()}…`)
}

/**
 * The dialect of a request, and the object that contains its members. Implements the table in §3.1 of
 * docs/internals/specs/otc.md; the first match wins.
 */
function decodeEnvelope(
  path: CallPath,
  body: JsonObject,
  family: SchemaFamily | undefined,
): { readonly dialect: Dialect; readonly call: JsonObject } {
  if (isExecutePath(path) && isJsonObject(body.tool)) return { dialect: 'proto', call: body }
  const { request } = body
  if (request === undefined) {
    if (body.tool_id === undefined || isExecutePath(path)) {
      const alternative = isExecutePath(path) ? 'a "tool" object' : '"tool_id" at the top level'
      throw invalid(`The body needs a "request" object, or ${alternative}.`)
    }
    return { dialect: path === '/uts/tools/call' ? 'uts' : 'oxp-header', call: body }
  }
  if (body.tool_id !== undefined) {
    throw invalid('The body has both "request" and "tool_id"; send one of them.')
  }
  if (!isJsonObject(request)) throw invalid('"request" must be an object.')
  return { dialect: wrappedDialect(path, family), call: withoutNulls(request) }
}

function wrappedDialect(path: CallPath, family: SchemaFamily | undefined): Dialect {
  if (path === '/uts/tools/call') return 'uts'
  if (isExecutePath(path)) return 'execute'
  if (path === '/call' && (family === undefined || family === 'arcade')) return 'rfc-call'
  return family === 'otc' || family === 'arcade' ? 'otc-1.0' : 'oxp-1.0'
}

/** True for the two paths of the March 2025 drafts, the only ones that accept `@latest`. */
function isExecutePath(path: CallPath): boolean {
  return path === '/execute' || path === '/tools/execute'
}

interface DecodedContext {
  readonly tokens: ReadonlyMap<string, Secret>
  readonly secrets: ReadonlyMap<string, Secret>
  readonly userId: string | undefined
  /** The caller's claims about that user. */
  readonly userInfo: JsonValue | undefined
  /** A token that names no provider; it belongs to the only provider that the tool requires (OTC/C-26). */
  readonly loneToken: Secret | undefined
}

const NO_CONTEXT: DecodedContext = {
  tokens: NO_SECRETS,
  secrets: NO_SECRETS,
  userId: undefined,
  userInfo: undefined,
  loneToken: undefined,
}

/** Reads `context`; unknown members are ignored (OTC-56). */
export function decodeContext(context: JsonValue | undefined): DecodedContext {
  if (context === undefined || context === null) return NO_CONTEXT
  if (!isJsonObject(context)) throw invalid('"context" must be an object; leave it out when there is none.')
  const { authorization, secrets, user_id: userId, user_info: userInfo } = withoutNulls(context)
  if (userId !== undefined && (typeof userId !== 'string' || userId.includes('\0'))) {
    throw invalid('"context.user_id" must be a string without NUL; leave it out when there is none.')
  }
  const loneToken = readLoneToken(authorization)
  return {
    tokens: loneToken === undefined ? readTokens(authorization) : NO_SECRETS,
    secrets: readSecrets(secrets),
    // An empty string names no user, so a tool that needs one reports it as missing (OTC-79).
    userId: userId === '' ? undefined : userId,
    userInfo: readUserInfo(userInfo),
    loneToken,
  }
}

/** Treats null as absent, because generated clients write absent members as null (OTC/T-24). */
export function withoutNulls(members: JsonObject): JsonObject {
  for (const name in members) {
    if (members[name] === null)
      return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
  }
  return members
}

/** `user_info` is passed to the tool unchanged, so its size is limited. */
const MAX_USER_INFO_LENGTH = 16_384

function readUserInfo(userInfo: JsonValue | undefined): JsonValue | undefined {
  if (userInfo === undefined) return undefined
  if (JSON.stringify(userInfo).length <= MAX_USER_INFO_LENGTH) return userInfo
  throw invalid(`"context.user_info" is longer than ${MAX_USER_INFO_LENGTH} characters of JSON.`)
}

/** Reads the form of 4 March 2025, `authorization: { token }` (OTC/C-26). */
function readLoneToken(authorization: JsonValue | undefined): Secret | undefined {
  if (!isJsonObject(authorization) || (authorization.id ?? undefined) !== undefined) return undefined
  if (typeof authorization.token !== 'string') {
    throw invalid(
      '"context.authorization" must be an array of { "id", "token" } objects, or one { "token" }.',
    )
  }
  return new Secret(authorization.token)
}

function readTokens(authorization: JsonValue | undefined): ReadonlyMap<string, Secret> {
  if (authorization === undefined) return NO_SECRETS
  const items = isJsonObject(authorization) ? [authorization] : authorization
  const tokens = readItems(items, 'context.authorization', 'token')
  // An empty token counts as missing, so that the caller gets the challenge (OTC-73).
  return new Map(
    [...tokens].filter(([, token]) => token !== '').map(([id, token]) => [id, new Secret(token)]),
  )
}

function readSecrets(secrets: JsonValue | undefined): ReadonlyMap<string, Secret> {
  if (secrets === undefined) return NO_SECRETS
  const items = isJsonObject(secrets)
    ? Object.entries(secrets).map(([id, value]) => ({ id, value }))
    : secrets
  const values = readItems(items, 'context.secrets', 'value')
  return new Map([...values].map(([id, value]) => [id, new Secret(value)]))
}

/** Items need two strings (OTC-54, OTC-55); one id with two values is refused (OTC/T-21). */
function readItems(items: JsonValue, where: string, member: 'token' | 'value'): ReadonlyMap<string, string> {
  if (!Array.isArray(items)) {
    throw invalid(
      `"${where}" must be an array of { "id", "${member}" } objects; leave it out when there is none.`,
    )
  }
  const found = new Map<string, string>()
  for (const item of items) {
    const { id, [member]: text }: JsonObject = isJsonObject(item) ? item : NO_MEMBERS
    if (typeof id !== 'string' || typeof text !== 'string') {
      throw invalid(`Each item of "${where}" must be an object with the strings "id" and "${member}".`)
    }
    const earlier = found.get(id)
    if (earlier !== undefined && earlier !== text) {
      throw invalid(`"${where}" names ${JSON.stringify(id)} twice with different values; send it once.`)
    }
    found.set(id, text)
  }
  return found
}

const NO_MEMBERS: JsonObject = {}

function invalid(message: string): ToolError {
  return fault('request_invalid', message)
}
