import { isToolError } from '#kernel/base/errors'
import { checkCallKey } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { readKeyHeader } from '#protocols/call-wire'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import type { CallNoun } from './codec-entry.ts'
import { metaOf, type RequestHeaders } from './codec-message.ts'
import type { ServedTool } from './tool-tables.ts'
import { META, type WireError } from './wire.ts'

/*
 * Reads the params of the methods whose requests are durable calls: the tool or entry, its input, the idempotency key, and the
 * answers to questions. `tool-calls.ts` runs these calls.
 * Invariant: `_meta` is never input (MCP-06), and a JSON-RPC id is never a key (rule 4).
 */

export interface ToolCallRequest extends ResolvedCall {
  readonly key: string | undefined
  readonly progressToken: string | number | undefined
  /** Answers by the key of their question. */
  readonly inputResponses: ReadonlyMap<string, JsonObject> | undefined
  readonly requestState: string | undefined
  /** The client asks for a task (MCP-125). */
  readonly asksTask: boolean
  /** How many bytes of the result the caller wants at once; 0 = all (MCP-181). */
  readonly modelBytes: number | undefined
}

type ReadCall =
  | { readonly ok: true; readonly call: ToolCallRequest }
  /** The idempotency key of the request, if it is valid. */
  | { readonly ok: false; readonly error: WireError; readonly key: string | undefined }

/** A method whose requests are durable calls. It finds the tool or entry that the params name. */
export interface CallMethod {
  readonly noun: CallNoun
  /** Returns an error text if the params are invalid. */
  resolve(params: JsonObject, catalog: Catalog, showsApps: boolean): ResolvedCall | string
}

interface ResolvedCall {
  /** As the client wrote it. */
  readonly name: string
  readonly input: JsonObject
  /** `undefined` if the principal can see nothing of this name. */
  readonly served: ServedTool | undefined
}

/** Reads the name and arguments of a tool call (MCP-60). */
export function resolveToolCall(
  { name, arguments: input = {} }: JsonObject,
  find: (name: string) => ServedTool | undefined,
): ResolvedCall | string {
  if (typeof name !== 'string') return 'params.name must be the name of a tool.'
  return isJsonObject(input) ? { name, input, served: find(name) } : 'params.arguments must be an object.'
}

/** MCP-68, MCP-74. `_meta` is never input (MCP-06); members of other revisions are ignored. */
export function readCall(
  method: CallMethod,
  params: JsonValue | undefined,
  {
    catalog,
    showsApps,
    headers,
    mayContinue,
    mayAskTask,
  }: {
    readonly catalog: Catalog
    readonly showsApps: boolean
    readonly headers: RequestHeaders | undefined
    readonly mayContinue: boolean
    readonly mayAskTask: boolean
  },
): ReadCall {
  const meta = metaOf(params)
  const key = readKey(meta[META.idempotencyKey], headers)
  const bad = (message: string): ReadCall => ({ ...refuse(message), key: key.ok ? key.key : undefined })
  if (!isJsonObject(params)) return bad(`params must be an object that names a ${method.noun}.`)
  const named = method.resolve(params, catalog, showsApps)
  if (typeof named === 'string') return bad(named)
  if (!key.ok) return { ...key, key: undefined }
  const progressToken = readProgressToken(meta.progressToken)
  const asksTask = mayAskTask && params.task !== undefined
  if (asksTask && !isJsonObject(params.task)) return bad('params.task must be an object, for example {}.')
  const modelBytes = readModelBytes(meta[META.modelBytes])
  const call = { ...named, key: key.key, progressToken, asksTask, modelBytes }
  if (!mayContinue) return { ok: true, call: { ...call, inputResponses: undefined, requestState: undefined } }
  const { requestState } = params
  if (requestState !== undefined && typeof requestState !== 'string')
    return bad('params.requestState must be the string that was sent.')
  const responses = readResponses(params.inputResponses)
  if (responses === 'bad') return bad('params.inputResponses must be an object of objects by key.')
  return { ok: true, call: { ...call, inputResponses: responses, requestState } }
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

/** The key is in `_meta`, in the header, or equal in both; it is never the JSON-RPC id (rule 4). */
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

function readModelBytes(sent: JsonValue | undefined): number | undefined {
  return typeof sent === 'number' && Number.isSafeInteger(sent) && sent >= 0 ? sent : undefined
}

/** A string or an integer; any other token requests no progress. */
function readProgressToken(token: JsonValue | undefined): string | number | undefined {
  return typeof token === 'string' || (typeof token === 'number' && Number.isSafeInteger(token))
    ? token
    : undefined
}
