import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { OpenToolClient } from '#client/opentool'
import { readOptions } from '#client/options'
import { ToolDirectory } from '#client/tool-directory'
import { readStart } from '#kernel/base/bytes'
import { EventParser } from '#kernel/base/event-stream'
import { defined, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { serverBaseUrl } from '#protocols/opentool/codec-document'
import { VERSION } from '#server/version'
import { readList } from '#sources/common/answered-json'
import { shownAddress } from '#sources/kit/source-facts'

/**
 * One probe for each kind of server or document that can be imported: it sends the first request of that protocol, or
 * reads the first members of a document. `detect.ts` tries them in turn, and `check-source.ts` uses the probe for a known
 * source. Invariant: an answer is read within bounds, and parsing it never blocks the serving thread for long.
 */

export const IMPORT_TYPES = ['mcp', 'openapi', 'otc', 'opentool'] as const
export type ImportType = (typeof IMPORT_TYPES)[number]

/** A source that was recognised at an address, in a file or in a command. */
export interface FoundSource {
  readonly type: ImportType
  /** The source's options in the spelling of the config, including `type`. */
  readonly options: JsonObject
  /** A description for messages, for example `an OTC server (oxp-1.0)`. */
  readonly what: string
  /** The name under which the server or document presents itself. */
  readonly name?: string
  readonly notes?: readonly string[]
}

export type ProbeResult =
  | { readonly kind: 'found'; readonly source: FoundSource }
  /** A recognised server or document that cannot be imported. */
  | { readonly kind: 'unusable'; readonly why: string }
  | { readonly kind: 'other' }

const OTHER: ProbeResult = { kind: 'other' }

export interface ProbeContext {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  readonly apiKey: string | undefined
}

function found(
  type: ImportType,
  options: JsonObject,
  facts: Omit<FoundSource, 'type' | 'options'>,
): ProbeResult {
  return { kind: 'found', source: { type, options: { type, ...options }, ...facts } }
}

function bearer({ apiKey }: Pick<ProbeContext, 'apiKey'>): { readonly Authorization?: string } {
  return apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }
}

/** The `headers` option of a source that needs the operator's key. */
function headersOption(probe: ProbeContext): JsonObject {
  return probe.apiKey === undefined ? {} : { headers: { ...bearer(probe) } }
}

/** An OTC server has `GET /tools`. */
export async function probeOtc(url: string, probe: ProbeContext): Promise<ProbeResult> {
  const base = withoutEnd(url, '/tools')
  const { tools, wire } = await new ToolDirectory(clientSettings(base, 'otc', probe)).refresh(probe.signal)
  // In the `uts` dialect any JSON array reads as a list of tools.
  if (tools.length === 0 && wire.dialect === 'uts') return OTHER
  const { apiKey } = probe
  return found('otc', defined({ url: base, apiKey }), { what: `an OTC server (${wire.dialect})` })
}

/** An OpenTool server has `GET /version`, and usually describes its functions. */
export async function probeOpenTool(url: string, probe: ProbeContext): Promise<ProbeResult> {
  const { signal, apiKey } = probe
  const base = withoutEnd(withoutEnd(url, '/load'), '/version')
  const client = new OpenToolClient(clientSettings(base, 'opentool', probe))
  const { version } = await client.version({ signal })
  const document = await client.load({ signal })
  if (document === null)
    return {
      kind: 'unusable',
      why: `${shownAddress(base)} is an OpenTool server that does not describe its functions.`,
    }
  return found('opentool', defined({ url: base, apiKey }), {
    what: `an OpenTool server (version ${version})`,
    name: document.info.title,
  })
}

/** openwop lists tools and runs, but has no operation to call a tool from outside. */
export async function probeOpenwop(url: string, probe: ProbeContext): Promise<ProbeResult> {
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

export async function probeDocument(url: string, probe: ProbeContext): Promise<ProbeResult> {
  const document = await getDocument(url, probe)
  return document === undefined ? OTHER : recognizeDocument(document, { url }, headersOption(probe))
}

/** Most services publish their description at one of these paths. */
const USUAL_PATHS = ['/openapi.json', '/openapi.yaml', '/swagger.json', '/v3/api-docs', '/api-docs']

export async function probeUsualPaths(url: string, probe: ProbeContext): Promise<ProbeResult> {
  for (const path of USUAL_PATHS) {
    const result = await probeDocument(addressBelow(url, path), probe).catch(() => OTHER)
    if (result.kind !== 'other') return result
  }
  return OTHER
}

/** The address of `path` below `url`. The query is kept, because keys are often part of it. */
export function addressBelow(url: string, path: string): string {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/+$/, '')}${path}`
  return address.href
}

export async function getDocument(url: string, probe: ProbeContext): Promise<JsonObject | undefined> {
  const { send, signal } = probe
  const accept = 'application/json, application/yaml;q=0.9, */*;q=0.1'
  const response = await send(url, { headers: { accept, ...bearer(probe) }, signal })
  const type = response.headers.get('content-type') ?? ''
  // A stream may never end.
  if (!response.ok || type.startsWith('text/event-stream')) {
    await response.body?.cancel()
    return undefined
  }
  return await readHead(await response.text(), signal)
}

function clientSettings(url: string, protocol: 'otc' | 'opentool', { send, apiKey }: ProbeContext) {
  const options = {
    apiKey,
    protocol,
    maxRetries: 0,
    fetch: (address: string, init: RequestInit) => send(address, init),
  }
  // `readList` parses in pieces and within bounds, because the answer is parsed on the serving thread.
  return { ...readOptions(url, options), readJson: readList }
}

function withoutEnd(url: string, end: string): string {
  const bare = url.replace(/\/+$/, '')
  return bare.endsWith(end) ? bare.slice(0, -end.length) : bare
}

const IS_SOURCE = import.meta.url.endsWith('.ts')
const HEAD_WORKER = IS_SOURCE ? './head-worker.ts' : './head-worker.js'
const MAX_HEAD_MS = 20_000
const MAX_HEAD_MEGABYTES = 512
/** Maximum length of JSON that the serving thread parses. Longer JSON, and YAML of any length, could block it for too long. */
const MAX_JSON_ON_SERVING_THREAD = 100_000

/**
 * The members by which a JSON or YAML document is recognised; `undefined` for any other text, and for text that takes
 * too long or too much memory to parse. A worker thread parses it, because a hostile document can be slow to parse.
 */
export async function readHead(text: string, signal?: AbortSignal): Promise<JsonObject | undefined> {
  // An HTML page is valid YAML: one long string.
  if (/^\s*</.test(text)) return undefined
  if (text.length <= MAX_JSON_ON_SERVING_THREAD) {
    const value = parseJson(text.startsWith('\uFEFF') ? text.slice(1) : text)
    if (value !== undefined) return isJsonObject(value) ? value : undefined
  }
  signal?.throwIfAborted()
  const worker = new Worker(new URL(HEAD_WORKER, import.meta.url), {
    workerData: text,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAD_MEGABYTES },
    ...(IS_SOURCE && { execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'] }),
  })
  // `once` stops listening when it ends, and an error without a listener would end the process.
  worker.on('error', () => undefined)
  const deadline = AbortSignal.timeout(MAX_HEAD_MS)
  const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline])
  try {
    const [head]: readonly (JsonObject | null)[] = await once(worker, 'message', { signal: ended })
    return head ?? undefined
  } catch {
    signal?.throwIfAborted()
    return undefined
  } finally {
    await worker.terminate()
  }
}

export function recognizeDocument(
  { openapi, swagger, opentool, info, server }: JsonObject,
  where: { readonly url: string } | { readonly file: string },
  headers: JsonObject = {},
): ProbeResult {
  const name = isJsonObject(info) && typeof info.title === 'string' ? info.title : undefined
  const version = openapi ?? swagger
  if (version !== undefined) {
    const kind = openapi === undefined ? 'a Swagger' : 'an OpenAPI'
    return found(
      'openapi',
      { ...where, ...headers },
      defined({ what: `${kind} ${String(version)} document`, name }),
    )
  }
  if (opentool === undefined) return OTHER
  const written = isJsonObject(server) && typeof server.url === 'string' ? server.url : undefined
  const url = written === undefined ? undefined : serverBaseUrl({ url: written })
  if (url === undefined)
    return {
      kind: 'unusable',
      why: 'This OpenTool document does not contain the address of its server (server.url). Import the address of the server; if the server has no description of its functions, write both into the config: { "type": "opentool", "url": …, "document": … }.',
    }
  const document = 'file' in where ? where.file : where.url
  // Only an address that the operator named is stored. An address on another host stays subject to the egress rules (rule 33).
  const isNamed = 'file' in where || new URL(where.url).host === new URL(url).host
  return found(
    'opentool',
    { ...(isNamed ? { url } : {}), document },
    defined({ what: `an OpenTool ${String(opentool)} document of the server ${shownAddress(url)}`, name }),
  )
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
const NEEDS_TOKEN =
  'The server requires its own access token: add `authorization: { provider, scopes }` to its options.'

/** Sends `initialize`; servers of the newest revision answer with a JSON-RPC error. */
export async function probeMcp(url: string, probe: ProbeContext): Promise<ProbeResult> {
  const { send, signal } = probe
  const foundAt = (facts: Omit<FoundSource, 'type' | 'options'>): ProbeResult =>
    found('mcp', { url, ...headersOption(probe) }, facts)
  const response = await send(url, {
    method: 'POST',
    headers: {
      ...bearer(probe),
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
    return isMcp ? foundAt({ what: 'an MCP server', notes: [NEEDS_TOKEN] }) : OTHER
  }
  const answer = await readAnswer(response)
  await endSession(url, response, probe)
  if (!isJsonObject(answer) || answer.jsonrpc !== '2.0' || answer.id !== REQUEST_ID) return OTHER
  const { result, error } = answer
  if (isJsonObject(result) && typeof result.protocolVersion === 'string') {
    const { serverInfo } = result
    const name = isJsonObject(serverInfo) ? (serverInfo.title ?? serverInfo.name) : undefined
    return foundAt({
      what: `an MCP server (${result.protocolVersion})`,
      ...(typeof name === 'string' ? { name } : {}),
    })
  }
  return isJsonObject(error) && typeof error.code === 'number' ? foundAt({ what: 'an MCP server' }) : OTHER
}

/** The answer to `initialize`: the body, or one event of a stream that may never end. */
async function readAnswer({ headers, body }: Response): Promise<JsonValue | undefined> {
  if (!(headers.get('content-type') ?? '').startsWith('text/event-stream')) {
    const { bytes, isWhole } = await readStart(body, MAX_CHARACTERS)
    return isWhole ? await readList(bytes.toString()) : undefined
  }
  const parser = new EventParser(MAX_CHARACTERS)
  const decoder = new TextDecoder()
  for await (const piece of body ?? []) {
    for (const { data } of parser.read(decoder.decode(piece, { stream: true }))) {
      const message = parseJson(data)
      if (isJsonObject(message) && message.id === REQUEST_ID) return message
    }
  }
  return undefined
}

/** Ends the session that the probe opened; the source opens its own. */
async function endSession(url: string, { headers }: Response, probe: ProbeContext): Promise<void> {
  const session = headers.get('mcp-session-id')
  if (session === null) return
  const sent = {
    method: 'DELETE',
    headers: { 'mcp-session-id': session, ...bearer(probe) },
    signal: probe.signal,
  }
  const ended = await probe.send(url, sent).catch(() => undefined)
  await ended?.body?.cancel()
}
