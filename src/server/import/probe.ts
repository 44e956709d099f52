import { Worker } from 'node:worker_threads'
import { OpenToolClient } from '#client/opentool'
import { readOptions } from '#client/options'
import { ToolDirectory } from '#client/tool-directory'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import { readStart } from '#kernel/base/bytes'
import { isToolError } from '#kernel/base/errors'
import { EventParser } from '#kernel/base/event-stream'
import { cleanText, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { type Logger, SILENT_LOGGER } from '#kernel/base/logger'
import { serverBaseUrl } from '#protocols/opentool/codec-document'
import { VERSION } from '#server/version'
import { readList } from '#sources/common/answered-json'
import { type Discovery, type SourceServices, type UpstreamLack, UpstreamLacks } from '#sources/kit/source'
import { shownAddress } from '#sources/kit/source-facts'
import { openSource, SOURCE_OPTIONS } from '#sources/source-types'

/** An OTC server has `GET /tools`. */
export async function probeOtc(url: string, probe: Probe): Promise<Look> {
  const base = withoutEnd(url, '/tools')
  const listing = await new ToolDirectory(clientSettings(base, 'otc', probe)).refresh(probe.signal)
  // Any list of anything is one to a liberal reader.
  if (listing.tools.length === 0 && listing.wire.dialect === 'uts') return OTHER
  return {
    kind: 'found',
    source: {
      type: 'otc',
      options: { type: 'otc', url: base, ...keyOption(probe) },
      what: `an OTC server (${listing.wire.dialect})`,
      notes: [],
    },
  }
}

/** An OpenTool server tells its version, and mostly its functions. */
export async function probeOpenTool(url: string, probe: Probe): Promise<Look> {
  const base = withoutEnd(withoutEnd(url, '/load'), '/version')
  const client = new OpenToolClient(clientSettings(base, 'opentool', probe))
  const { version } = await client.version({ signal: probe.signal })
  const document = await client.load({ signal: probe.signal })
  if (document === null) {
    return {
      kind: 'unusable',
      why: `${shownAddress(base)} is an OpenTool server that does not describe its functions.`,
    }
  }
  return {
    kind: 'found',
    source: {
      type: 'opentool',
      options: { type: 'opentool', url: base, ...keyOption(probe) },
      what: `an OpenTool server (version ${version})`,
      name: document.info.title,
      notes: [],
    },
  }
}

/** openwop lists tools and tells of runs, but has no operation by which others call a tool. */
export async function probeOpenwop(url: string, probe: Probe): Promise<Look> {
  const document = await getDocument(new URL('/.well-known/openwop', url).href, probe)
  if (document === undefined || !Array.isArray(document.supportedEnvelopes)) return OTHER
  const { implementation } = document
  const name = isJsonObject(implementation) ? implementation.name : undefined
  const who = typeof name === 'string' ? `an openwop host (${name})` : 'an openwop host'
  return {
    kind: 'unusable',
    why: `${shownAddress(url)} is ${who}. openwop lists tools but has no operation to call them from outside: import its MCP, OTC, OpenTool or OpenAPI address.`,
  }
}

/** The document at an address, read as what it says it is. */
export async function probeDocument(url: string, probe: Probe): Promise<Look> {
  const document = await getDocument(url, probe)
  if (document === undefined) return OTHER
  const headers = probe.apiKey === undefined ? {} : { Authorization: `Bearer ${probe.apiKey}` }
  return lookAtDocument(document, { url }, headers)
}

const USUAL_PLACES = ['/openapi.json', '/openapi.yaml', '/swagger.json', '/v3/api-docs', '/api-docs']

/** Services put their description into one of a few places. */
export async function probeUsualPlaces(url: string, probe: Probe): Promise<Look> {
  for (const where of USUAL_PLACES) {
    const look = await probeDocument(addressBelow(url, where), probe).catch(() => OTHER)
    if (look.kind !== 'other') return look
  }
  return OTHER
}

/** The address of something below a path; the query of the path is kept, because keys are written into it. */
export function addressBelow(url: string, path: string): string {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/+$/, '')}${path}`
  return address.href
}

async function getDocument(url: string, { send, signal, apiKey }: Probe): Promise<JsonObject | undefined> {
  const response = await send(url, {
    headers: {
      accept: 'application/json, application/yaml;q=0.9, */*;q=0.1',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    signal,
  })
  const type = response.headers.get('content-type') ?? ''
  // A stream has no end to wait for.
  if (!response.ok || type.startsWith('text/event-stream')) {
    await response.body?.cancel()
    return undefined
  }
  return await readHead(await response.text(), signal)
}

function clientSettings(url: string, protocol: 'otc' | 'opentool', { send, apiKey }: Probe) {
  const options = { apiKey, protocol, maxRetries: 0 }
  // In pieces and within bounds, because a look parses the answer on the serving thread.
  return {
    ...readOptions(url, { ...options, fetch: (address, init) => send(address, init) }),
    readJson: readList,
  }
}

function keyOption({ apiKey }: Probe): JsonObject {
  return apiKey === undefined ? {} : { apiKey }
}

function withoutEnd(url: string, end: string): string {
  const bare = url.replace(/\/+$/, '')
  return bare.endsWith(end) ? bare.slice(0, -end.length) : bare
}

const IS_SOURCE = import.meta.url.endsWith('.ts')
const HEAD_WORKER = IS_SOURCE ? './head-worker.ts' : './head-worker.js'
const MAX_HEAD_MS = 20_000
const MAX_HEAD_MEGABYTES = 512
/** Longer JSON, and YAML of any length, may take too long for the serving thread. */
const MAX_JSON_HERE = 100_000

/**
 * What a document of JSON or YAML says of itself; `undefined` for any other text, and for one that takes too long or too
 * much memory to parse. Parsed in a thread of its own, because whoever serves the document decides how hard that is.
 */
export async function readHead(text: string, signal?: AbortSignal): Promise<JsonObject | undefined> {
  // A page of HTML is YAML too, as one long text.
  if (/^\s*</.test(text)) return undefined
  if (text.length <= MAX_JSON_HERE) {
    const value = parseJson(text.startsWith('\uFEFF') ? text.slice(1) : text)
    if (value !== undefined) return isJsonObject(value) ? value : undefined
  }
  signal?.throwIfAborted()
  const worker = new Worker(new URL(HEAD_WORKER, import.meta.url), {
    workerData: text,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAD_MEGABYTES },
    ...(IS_SOURCE
      ? { execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'] }
      : {}),
  })
  const { promise, resolve, reject } = Promise.withResolvers<JsonObject | undefined>()
  const tooLong = setTimeout(() => resolve(undefined), MAX_HEAD_MS)
  const abort = (): void => reject(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  worker.once('message', (head: JsonObject | null) => resolve(head ?? undefined))
  worker.once('error', () => resolve(undefined))
  worker.once('exit', () => resolve(undefined))
  try {
    return await promise
  } finally {
    clearTimeout(tooLong)
    signal?.removeEventListener('abort', abort)
    await worker.terminate()
  }
}

/** An OpenAPI or OpenTool document, by what it says of itself. */
export function lookAtDocument(
  document: JsonObject,
  where: { readonly url: string } | { readonly file: string },
  headers: JsonObject = {},
): Look {
  const { openapi, swagger, opentool, info } = document
  const title = isJsonObject(info) && typeof info.title === 'string' ? { name: info.title } : {}
  const version = openapi ?? swagger
  if (version !== undefined) {
    const options = {
      type: 'openapi',
      ...where,
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
    }
    const kind = openapi === undefined ? 'a Swagger' : 'an OpenAPI'
    return {
      kind: 'found',
      source: { type: 'openapi', options, what: `${kind} ${String(version)} document`, ...title, notes: [] },
    }
  }
  return opentool === undefined ? OTHER : lookAtOpenTool(document, where, title)
}

/**
 * A document describes its server's functions, whether or not the server does. The operator has the file, or typed the
 * server's own host: what is elsewhere stays behind the guard of the way out (rule 33).
 */
function lookAtOpenTool(
  { opentool, server }: JsonObject,
  where: { readonly url: string } | { readonly file: string },
  title: { readonly name?: string },
): Look {
  const written = isJsonObject(server) && typeof server.url === 'string' ? server.url : undefined
  const url = written === undefined ? undefined : serverBaseUrl({ url: written })
  if (url === undefined) {
    return {
      kind: 'unusable',
      why: 'It is an OpenTool document that does not say where its server is (server.url). Import the address of the server; if that does not describe itself, write both into the config: { "type": "opentool", "url": …, "document": … }.',
    }
  }
  const document = 'file' in where ? where.file : where.url
  const isNamed = 'file' in where || new URL(where.url).host === new URL(url).host
  return {
    kind: 'found',
    source: {
      type: 'opentool',
      options: { type: 'opentool', ...(isNamed ? { url } : {}), document },
      what: `an OpenTool ${String(opentool)} document of the server ${shownAddress(url)}`,
      ...title,
      notes: [],
    },
  }
}

const REQUEST_ID = 'collet-import'
const INITIALIZE: JsonObject = {
  jsonrpc: '2.0',
  id: REQUEST_ID,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'collet', version: VERSION },
  },
}
const MAX_CHARACTERS = 1_000_000

/** Says hello as a client does; servers of the newest revision answer that with an error of their own. */
export async function probeMcp(url: string, { send, signal, apiKey }: Probe): Promise<Look> {
  const headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }
  const response = await send(url, {
    method: 'POST',
    headers: {
      ...headers,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    },
    body: JSON.stringify(INITIALIZE),
    redirect: 'manual',
    signal,
  })
  if (response.status === 401) {
    await response.body?.cancel()
    const isMcp = (response.headers.get('www-authenticate') ?? '').includes('resource_metadata')
    if (!isMcp) return OTHER
    const notes = ['It wants a token of its own: add `authorization: { provider, scopes }` to its options.']
    return found(url, headers, { notes })
  }
  const answer = await readAnswer(response)
  await endSession(url, response, { send, signal, apiKey })
  if (!isJsonObject(answer) || answer.jsonrpc !== '2.0' || answer.id !== REQUEST_ID) return OTHER
  const { result, error } = answer
  if (isJsonObject(result) && typeof result.protocolVersion === 'string') {
    const { serverInfo } = result
    const name = isJsonObject(serverInfo) ? (serverInfo.title ?? serverInfo.name) : undefined
    return found(url, headers, {
      revision: result.protocolVersion,
      ...(typeof name === 'string' ? { name } : {}),
      notes: [],
    })
  }
  return isJsonObject(error) && typeof error.code === 'number' ? found(url, headers, { notes: [] }) : OTHER
}

function found(
  url: string,
  headers: JsonObject,
  { revision, name, notes }: { revision?: string; name?: string; notes: readonly string[] },
): Look {
  return {
    kind: 'found',
    source: {
      type: 'mcp',
      options: { type: 'mcp', url, ...(Object.keys(headers).length === 0 ? {} : { headers }) },
      what: revision === undefined ? 'an MCP server' : `an MCP server (${revision})`,
      ...(name === undefined ? {} : { name }),
      notes,
    },
  }
}

/** The first message, alone or as an event; a stream may go on for ever. */
async function readAnswer(response: Response): Promise<JsonValue | undefined> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream')) {
    const { bytes, isWhole } = await readStart(response.body, MAX_CHARACTERS)
    return isWhole ? await readList(bytes.toString()) : undefined
  }
  const parser = new EventParser(MAX_CHARACTERS)
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  try {
    for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
      for (const { data } of parser.read(decoder.decode(read.value, { stream: true }))) {
        const message = parseJson(data)
        if (isJsonObject(message) && message.id === REQUEST_ID) return message
      }
    }
    return undefined
  } finally {
    await reader?.cancel().catch(() => undefined)
  }
}

/** The look opened one; the source opens its own when it is used. */
async function endSession(url: string, response: Response, { send, signal, apiKey }: Probe): Promise<void> {
  const session = response.headers.get('mcp-session-id')
  if (session === null) return
  const headers = {
    'mcp-session-id': session,
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  }
  const ended = await send(url, { method: 'DELETE', headers, signal }).catch(() => undefined)
  await ended?.body?.cancel()
}

export const IMPORT_TYPES = ['mcp', 'openapi', 'otc', 'opentool'] as const
export type ImportType = (typeof IMPORT_TYPES)[number]

/** What an address, a file or a command turned out to be. */
export interface FoundSource {
  readonly type: ImportType
  /** As the configuration would have them, `type` included. */
  readonly options: JsonObject
  /** In words: `an OTC server (oxp-1.0)`. */
  readonly what: string
  /** What it calls itself. */
  readonly name?: string
  /** What else there is to know. */
  readonly notes: readonly string[]
}

/** A look at one thing it could be. */
export type Look =
  | { readonly kind: 'found'; readonly source: FoundSource }
  /** It is something, but nothing that can be used as it is. */
  | { readonly kind: 'unusable'; readonly why: string }
  | { readonly kind: 'other' }

const OTHER: Look = { kind: 'other' }

/** What a look at a server needs. */
export interface Probe {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  /** A key or token of the operator for that server. */
  readonly apiKey: string | undefined
}

/** Descriptions of large services are larger than what one call may bring back. */
const MAX_DESCRIPTION_BYTES = 64 * 1024 * 1024

/**
 * The way out of an import. The host that the operator typed may be local; where it leads is guarded all the same, so
 * that a description cannot make us ask around in here (rule 33).
 */
export function createImportFetch(typed: string | undefined): GuardedFetch {
  const url = typed === undefined ? null : URL.parse(typed)
  return createGuardedFetch({
    allow: url === null ? [] : [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`],
    maxResponseBytes: MAX_DESCRIPTION_BYTES,
  })
}

export type Preview =
  | { readonly kind: 'seen'; readonly discovery: Discovery; readonly reason?: string }
  /** Its options are wrong. */
  | { readonly kind: 'refused'; readonly problems: readonly string[] }
  | { readonly kind: 'failed'; readonly why: string; readonly lacks: UpstreamLack | undefined }

/** Opens a source as a server would, reads what it offers, and closes it. */
export async function previewSource(
  key: string,
  options: JsonObject,
  { services, signal }: { readonly services: SourceServices; readonly signal: AbortSignal },
): Promise<Preview> {
  const parsed = SOURCE_OPTIONS.safeParse(options)
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
    return { kind: 'refused', problems }
  }
  const source = await openSource(key, parsed.data, services)
  try {
    const discovery = await source.discover(signal)
    const { reason } = source.health()
    return { kind: 'seen', discovery, ...(reason === undefined ? {} : { reason }) }
  } catch (error) {
    signal.throwIfAborted()
    return { kind: 'failed', why: reasonOf(error), lacks: lackOf(error) }
  } finally {
    await source.close()
  }
}

const MAX_CAUSE_DEPTH = 8

function lackOf(error: unknown): UpstreamLack | undefined {
  let cause = error
  for (let depth = 0; depth < MAX_CAUSE_DEPTH && cause instanceof Error; depth += 1) {
    if (cause instanceof UpstreamLacks) return cause.lack
    cause = cause.cause
  }
  return undefined
}

/** For an operator, so with what is for developers; that nothing was sent goes without saying. */
function reasonOf(error: unknown): string {
  if (!isToolError(error)) return error instanceof Error ? error.message : 'It cannot be asked.'
  const { message, developerMessage, canRetry } = error
  if (developerMessage === undefined || developerMessage === message) return message
  return canRetry ? developerMessage : `${message} (${developerMessage})`
}

/** Sources log what their program writes to stderr, secrets taken out; the rest of their log is not for the screen. */
export function stderrLogger(onLine: (line: string) => void): Logger {
  return {
    ...SILENT_LOGGER,
    debug(said: object | string) {
      if (typeof said !== 'object' || !('stderr' in said) || typeof said.stderr !== 'string') return
      for (const line of said.stderr.split('\n')) if (line.trim() !== '') onLine(cleanText(line.trimEnd()))
    },
  }
}
