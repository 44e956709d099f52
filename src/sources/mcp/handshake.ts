import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { untilAborted } from '#kernel/base/waiting'
import type { ToolContext } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { isNewVersionHeader } from '#protocols/mcp/codec-message'
import { MCP_CODES, META, NEW_REVISION, NEWEST_LEGACY_REVISION } from '#protocols/mcp/wire'
import { MissingPrerequisiteError, type SourceServices, type UpstreamList } from '#sources/kit/source'
import {
  CLIENT,
  type Handlers,
  isWireArray,
  isWireObject,
  McpConnection,
  textOf,
  UPSTREAM_LISTS,
} from './connection.ts'
import { askCaller, requestCaller } from './elicitation.ts'
import { errorText, HttpRefusal, InvalidResult, isCredentialRefusal, RpcError } from './errors.ts'
import { HttpTransport } from './http.ts'
import { requestObserver } from './operations.ts'
import type { McpOptions } from './options.ts'
import { StdioTransport } from './stdio.ts'
import type { Credentials, Transport } from './transport.ts'
import type { Endpoint } from './upstream.ts'

/**
 * Opens connections: starts the transport, finds the server's protocol era (with or without sessions, MCP/T-24) and performs the
 * handshake. `upstream.ts` uses it.
 * Invariant: if the handshake fails, its connection and process are closed.
 */

/** Settings that all connections of a source share. */
export interface ConnectionSetting {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  /** `asks` is set when the server asks a question. */
  readonly traits: { asks: boolean }
  onListChanged(connection: McpConnection, list: UpstreamList): void
  onElicitationComplete(id: string): void
  onResourceUpdated(connection: McpConnection, uri: string): void
  onLost(connection: McpConnection, why: string | undefined): void
}

/** The era of a server: `legacy` with `initialize` and sessions, or `modern` with `server/discover`. */
export type Era = { readonly kind: 'legacy' } | { readonly kind: 'modern'; readonly discovered: JsonObject }

interface OpenRequest {
  readonly era: Era | undefined
  readonly credentials: Credentials
  readonly signal: AbortSignal
}

export interface OpenedConnection {
  readonly connection: McpConnection
  readonly era: Era
}

/** How long the probe for the era waits on stdio. A server that does not answer is an old one (MCP/T-24). */
const PROBE_MS = 5000
/** How long the probe waits on HTTP. Without an answer the era stays undecided, and a new connection tries the old handshake. */
const HTTP_PROBE_MS = 10_000
const LEGACY_REVISIONS: ReadonlySet<JsonValue | undefined> = new Set([
  ...['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'],
])

/** The probe got no answer that decides the era. */
class EraUndecided extends Error {
  override readonly name = 'EraUndecided'
}

export async function openConnection(
  setting: ConnectionSetting,
  request: OpenRequest,
): Promise<OpenedConnection> {
  const { era, signal } = request
  const first = await attempt(setting, request)
  if ('connection' in first) return first
  // MCP/T-24: an old server may have exited at the probe or refused it.
  const mayBeOld =
    era === undefined && setting.options.revision === 'auto' && first.error instanceof EraUndecided
  // A server that the probe broke exits with an error. A program that exits with success is not a server and is not run twice.
  const isDone = first.transport instanceof StdioTransport && first.transport.isDone
  if (!mayBeOld || isDone || signal.aborted) throw explained(first, setting, signal)
  const second = await attempt(setting, { ...request, era: { kind: 'legacy' } })
  if ('connection' in second) return second
  throw explained(second, setting, signal)
}

interface Failure {
  readonly error: unknown
  readonly transport: Transport
}

/** Adds the program's exit and stderr, which explain more than the failed request. */
function explained(
  { error, transport }: Failure,
  { options }: ConnectionSetting,
  signal: AbortSignal,
): unknown {
  const isLate = isTimeout(error) || isTimeout(signal.reason)
  const late = `no answer within ${options.connectTimeoutMs / 1000} s (connectTimeoutMs)`
  if (!(transport instanceof StdioTransport))
    return isLate ? new MissingPrerequisiteError('time', late, { cause: error }) : error
  const { ownEnding, stderrTail } = transport
  if (!isLate && ownEnding === undefined) return error
  const silent = ownEnding === undefined ? '; it wrote nothing to stderr' : ''
  const text = `${ownEnding ?? late}${stderrTail === '' ? silent : `; its last output: ${stderrTail}`}`
  if (ownEnding === undefined) return new MissingPrerequisiteError('time', text, { cause: error })
  const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
  return isAbsent
    ? new MissingPrerequisiteError('program', text, { cause: error })
    : new Error(text, { cause: error })
}

function isTimeout(error: unknown): boolean {
  const cause = error instanceof EraUndecided ? error.cause : error
  return cause instanceof Error && cause.name === 'TimeoutError'
}

async function attempt(
  setting: ConnectionSetting,
  request: OpenRequest,
): Promise<OpenedConnection | Failure> {
  const { options, services } = setting
  const transport = transportTo(setting, request)
  let isEstablished = false
  const connection: McpConnection = new McpConnection({
    transport,
    handlers: handlersFor(setting, () => connection),
    openedMs: services.clock.monotonicMs(),
    log: services.log,
    callsAtOnce: options.callsAtOnce,
    traits: setting.traits,
    startRequest: requestObserver(services, setting.key, setting.endpoint),
    onLost: () => {
      if (!isEstablished) return
      setting.onLost(connection, transport instanceof StdioTransport ? transport.ending : undefined)
    },
  })
  try {
    await untilAborted(transport.start(connection), request.signal)
    const era = await shakeHands(connection, transport, setting.options, request)
    isEstablished = true
    return { connection, era }
  } catch (error) {
    await connection.close().catch(() => undefined)
    return { error, transport }
  }
}

type RequestHandler = (params: JsonValue | undefined, caller: ToolContext | undefined) => Promise<JsonObject>

function handlersFor(setting: ConnectionSetting, connection: () => McpConnection): Handlers {
  return {
    requests: new Map<string, RequestHandler>([
      [
        'elicitation/create',
        async (params, caller) => {
          setting.traits.asks = true
          if (!isJsonObject(params))
            throw new RpcError(JSON_RPC_CODES.badParams, 'Invalid elicitation request')
          // Ledger §3, correlation: without a known caller the question is cancelled, because another caller must not get it.
          return caller === undefined ? { action: 'cancel' } : await askCaller(caller, params, setting.key)
        },
      ],
      ...['sampling/createMessage', 'roots/list'].map((method): [string, RequestHandler] => [
        method,
        async (params, caller) => {
          // Many servers request roots right after the handshake, when no call runs. That is no reason to serialize calls.
          if (connection().hasCalls) setting.traits.asks = true
          const result = caller === undefined ? undefined : await requestCaller(caller, method, params)
          if (result !== undefined) return result
          throw new RpcError(JSON_RPC_CODES.badRequest, 'The call that this request belongs to is not known')
        },
      ]),
    ]),
    notifications: new Map<string, (params: JsonObject) => void>([
      ...UPSTREAM_LISTS.map((list): [string, () => void] => [
        `notifications/${list}/list_changed`,
        () => setting.onListChanged(connection(), list),
      ]),
      [
        'notifications/resources/updated',
        ({ uri }: JsonObject) => setting.onResourceUpdated(connection(), textOf(uri) ?? ''),
      ],
      [
        'notifications/elicitation/complete',
        ({ elicitationId }: JsonObject) => setting.onElicitationComplete(textOf(elicitationId) ?? ''),
      ],
    ]),
  }
}

async function shakeHands(
  connection: McpConnection,
  transport: Transport,
  options: McpOptions,
  { era, signal }: OpenRequest,
): Promise<Era> {
  if (options.revision === 'legacy' || (options.revision === 'auto' && era?.kind === 'legacy'))
    return await initialize(connection, transport, signal)
  if (options.revision === 'auto' && era?.kind === 'modern') return adopt(connection, era.discovered)
  connection.describeRequests(NEW_REVISION)
  const discovered = await probe(connection, transport, options, signal)
  if (discovered !== undefined) return adopt(connection, discovered)
  connection.describeRequests(undefined)
  return await initialize(connection, transport, signal)
}

/** The discovery result of a server of 2026-07-28; `undefined` for an old server. Throws `EraUndecided` if neither is known. */
async function probe(
  connection: McpConnection,
  transport: Transport,
  options: McpOptions,
  signal: AbortSignal,
): Promise<JsonObject | undefined> {
  let answer = await discoverServer(connection, transport, options, signal)
  // A server may refuse the revision at first and yet support it (MCP-34).
  if ('supported' in answer && answer.supported?.includes(NEW_REVISION))
    answer = await discoverServer(connection, transport, options, signal)
  if ('result' in answer) return answer.result
  const { supported } = answer
  const isNewer = supported?.some((version) => isNewVersionHeader(textOf(version))) === true
  if (!isNewer && options.revision === 'auto') return undefined
  const list = supported === undefined ? '' : `; it supports ${supported.join(', ')}`
  throw new Error(`The server does not support ${NEW_REVISION}${list}`)
}

/** The result of `server/discover`; if the server does not accept the request, the revisions that it names instead. */
async function discoverServer(
  connection: McpConnection,
  { kind }: Transport,
  { connectTimeoutMs }: McpOptions,
  signal: AbortSignal,
): Promise<{ readonly result: JsonObject } | { readonly supported: readonly JsonValue[] | undefined }> {
  const isStdio = kind === 'stdio'
  const late = AbortSignal.timeout(Math.min(isStdio ? PROBE_MS : HTTP_PROBE_MS, connectTimeoutMs / 2))
  const options = { signal: AbortSignal.any([signal, late]) }
  try {
    const result = await connection.request('server/discover', {}, options)
    const supported = versionsIn(result.supportedVersions)
    const isUsable = supported?.includes(NEW_REVISION) === true && isWireObject(result.capabilities)
    return isUsable ? { result } : { supported: supported?.filter((version) => version !== NEW_REVISION) }
  } catch (error) {
    if (signal.aborted || isCredentialRefusal(error)) throw error
    const isSilent = late.aborted && isStdio
    if (isSilent || isOldAnswer(error)) return { supported: supportedBy(error) }
    const message = `The server did not say which protocol revisions it supports: ${errorText(error)}`
    throw new EraUndecided(message, { cause: error })
  }
}

/** True for a refusal that an old server may send, which does not know the method. Any JSON-RPC error counts. */
function isOldAnswer(error: unknown): boolean {
  if (error instanceof RpcError || error instanceof InvalidResult) return true
  return error instanceof HttpRefusal && error.details.status < 500
}

/** The revisions in the error -32022 of a server of 2026-07-28 or later. */
function supportedBy(error: unknown): readonly JsonValue[] | undefined {
  const body = error instanceof HttpRefusal ? parseJson(error.details.text) : undefined
  const refusal = isWireObject(body) && isWireObject(body.error) ? body.error : error
  if (typeof refusal !== 'object' || refusal === null || !('code' in refusal) || !('data' in refusal))
    return undefined
  if (refusal.code !== MCP_CODES.unsupportedVersion || !isWireObject(refusal.data)) return undefined
  return versionsIn(refusal.data.supported)
}

function versionsIn(value: JsonValue | undefined): readonly JsonValue[] | undefined {
  return isWireArray(value) && value.length > 0 ? value : undefined
}

function adopt(connection: McpConnection, discovered: JsonObject): Era {
  connection.describeRequests(NEW_REVISION)
  const meta = isWireObject(discovered._meta) ? discovered._meta : {}
  connection.server = serverFacts(discovered.capabilities, meta[META.serverInfo])
  return { kind: 'modern', discovered }
}

/** The handshake of 2025-11-25 and earlier. */
async function initialize(
  connection: McpConnection,
  transport: Transport,
  signal: AbortSignal,
): Promise<Era> {
  const result = await connection.request(
    'initialize',
    {
      protocolVersion: NEWEST_LEGACY_REVISION,
      capabilities: CLIENT.capabilities,
      clientInfo: CLIENT.info,
    },
    { signal },
  )
  const { protocolVersion, capabilities, serverInfo } = result
  if (!LEGACY_REVISIONS.has(protocolVersion) || typeof protocolVersion !== 'string')
    throw new Error(`The server's protocol revision is not supported: ${String(protocolVersion)}`)
  connection.server = serverFacts(capabilities, serverInfo)
  connection.revision = protocolVersion
  transport.adoptRevision?.(protocolVersion)
  await connection.notify('notifications/initialized', undefined, { signal })
  transport.listen?.()
  return { kind: 'legacy' }
}

function serverFacts(capabilities: JsonValue | undefined, info: JsonValue | undefined) {
  return {
    capabilities: isWireObject(capabilities) ? capabilities : {},
    info: isWireObject(info) ? info : {},
  }
}

function transportTo({ endpoint, options, services }: ConnectionSetting, { credentials }: OpenRequest) {
  if (endpoint.transport === 'http')
    return new HttpTransport({
      url: endpoint.url,
      headers: options.headers,
      credentials,
      fetch: services.fetch,
      send: services.send,
    })
  const own = Object.entries(options.env).map(([name, value]): [string, string] => [name, value.reveal()])
  const secrets = own.map(([, value]) => value).filter((value) => value.length >= 8)
  return new StdioTransport({
    command: endpoint.command,
    args: endpoint.args,
    cwd: endpoint.cwd,
    env: { ...inherited(services.environment), ...Object.fromEntries(own) },
    maxMessageBytes: options.maxMessageBytes,
    log: services.log,
    redact: (text) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '[redacted]'), text),
  })
}

/**
 * Environment variables that programs inherit, compared case-insensitively. The proxy, certificate and registry variables are
 * needed on machines that reach the network through them: without them, a launcher like `npx` or `uvx` hangs silently.
 */
const INHERITED: ReadonlySet<string> = new Set([
  ...['home', 'logname', 'path', 'shell', 'term', 'user', 'lang', 'tmpdir'],
  ...['appdata', 'localappdata', 'programdata', 'programfiles', 'programfiles(x86)', 'programw6432'],
  ...['comspec', 'pathext', 'processor_architecture', 'systemdrive', 'systemroot', 'windir', 'temp'],
  ...['homedrive', 'homepath', 'username', 'userprofile'],
  ...['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy', 'node_use_env_proxy'],
  ...['node_extra_ca_certs', 'node_use_system_ca', 'ssl_cert_file', 'ssl_cert_dir'],
  ...['requests_ca_bundle', 'curl_ca_bundle', 'deno_cert'],
  ...['npm_config_registry', 'npm_config_proxy', 'npm_config_https_proxy', 'npm_config_noproxy'],
  ...['npm_config_cafile', 'npm_config_strict_ssl', 'npm_config_userconfig', 'bun_config_registry'],
  ...['pip_index_url', 'pip_extra_index_url', 'pip_cert', 'pip_proxy', 'pip_trusted_host', 'pip_config_file'],
  ...['uv_index', 'uv_default_index', 'uv_index_url', 'uv_extra_index_url', 'uv_native_tls'],
  'uv_config_file',
])

function inherited(environment: SourceServices['environment'] = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && value !== '' && INHERITED.has(name.toLowerCase()) ? [[name, value]] : [],
    ),
  )
}
