import { LATEST, parseToolId, parseToolName } from '#kernel/base/ids'
import { defined, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { readFacts, readNeeds } from '#kernel/tool/facts'
import {
  callException,
  type ReadAnswer,
  readAnswer,
  readEnvelope,
  responseNull,
} from '#protocols/opentool/codec-client-answer'
import {
  FACTS_EXTENSION,
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
} from '#protocols/opentool/codec-document'
import { load } from '#protocols/opentool/codec-document-read'
import { dereference } from '#protocols/opentool/codec-document-references'
import { type FunctionCall, toJsonSchema } from '#protocols/opentool/codec-to-json-schema'
import { DEFAULT_PORT } from '#protocols/opentool/wire'
import type { RemoteTool, WireContext } from '#protocols/otc/codec-client'
import { propertiesOf } from '#schema/keywords'
import { type CallOptions, type CallResult, checkCallId, copyJson } from './call.ts'
import { EVENT_STREAM, IdleTimeout, readEvents } from './event-stream.ts'
import { CallFailure, configFailure } from './failure.ts'
import { awaitShared, readText } from './http.ts'
import {
  bodyOf,
  callRequest,
  factsOf,
  failureOf,
  getEndpoint,
  noAnswer,
  type OpenToolCallOptions,
  postCall,
} from './opentool-exchange.ts'
import { type ClientOptions, type ClientSettings, readOptions, readTimeoutMs } from './options.ts'
import { resolveContext } from './requirements.ts'

/**
 * OpenTool servers for the client: `OpenToolSession` behind `ColletClient`, and `OpenToolClient` with the protocol's own methods
 * and streaming. `opentool-exchange.ts` sends the requests. Invariant: a call is never sent twice, because
 * an OpenTool server cannot deduplicate it (OTS-62).
 */

export type {
  OpenToolDocument,
  OpenToolFunction,
  OpenToolParameter,
  OpenToolReturn,
  OpenToolSchema,
} from '#protocols/opentool/codec-document'
export {
  type FunctionCall,
  fromOpenAiToolCall,
  type OpenAiTool,
  type OpenAiToolCall,
  toOpenAiTool,
} from '#protocols/opentool/codec-to-json-schema'
export type { OpenToolCallOptions } from './opentool-exchange.ts'
export { exceptionOf, OpenToolException } from './opentool-exchange.ts'

/** Functions by name, in the order of the document, which may contain 100 000 functions. */
type Functions = ReadonlyMap<string, OpenToolFunction>

export class OpenToolSession {
  readonly #settings: ClientSettings
  readonly #client: OpenToolClient
  #functions: Promise<Functions> | undefined

  constructor(settings: ClientSettings) {
    this.#settings = settings
    this.#client = new OpenToolClient(settings)
  }

  /** Functions as tools; none if the server does not describe itself. */
  async list(signal?: AbortSignal): Promise<readonly RemoteTool[]> {
    this.#functions = undefined
    const functions = await this.#load(signal)
    return [...functions.values()].map(toRemoteTool)
  }

  async get(name: string, signal?: AbortSignal): Promise<RemoteTool | undefined> {
    const functions = await this.#load(signal)
    const named = findNamed(functions, name)
    return named === undefined || named.isOther ? undefined : toRemoteTool(named.described)
  }

  /** `callId` is sent as the idempotency key; the call itself is sent once. */
  async call(called: string | RemoteTool, input: JsonObject, options: CallOptions): Promise<CallResult> {
    const requested = typeof called === 'string' ? called : called.id
    if (typeof requested !== 'string' || requested === '') throw configFailure('Name the function to call.')
    const callId = checkCallId(options.callId ?? this.#settings.randomId())
    if (options.timeoutMs !== undefined) readTimeoutMs(options.timeoutMs)
    const params = copyJson(input)
    if (!isJsonObject(params)) throw configFailure('The arguments of a function must be an object.')
    const functions = await this.#load(options.signal)
    // Only the newest version is described, so the requirements of another version are unknown.
    const { described } = findNamed(functions, requested) ?? {}
    const name = methodFor(requested, described?.name ?? requested)
    const { userId, signal } = options
    const tool = described && toRemoteTool(described)
    const context = await resolveContext({ tool, toolId: name, userId, signal }, this.#settings)
    const { result, runId, replayed, ...answer } = await postCall(
      this.#settings,
      { id: callId, name, arguments: params },
      { ...options, ...headersOf(context), idempotencyKey: callId },
    )
    return {
      value: valueIn(result, described),
      callId: answer.callId ?? callId,
      ...defined({ runId }),
      toolId: name,
      retries: 0,
      replayed,
    }
  }

  /** True if an OpenTool server answers at this address. The request is sent only once. */
  async answers(signal: AbortSignal | undefined): Promise<boolean> {
    const { status, body } = await getEndpoint({ ...this.#settings, maxRetries: 0 }, '/version', signal)
    return status === 200 && isJsonObject(body) && typeof body.version === 'string'
  }

  /** Loads the functions once for all callers. One caller's abort does not affect the others. */
  async #load(signal: AbortSignal | undefined): Promise<Functions> {
    const loading = this.#functions ?? this.#read()
    this.#functions = loading
    loading.catch(() => {
      if (this.#functions === loading) this.#functions = undefined
    })
    return await awaitShared(loading, signal, 'Reading the functions')
  }

  async #read(): Promise<Functions> {
    const document = await this.#client.load()
    return new Map((document?.functions ?? []).map((described) => [described.name, described]))
  }
}

/**
 * Finds a function by its name, or by another name that a Collet server lists for it. `isOther` is true if a version
 * other than the newest was requested, because only the newest is described.
 */
function findNamed(
  functions: Functions,
  requested: string,
): { readonly described: OpenToolFunction; readonly isOther: boolean } | undefined {
  const exact = functions.get(requested)
  if (exact !== undefined) return { described: exact, isOther: false }
  const ref = parseToolName(requested)
  if (ref === undefined) return undefined
  for (const described of functions.values()) {
    const { name, [FACTS_EXTENSION]: extension } = described
    if (!isJsonObject(extension) || typeof extension.id !== 'string') continue
    const id = parseToolId(extension.id)
    if (ref.base !== id?.base && ref.base !== name && ref.base !== extension.catalogId) continue
    return { described, isOther: ref.version !== LATEST && ref.version !== id?.version }
  }
  return undefined
}

/** Keeps a version in the name: without it, the server would use the newest, which may have changed since the call was recorded. */
function methodFor(requested: string, name: string): string {
  return (parseToolName(requested)?.version ?? LATEST) === LATEST ? name : requested
}

function headersOf(
  context: WireContext | undefined,
): Pick<OpenToolCallOptions, 'userId' | 'tokens' | 'secrets'> {
  if (context === undefined) return {}
  const { authorization = [], secrets = [], userId } = context
  return {
    userId,
    tokens: Object.fromEntries(authorization.map(({ id, token }) => [id, token])),
    secrets: Object.fromEntries(secrets.map(({ id, value }) => [id, value])),
  }
}

/** The value is a member of the result, and only the description states its name (OTS-38). */
function valueIn(result: JsonObject, described: OpenToolFunction | undefined): JsonValue {
  if (described === undefined) return result
  const { return: returned } = described
  if (returned !== undefined && Object.hasOwn(result, returned.name)) return result[returned.name] ?? null
  return Object.keys(result).length === 0 ? null : result
}

/** Uses the function's name as the id, because functions have no version. */
function toRemoteTool(described: OpenToolFunction): RemoteTool {
  const { name, description, return: returned, [FACTS_EXTENSION]: extension } = described
  const { input, output } = toJsonSchema(described)
  const value = returned && output ? propertiesOf(output)[returned.name] : undefined
  const members = isJsonObject(extension) ? extension : undefined
  const { authorization, secrets, userId } = readNeeds(members?.requirements)
  return {
    id: name,
    name,
    description,
    input,
    output: isJsonObject(value) ? value : 'none',
    requirements: {
      authorization: authorization.map(({ id, scopes }) => ({
        id,
        scopes,
        definition: { id, oauth2: { scopes } },
      })),
      secrets: secrets.map((id) => ({ id })),
      userId: userId !== false,
    },
    ...defined({ facts: members && readFacts(members) }),
  }
}

/** Host, port and TLS, as OpenTool's own clients take them. */
export interface OpenToolAddress {
  /** A name or an address; a whole base URL is accepted too. */
  readonly host?: string
  /** Default 9627. */
  readonly port?: number
  readonly ssl?: boolean
}

type RequestOptions = { readonly signal?: AbortSignal }

/**
 * One OpenTool server, with the methods and names of its protocol. Failures are `CallFailure`s; `exceptionOf` returns the
 * OpenTool exception.
 */
export class OpenToolClient {
  readonly #settings: ClientSettings

  constructor(settings: ClientSettings) {
    this.#settings = settings
  }

  async version({ signal }: RequestOptions = {}): Promise<{ readonly version: string }> {
    const answer = await getEndpoint(this.#settings, '/version', signal)
    const body = bodyOf(answer)
    // One SDK's server names the member `versionNumber` (OTS-32).
    const version = isJsonObject(body) ? (body.version ?? body.versionNumber) : undefined
    if (typeof version === 'string') return { version }
    throw failureOf(responseNull(answer.status), { status: answer.status })
  }

  /** The server's document, references resolved; `null` if it has none. */
  async load({ signal }: RequestOptions = {}): Promise<OpenToolDocument | null> {
    const answer = await getEndpoint(this.#settings, '/load', signal)
    if (answer.status === 404) return null
    const body = bodyOf(answer)
    if (!isJsonObject(body) || body.opentool === undefined) return null
    try {
      return dereference(load(body, { mode: 'lenient' }))
    } catch (cause) {
      if (!(cause instanceof OpenToolDocumentError)) throw cause
      throw new CallFailure('server', `The server's document cannot be used. ${cause.message}`, {
        status: answer.status,
        cause,
      })
    }
  }

  /** Calls a function; never sends the call twice. */
  async call(call: FunctionCall, options: OpenToolCallOptions = {}): Promise<ToolReturn> {
    const { result } = await postCall(this.#settings, call, options)
    return { id: call.id, result }
  }

  /** Calls a function on a server that streams; yields each result. */
  stream(call: FunctionCall, options: OpenToolCallOptions = {}): AsyncGenerator<StreamedResult> {
    return streamCall(this.#settings, call, options)
  }
}

/**
 * Creates a client of one OpenTool server. Sends nothing yet; throws `CallFailure` of class `config` on bad options.
 */
export function connectOpenTool(
  address: string | URL | OpenToolAddress,
  options: Omit<ClientOptions, 'dialect' | 'protocol'> = {},
): OpenToolClient {
  return new OpenToolClient(readOptions(addressUrl(address), options))
}

function addressUrl(address: string | URL | OpenToolAddress): string | URL {
  if (typeof address === 'string' || address instanceof URL) return address
  const { host = '127.0.0.1', port, ssl = false } = address
  if (host.includes('://')) return host
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536)) {
    throw configFailure('port must be a whole number from 1 to 65535.')
  }
  const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  return `${ssl ? 'https' : 'http'}://${name}:${port ?? DEFAULT_PORT}`
}

/** The result of a function, with the id of its call. */
export interface ToolReturn {
  readonly id: string
  readonly result: JsonObject
}

/** Parses a call as models and agents pass it on: `{ id, name, arguments }`. */
export function functionCallFromJson(json: unknown): FunctionCall {
  const { id, name, arguments: params } = membersOf(json)
  if (typeof id === 'string' && typeof name === 'string' && isJsonObject(params ?? {})) {
    return { id, name, arguments: isJsonObject(params) ? params : {} }
  }
  throw configFailure('A function call needs the strings "id" and "name" and the object "arguments".')
}

export function functionCallToJson({ id, name, arguments: params }: FunctionCall): JsonObject {
  return { id, name, arguments: params }
}

export function toolReturnFromJson(json: unknown): ToolReturn {
  const { id, result } = membersOf(json)
  if (typeof id === 'string' && isJsonObject(result)) return { id, result }
  throw configFailure('A tool return needs the string "id" and the object "result".')
}

export function toolReturnToJson({ id, result }: ToolReturn): JsonObject {
  return { id, result }
}

/**
 * The error in a result that has only `code` and `message`, as samples of two SDKs return a tool's exception. It is not treated as
 * an error automatically, because it may be the function's proper result.
 */
export function errorInResult(
  result: JsonObject,
): { readonly code: number; readonly message: string } | undefined {
  const { code, message, ...others } = result
  const isError = typeof code === 'number' && typeof message === 'string' && Object.keys(others).length === 0
  return isError ? { code, message } : undefined
}

function membersOf(json: unknown): JsonObject {
  try {
    const copy: JsonValue = JSON.parse(typeof json === 'string' ? json : (JSON.stringify(json) ?? 'null'))
    return isJsonObject(copy) ? copy : {}
  } catch {
    return {}
  }
}

export { connectOpenTool as connect }

/** One event of a streamed call: `data`, or another event from the server. */
export interface StreamedResult {
  readonly event: string
  readonly id: string
  readonly result: JsonObject
}

/**
 * `POST /streamCall`: yields results as they arrive; throws on an `error` event (OTS-50 to OTS-52). `timeoutMs`
 * bounds each wait. Leaving the loop closes the connection.
 */
export async function* streamCall(
  settings: ClientSettings,
  call: FunctionCall,
  options: OpenToolCallOptions,
): AsyncGenerator<StreamedResult> {
  const request = callRequest(settings, '/streamCall', call, options)
  const facts = factsOf(call, options.idempotencyKey)
  const wait = new IdleTimeout(options.timeoutMs ?? settings.timeoutMs, [settings.signal, options.signal])
  try {
    const response = await settings.fetch(request.url, {
      method: 'POST',
      headers: {
        ...(await request.headers()),
        Accept: 'text/event-stream',
        'Content-Type': 'application/json',
      },
      body: request.body,
      redirect: 'manual',
      signal: wait.signal,
    })
    const { status } = response
    const accept = (read: ReadAnswer, event: string): StreamedResult => {
      if (!read.ok) throw failureOf(read.exception, { ...facts, status })
      return { event, id: call.id, result: read.result }
    }
    if (status !== 200 || !EVENT_STREAM.test(response.headers.get('content-type') ?? '')) {
      const text = await readText(response, settings.maxResponseBytes, wait.signal)
      yield accept(readAnswer(status, parseJson(text ?? ''), call.id), 'data')
      return
    }
    for await (const { event, data } of readEvents(response, settings.maxResponseBytes, wait)) {
      // The end of the stream also ends the call (OTS-52).
      if (event === 'done') return
      if (event !== 'start') yield accept(readEvent(event, data, call.id), event)
    }
  } catch (error) {
    const failure = wait.reasonFor(error)
    if (failure === undefined) throw error
    throw noAnswer(failure, `The call to ${request.url}`, { ...facts, isCall: true })
  } finally {
    wait.end()
  }
}

/** An `error` event is an envelope, or a bare `{code, message, id}`. */
function readEvent(event: string, data: string, id: string): ReadAnswer {
  const body = parseJson(data)
  if (!isJsonObject(body)) return { ok: false, exception: responseNull(200) }
  if (event === 'error' && !isJsonObject(body.error))
    return { ok: false, exception: callException(body, 500) }
  return readEnvelope(body, id, 200)
}
