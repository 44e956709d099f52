import { isToolError } from '#core/errors'
import { checkCallKey } from '#core/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { readKeyHeader } from '#protocols/call-headers'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { metaOf } from './codec-envelope.ts'
import type { RequestHeaders } from './codec-headers.ts'
import { readProgressToken } from './progress-gate.ts'
import { META, type WireError } from './wire.ts'

/** The params of `tools/call`, read. */
export interface ToolCallRequest {
  readonly name: string
  readonly input: JsonObject
  readonly key: string | undefined
  readonly progressToken: string | number | undefined
  /** W3C trace context, where the transport carries none. */
  readonly traceparent: string | undefined
  /** By the key of the question they answer. */
  readonly inputResponses: ReadonlyMap<string, JsonObject> | undefined
  readonly requestState: string | undefined
}

export type ReadCall =
  | { readonly ok: true; readonly call: ToolCallRequest }
  /** `key` is the request's own, if it is a usable one. */
  | { readonly ok: false; readonly error: WireError; readonly key: string | undefined }

/** MCP-60, MCP-68, MCP-74. `_meta` is never tool input (MCP-06); members of other revisions are unknown, so ignored. */
export function readToolCall(
  params: JsonValue | undefined,
  { headers, mayContinue }: { readonly headers: RequestHeaders | undefined; readonly mayContinue: boolean },
): ReadCall {
  const meta = metaOf(params)
  const key = readKey(meta[META.idempotencyKey], headers)
  const bad = (message: string): ReadCall => ({ ...refuse(message), key: key.ok ? key.key : undefined })
  if (!isJsonObject(params)) return bad('params must be an object with the name of a tool.')
  const { name, arguments: input = {} } = params
  if (typeof name !== 'string') return bad('params.name must be the name of a tool.')
  if (!isJsonObject(input)) return bad('params.arguments must be an object.')
  if (!key.ok) return { ...key, key: undefined }
  const progressToken = readProgressToken(meta.progressToken)
  const call = { name, input, key: key.key, progressToken, traceparent: readTraceparent(meta.traceparent) }
  if (!mayContinue) return { ok: true, call: { ...call, inputResponses: undefined, requestState: undefined } }
  const { requestState } = params
  if (requestState !== undefined && typeof requestState !== 'string')
    return bad('params.requestState must be the string that was sent.')
  const responses = readResponses(params.inputResponses)
  if (responses === 'bad') return bad('params.inputResponses must be an object of objects by key.')
  return { ok: true, call: { ...call, inputResponses: responses, requestState } }
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

function readTraceparent(sent: JsonValue | undefined): string | undefined {
  return typeof sent === 'string' && TRACEPARENT.test(sent) ? sent : undefined
}

function readResponses(given: JsonValue | undefined): ReadonlyMap<string, JsonObject> | undefined | 'bad' {
  if (given === undefined) return undefined
  if (!isJsonObject(given)) return 'bad'
  const found = new Map<string, JsonObject>()
  for (const [key, answer] of Object.entries(given)) {
    if (!isJsonObject(answer)) return 'bad'
    found.set(key, answer)
  }
  return found
}

type ReadKey =
  | { readonly ok: true; readonly key: string | undefined }
  | { readonly ok: false; readonly error: WireError }

/** Rule 4: in `_meta` or in the header, the same in both; never the JSON-RPC id. */
function readKey(inMeta: JsonValue | undefined, headers: RequestHeaders | undefined): ReadKey {
  const inHeader = headers === undefined ? undefined : readKeyHeader(headers)
  if (inMeta !== undefined && typeof inMeta !== 'string')
    return refuse(`${META.idempotencyKey} must be a string.`)
  if (inMeta !== undefined && inHeader !== undefined && inMeta !== inHeader)
    return refuse(`${META.idempotencyKey} and Idempotency-Key differ; send one of them.`)
  const key = inMeta ?? inHeader
  try {
    return { ok: true, key: key === undefined ? undefined : checkCallKey(key) }
  } catch (error) {
    if (isToolError(error)) return refuse(error.message)
    throw error
  }
}

function refuse(message: string): { readonly ok: false; readonly error: WireError } {
  return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
}
