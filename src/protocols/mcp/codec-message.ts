import type { ElicitationMode } from '#kernel/base/elicitation'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { MESSAGE_LEVELS, type MessageLevel } from '#kernel/tool/tool'
import { headerText } from '#protocols/call-wire'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import {
  APPS_EXTENSION,
  type ClientCapabilities,
  HEADERS,
  LEGACY_REVISIONS,
  MCP_CODES,
  META,
  type Message,
  NAMED_BY,
  NEW_REVISION,
  type Revision,
  TASKS_EXTENSION,
  TRAITS,
  type WireError,
} from './wire.ts'

/*
 * Reads and writes MCP messages: JSON-RPC envelopes, request metadata, capabilities and headers.
 * The server decodes requests and encodes answers with it; our MCP client uses the other direction.
 * Invariant: reading never throws; an invalid message becomes a `WireError`.
 */

export type RequestHeaders = Readonly<Record<string, string | undefined>>

const DATE = /^\d{4}-\d{2}-\d{2}$/
const SENTINEL = /^=\?base64\?(.*)\?=$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const PLAIN_HEADER = /^[\t\x20-\x7e]+$/
const SURROUNDING_SPACE = /^[ \t]|[ \t]$/
const SURROUNDING_SPACES = /^[ \t]+|[ \t]+$/g

/** The value of a header without surrounding spaces and tabs (MCP-35). */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const value = headers[name]
  return value === undefined || !SURROUNDING_SPACE.test(value)
    ? value
    : value.replaceAll(SURROUNDING_SPACES, '')
}

/** True for the newest revision and for any later date (MCP/T-9). */
export function isNewVersionHeader(version: string | undefined): boolean {
  return version === NEW_REVISION || (version !== undefined && DATE.test(version) && version > NEW_REVISION)
}

/** Decodes a header value; `undefined` if the encoded part is not base64 of UTF-8 (MCP §1.3). */
export function decodeHeaderValue(value: string): string | undefined {
  const encoded = SENTINEL.exec(value)?.[1]
  if (encoded === undefined) return headerText(value)
  if (!BASE64.test(encoded)) return undefined
  try {
    const bytes = Uint8Array.from(atob(encoded), (unit) => unit.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Encodes text that a header cannot carry, or that looks encoded already (MCP §1.3). */
export function encodeHeaderValue(text: string): string {
  if (PLAIN_HEADER.test(text) && !SURROUNDING_SPACE.test(text) && !SENTINEL.test(text)) return text
  const units = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte))
  return `=?base64?${btoa(units.join(''))}?=`
}

/** Checks the headers that repeat the body; returns the problem, or `undefined` (MCP row 12). */
export function checkStandardHeaders(
  headers: RequestHeaders,
  asked: { readonly method: string; readonly params: JsonValue | undefined },
): string | undefined {
  if (headerOf(headers, HEADERS.version) === undefined) return 'MCP-Protocol-Version is missing'
  const method = headerOf(headers, HEADERS.method)
  if (method === undefined) return 'Mcp-Method is missing'
  if (method !== asked.method) return 'Mcp-Method does not match method'
  const named = NAMED_BY.get(method)
  if (named === undefined) return undefined
  const name = headerOf(headers, HEADERS.name)
  if (name === undefined) return 'Mcp-Name is missing'
  const decoded = decodeHeaderValue(name)
  if (decoded === undefined) return 'Mcp-Name is not valid base64 of UTF-8'
  const value = isJsonObject(asked.params) ? asked.params[named] : undefined
  return decoded === value ? undefined : `Mcp-Name does not match params.${named}`
}

/** Version and capabilities that a request of the newest revision carries (MCP-32). */
export interface RequestMeta {
  readonly version: string
  readonly capabilities: ClientCapabilities
  /** Minimum level of the log messages that the client wants for this request (MCP-87). */
  readonly logLevel: MessageLevel | undefined
}

type ReadMeta =
  | { readonly kind: 'none' }
  | { readonly kind: 'meta'; readonly meta: RequestMeta }
  | { readonly kind: 'bad'; readonly error: WireError }

export function isMessageLevel(value: JsonValue | undefined): value is MessageLevel {
  return MESSAGE_LEVELS.some((level) => level === value)
}

/** Reads `params._meta`. `none` only if the version is absent; a version of the wrong type is `bad` (MCP §1.1, row 9). */
export function readMeta(params: JsonValue | undefined): ReadMeta {
  const meta = metaOf(params)
  if (!Object.hasOwn(meta, META.protocolVersion)) return { kind: 'none' }
  const problem = findMetaProblem(meta)
  if (problem !== undefined) {
    const message = `Bad params._meta: ${problem}`
    return { kind: 'bad', error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const capabilities = readCapabilities(meta[META.clientCapabilities], NEW_REVISION)
  const level = meta[META.logLevel]
  const logLevel = isMessageLevel(level) ? level : undefined
  return { kind: 'meta', meta: { version: String(meta[META.protocolVersion]), capabilities, logLevel } }
}

function findMetaProblem(meta: JsonObject): string | undefined {
  if (typeof meta[META.protocolVersion] !== 'string') return `${META.protocolVersion} must be a string.`
  if (!isJsonObject(meta[META.clientCapabilities])) return `${META.clientCapabilities} must be an object.`
  const info = meta[META.clientInfo]
  if (info !== undefined && !isClientInfo(info)) return `${META.clientInfo} needs a name and a version.`
  const level = meta[META.logLevel]
  if (level !== undefined && !isMessageLevel(level)) return `${META.logLevel} is not a level.`
  return undefined
}

function isClientInfo(info: JsonValue): boolean {
  return isJsonObject(info) && typeof info.name === 'string' && typeof info.version === 'string'
}

/** Error for a request whose header names the newest revision and whose body has no metadata (MCP row 8). */
export const META_MISSING: WireError = {
  code: JSON_RPC_CODES.badParams,
  message: `params._meta must have ${META.protocolVersion} and ${META.clientCapabilities}. Served this way: ${NEW_REVISION}; with initialize: ${LEGACY_REVISIONS.join(', ')}.`,
}

/** `supported` lists only the revision without sessions; the text names the others (MCP/T-8, MCP-34). */
export function unsupportedVersion(requested: string): WireError {
  return {
    code: MCP_CODES.unsupportedVersion,
    message: `Unsupported protocol version. ${LEGACY_REVISIONS.join(' and ')} are served after initialize.`,
    data: { supported: [NEW_REVISION], requested },
  }
}

const NO_CAPABILITIES: ClientCapabilities = {
  form: false,
  url: false,
  sampling: false,
  roots: false,
  apps: false,
}

/** `elicitation: {}` means forms only, `{ url: {} }` pages only (MCP/T-19); 2025-06-18 has forms only (MCP-71). */
export function readCapabilities(declared: JsonValue | undefined, revision: Revision): ClientCapabilities {
  if (!isJsonObject(declared)) return NO_CAPABILITIES
  const { elicitation, sampling, roots, extensions } = declared
  const modes = isJsonObject(elicitation) ? elicitation : undefined
  const namesUrl = TRAITS[revision].hasUrlMode && isJsonObject(modes?.url)
  return {
    form: modes !== undefined && (isJsonObject(modes.form) || !namesUrl),
    url: namesUrl,
    sampling: isJsonObject(sampling),
    roots: isJsonObject(roots),
    apps: isJsonObject(extensions) && isJsonObject(extensions[APPS_EXTENSION]),
    ...(TRAITS[revision].tasks === 'extension' &&
    isJsonObject(extensions) &&
    isJsonObject(extensions[TASKS_EXTENSION])
      ? { tasks: true }
      : {}),
  }
}

/** The capability that a question of each mode needs, as SDKs declare it (MCP §1.5). */
export const REQUIRED_CAPABILITIES = {
  form: { elicitation: { form: {} } },
  url: { elicitation: { url: {} } },
  sampling: { sampling: {} },
  roots: { roots: {} },
} satisfies Record<ElicitationMode, JsonObject>

export function capabilitiesToJson(capabilities: ClientCapabilities): JsonObject {
  return { ...capabilities }
}

export function capabilitiesFromJson(kept: JsonValue | undefined): ClientCapabilities {
  const flags = isJsonObject(kept) ? kept : {}
  return {
    form: flags.form === true,
    url: flags.url === true,
    sampling: flags.sampling === true,
    roots: flags.roots === true,
    apps: flags.apps === true,
  }
}

/** The answer of a method, before a transport sends it. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Absent for a cancelled request, which gets no answer (MCP-85). */
  readonly json: string | undefined
  /** `error.type` for telemetry: the code of a JSON-RPC error, or `tool_error`. */
  readonly errorType?: string
}

/** `errorType` of a result that says the tool failed. */
export const TOOL_ERROR_TYPE = 'tool_error'

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({})

export function resultAnswer(id: JsonRpcId, resultJson: string, headers = NO_HEADERS): Answer {
  return { status: 200, headers, json: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${resultJson}}` }
}

export function errorAnswer(
  id: JsonRpcId | undefined,
  error: WireError,
  {
    status = 200,
    headers = NO_HEADERS,
  }: { readonly status?: number; readonly headers?: Answer['headers'] } = {},
): Answer {
  return { status, headers, json: encodeError(id, error), errorType: String(error.code) }
}

export const NO_ANSWER: Answer = { status: 200, headers: NO_HEADERS, json: undefined }

/** The error for a request without a valid id has no `id`; it is not null (MCP-04, MCP/T-7). */
function encodeError(id: JsonRpcId | undefined, error: WireError): string {
  const shown = id === undefined ? '' : `"id":${JSON.stringify(id)},`
  return `{"jsonrpc":"2.0",${shown}"error":${JSON.stringify(error)}}`
}

export function encodeNotification(method: string, params?: JsonObject): string {
  return JSON.stringify({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })
}

export function encodeRequest(id: JsonRpcId, method: string, params: JsonObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params })
}

/** One message per event; JSON contains no line breaks (MCP-16). */
export function encodeEvent(json: string): string {
  return `event: message\ndata: ${json}\n\n`
}

type DecodedMessage =
  | { readonly ok: true; readonly message: Message }
  /** The id of the request, if it is valid. */
  | { readonly ok: false; readonly id: JsonRpcId | undefined; readonly error: WireError }

/** Reads one JSON-RPC 2.0 message; batches are refused (MCP row 7, MCP-01, MCP-02, MCP/T-6). */
export function decodeMessage(body: JsonValue | undefined): DecodedMessage {
  if (!isJsonObject(body)) {
    const came = Array.isArray(body) ? 'Batches are not accepted; send one message.' : 'Send one object.'
    return bad(undefined, `The body must be one JSON-RPC message. ${came}`)
  }
  const id = isValidId(body.id) ? body.id : undefined
  if (body.jsonrpc !== '2.0') return bad(id, '"jsonrpc" must be "2.0".')
  if ('id' in body && id === undefined) return bad(undefined, '"id" must be a string or a whole number.')
  const { method, params } = body
  if (typeof method === 'string') {
    if (id === undefined) return { ok: true, message: { kind: 'notification', method, params } }
    return { ok: true, message: { kind: 'request', id, method, params } }
  }
  if (method !== undefined) return bad(id, '"method" must be a string.')
  if (id !== undefined && ('result' in body || 'error' in body))
    return { ok: true, message: { kind: 'response', id, result: body.result } }
  return bad(id, 'A message needs "method", or "id" with "result" or "error".')
}

function isValidId(value: JsonValue | undefined): value is JsonRpcId {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

function bad(id: JsonRpcId | undefined, message: string): DecodedMessage {
  return { ok: false, id, error: { code: JSON_RPC_CODES.badRequest, message } }
}

export function metaOf(params: JsonValue | undefined): JsonObject {
  const meta = isJsonObject(params) ? params._meta : undefined
  return isJsonObject(meta) ? meta : {}
}
