import type { CallRequest } from '#core/call'
import { fault } from '#core/errors'
import { checkCallKey, type ToolRef } from '#core/ids'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Secret } from '#core/secret'
import { readCallPlace, readKeyHeader } from '#protocols/call-headers'
import type { HttpRequest } from '#protocols/http-exchange'
import { decodeContext, withoutNulls } from './codec-context.ts'
import { bodyObject, decodeEnvelope, isExecutePath } from './codec-envelope.ts'
import { decodeToolRef } from './codec-tool-ref.ts'
import { refuseUnknownMembers } from './codec-unknown-members.ts'
import { decodeVersion } from './codec-version.ts'
import { type CallPath, type Dialect, OXP_VERSION_HEADER } from './wire.ts'

export interface DecodedCall {
  readonly dialect: Dialect
  /** `$schema` of the answer; `oxp-header` sends none. */
  readonly schemaId: string
  readonly call: CallRequest
  /** A token without a provider, to be bound once the tool is known (C-26). */
  readonly loneToken: Secret | undefined
}

export interface DecodeOptions {
  /** Refuses members no published shape has (T-23). */
  readonly strict: boolean
  /** `$schema` of answers to requests that name no version (C-16). */
  readonly defaultSchema: string
}

type CallExchange = Pick<HttpRequest, 'headers' | 'body' | 'traceId' | 'traceparent' | 'adoptTrace'>

/** One HTTP request as one call, or a fault. Checks in the order of T-12: version, envelope, members. */
export function decodeCall(path: CallPath, request: CallExchange, options: DecodeOptions): DecodedCall {
  const body = withoutNulls(bodyObject(request.body))
  const { schemaId, family } = decodeVersion(
    body.$schema,
    request.headers[OXP_VERSION_HEADER],
    options.defaultSchema,
  )
  const { dialect, call } = decodeEnvelope(path, body, family)
  if (options.strict) refuseUnknownMembers(dialect, body, call)
  const tool = readTool(path, dialect, call)
  const context = decodeContext(call.context)
  const named = readTraceId(dialect, call)
  if (named !== undefined) request.adoptTrace?.(named)
  return {
    dialect,
    schemaId,
    loneToken: context.loneToken,
    call: {
      tool,
      input: readInput(call),
      key: readCallKey(call, request.headers),
      traceId: named ?? request.traceId,
      protocol: 'otc',
      ...(request.traceparent === undefined ? undefined : { traceparent: request.traceparent }),
      userId: dialect === 'uts' ? readUtsUser(call, context.userId) : context.userId,
      ...(context.userInfo === undefined ? undefined : { userInfo: context.userInfo }),
      tokens: context.tokens,
      secrets: context.secrets,
      ...readCallPlace(request.headers),
    },
  }
}

/** `call_id` and `execution_id` are one id (C-04); the header is another name for it (rule 4). */
export function readCallKey(call: JsonObject, headers: HttpRequest['headers']): string | undefined {
  const inBody = oneOf(readString(call, 'call_id'), readString(call, 'execution_id'))
  const key = oneOf(inBody, readKeyHeader(headers))
  return key === undefined ? undefined : checkCallKey(key)
}

function oneOf(left: string | undefined, right: string | undefined): string | undefined {
  if (left !== undefined && right !== undefined && left !== right) {
    throw fault(
      'request_invalid',
      'The request names two different call ids; "call_id", "execution_id" and the Idempotency-Key header must be equal.',
    )
  }
  return left ?? right
}

function readTool(path: CallPath, dialect: Dialect, call: JsonObject): ToolRef {
  const allowLatest = isExecutePath(path)
  if (dialect !== 'proto') {
    const { tool_id: id } = call
    if (typeof id === 'string') return decodeToolRef(id, allowLatest)
    throw fault('request_invalid', '"tool_id" must be a string such as "Calculator.Add@1.0.0".')
  }
  const tool = isJsonObject(call.tool) ? withoutNulls(call.tool) : {}
  const { name, toolkit, version } = tool
  if (!isPlainName(name) || !isPlainName(toolkit)) {
    throw fault(
      'request_invalid',
      '"tool" must have a "name" and a "toolkit" of letters, digits and underscores.',
    )
  }
  if (version !== undefined && typeof version !== 'string') {
    throw fault('request_invalid', '"tool.version" must be a string such as "1.0.0".')
  }
  return decodeToolRef(
    version === undefined ? `${toolkit}.${name}` : `${toolkit}.${name}@${version}`,
    allowLatest,
  )
}

function isPlainName(text: JsonValue | undefined): text is string {
  return typeof text === 'string' && /^\w+$/.test(text)
}

/** Samples and schemas say `input`, field lists say `inputs` (C-05). Any JSON: core judges it (T-13). */
function readInput({ input, inputs }: JsonObject): JsonValue | undefined {
  if (input === undefined) return inputs
  if (inputs === undefined || canonicalJson(input) === canonicalJson(inputs)) return input
  throw fault('request_invalid', '"input" and "inputs" are the same member and differ; send "input" only.')
}

/** The March draft groups calls by `run_id`, which is what a trace does. */
function readTraceId(dialect: Dialect, call: JsonObject): string | undefined {
  const traceId = readString(call, 'trace_id') || undefined
  return traceId ?? (dialect === 'proto' ? readString(call, 'run_id') : undefined)
}

/** universal-tool-server puts `user_id` beside `tool_id` (C-26). */
function readUtsUser(call: JsonObject, inContext: string | undefined): string | undefined {
  const beside = readString(call, 'user_id')
  if (beside !== undefined && inContext !== undefined && beside !== inContext) {
    throw fault('request_invalid', '"user_id" and "context.user_id" differ; send one of them.')
  }
  return inContext ?? (beside === '' ? undefined : beside)
}

function readString(call: JsonObject, member: string): string | undefined {
  const text = call[member]
  if (text === undefined || typeof text === 'string') return text
  throw fault('request_invalid', `"${member}" must be a string; leave it out when there is none.`)
}
