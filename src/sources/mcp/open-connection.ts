import {
  Client,
  type PriorDiscovery,
  SdkError,
  SdkErrorCode,
  type Transport,
} from '@modelcontextprotocol/client'
import { untilAborted } from '#kernel/base/waiting'
import { type SourceServices, UpstreamLacks } from '#sources/kit/source'
import { answerOf, askCaller } from './call-tool.ts'
import { CLIENT, Connection } from './connection.ts'
import { HttpTransport } from './http-transport.ts'
import type { McpOptions } from './options.ts'
import { StdioTransport } from './stdio-transport.ts'
import type { Endpoint } from './upstream.ts'

/** MCP/T-24: silence on stdio is an old server; longer than this nobody needs to say no. */
const PROBE_MS = 5000
/** On HTTP it says less: the old handshake is tried, but it may be silent too. */
const HTTP_PROBE_MS = 10_000
const FAREWELL_MS = 2000

/** What is the same for all connections of a source. */
export interface ConnectionSetting {
  /** Of the source. */
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  /** Whether the upstream is known to ask questions; set when it does. */
  readonly manners: { asks: boolean }
  onToolsChanged(connection: Connection): void
  onElicitationComplete(id: string): void
  onLost(connection: Connection, why: string | undefined): void
}

interface OpenRequest {
  /** What is known of the upstream's era. */
  readonly prior: PriorDiscovery | undefined
  readonly credentials: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** Connects and shakes hands; both eras. Whatever was started is ended when that fails. */
export async function openConnection(setting: ConnectionSetting, request: OpenRequest): Promise<Connection> {
  const { prior, signal } = request
  const first = await attempt(setting, request)
  if (first instanceof Connection) return first
  // MCP/T-24: an old server may have left, or refused us, at the question for its era.
  const mayBeOld = prior === undefined && setting.options.revision === 'auto' && isUndecided(first.error)
  // Servers that the question broke say so; what ended well is some other program, and is not run twice.
  const isDone = first.transport instanceof StdioTransport && first.transport.isDone
  if (!mayBeOld || isDone || signal.aborted) throw explained(first, setting, signal)
  const second = await attempt(setting, { ...request, prior: { kind: 'legacy' } })
  if (second instanceof Connection) return second
  throw explained(second, setting, signal)
}

/** A connection that was not made. */
interface Failure {
  readonly error: unknown
  readonly transport: Transport
}

/** A program says more about why than the client, which only saw it go, or saw nothing. */
function explained(
  { error, transport }: Failure,
  { options }: ConnectionSetting,
  signal: AbortSignal,
): unknown {
  const isLate = isTimeout(error) || isTimeout(signal.reason)
  const late = `no answer within ${options.connectTimeoutMs / 1000} s (connectTimeoutMs)`
  if (!(transport instanceof StdioTransport))
    return isLate ? new UpstreamLacks('time', late, { cause: error }) : error
  const { ownEnding, lastWords } = transport
  if (!isLate && ownEnding === undefined) return error
  const why = ownEnding ?? late
  const silent = ownEnding === undefined ? '; it wrote nothing to stderr' : ''
  const said = lastWords === '' ? silent : `; its last words: ${lastWords}`
  const text = `${why}${said}`
  if (ownEnding === undefined) return new UpstreamLacks('time', text, { cause: error })
  return isAbsent(error)
    ? new UpstreamLacks('program', text, { cause: error })
    : new Error(text, { cause: error })
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

function isTimeout(error: unknown): boolean {
  if (error instanceof SdkError) return error.code === SdkErrorCode.RequestTimeout
  return error instanceof Error && error.name === 'TimeoutError'
}

function isUndecided(error: unknown): boolean {
  if (!(error instanceof SdkError)) return false
  return error.code === SdkErrorCode.EraNegotiationFailed || error.code === SdkErrorCode.RequestTimeout
}

async function attempt(setting: ConnectionSetting, request: OpenRequest): Promise<Connection | Failure> {
  const { options, services } = setting
  const transport = transportTo(setting, request)
  const client = clientFor(options)
  const connection: Connection = new Connection({
    client,
    transport,
    correlates: setting.endpoint.transport === 'http',
    callsAtOnce: () => (isOneAtATime(setting, client) ? 1 : options.callsAtOnce),
    openedMs: services.clock.monotonicMs(),
    ...(transport instanceof HttpTransport ? { callPlainly: (call) => transport.call(call) } : {}),
    ...(transport instanceof StdioTransport ? { unread: () => transport.unread } : {}),
    close: () => endTransport(transport, client),
  })
  client.setNotificationHandler('notifications/tools/list_changed', () => setting.onToolsChanged(connection))
  client.setNotificationHandler('notifications/elicitation/complete', ({ params }) =>
    setting.onElicitationComplete(params.elicitationId),
  )
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    setting.manners.asks = true
    const scope = connection.asking
    // Ledger §3, correlation: better no answer than one to another caller's question.
    if (scope === undefined) return { action: 'cancel' }
    return answerOf(await askCaller(scope.context, params, setting.key))
  })
  client.onerror = (error) => services.log.debug({ err: error }, 'The MCP client reports')
  const wasOpen = { yes: false }
  client.onclose = () => {
    const isNews = connection.isOpen && wasOpen.yes
    connection.lost()
    if (isNews) setting.onLost(connection, endingOf(transport))
  }
  try {
    await connect(client, transport, setting, request)
    wasOpen.yes = true
    return connection
  } catch (error) {
    await connection.close().catch(() => undefined)
    return { error, transport }
  }
}

/** Ledger §3: a question on stdio names no call, so a server that asks gets one call at a time. */
function isOneAtATime({ endpoint, manners }: ConnectionSetting, client: Client): boolean {
  return endpoint.transport === 'stdio' && manners.asks && client.getProtocolEra() !== 'modern'
}

function clientFor({ revision, connectTimeoutMs, url }: McpOptions): Client {
  const probe = { timeoutMs: Math.min(url === undefined ? PROBE_MS : HTTP_PROBE_MS, connectTimeoutMs / 2) }
  const mode = revision === 'modern' ? { pin: '2026-07-28' } : revision
  return new Client(CLIENT.info, {
    capabilities: CLIENT.capabilities,
    versionNegotiation: { mode, probe },
    inputRequired: { autoFulfill: false },
    // Values are checked by the call pipeline, against the accepted schema.
    jsonSchemaValidator: {
      getValidator: () => () => ({ valid: false, data: undefined, errorMessage: 'not checked here' }),
    },
  })
}

function transportTo({ endpoint, options, services }: ConnectionSetting, { credentials }: OpenRequest) {
  if (endpoint.transport === 'http') {
    const { headers } = options
    return new HttpTransport({
      ...{ url: endpoint.url, headers, credentials, fetch: services.fetch },
      send: services.send,
    })
  }
  const own = Object.entries(options.env).map(([name, value]): [string, string] => [name, value.reveal()])
  const secrets = own.map(([, value]) => value).filter((value) => value.length >= 8)
  return new StdioTransport({
    command: endpoint.command,
    args: endpoint.args,
    cwd: endpoint.cwd,
    env: { ...handedOn(services.environment), ...Object.fromEntries(own) },
    maxMessageBytes: options.maxMessageBytes,
    log: services.log,
    redact: (text) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '[redacted]'), text),
  })
}

/** What every program expects to find: who runs it, and where things are. Windows has names of its own for that. */
const USUAL = [
  ...['home', 'logname', 'path', 'shell', 'term', 'user', 'lang', 'tmpdir'],
  ...['appdata', 'localappdata', 'programdata', 'programfiles', 'programfiles(x86)', 'programw6432'],
  ...['comspec', 'pathext', 'processor_architecture', 'systemdrive', 'systemroot', 'windir', 'temp'],
  ...['homedrive', 'homepath', 'username', 'userprofile'],
]

/**
 * Variables that say how this machine reaches others: proxies, certificates, registries. A launcher like `npx` or `uvx`
 * waits in silence without them. Names are compared without regard to case, as their readers do.
 */
const WAY_OUT = [
  ...['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy', 'node_use_env_proxy'],
  ...['node_extra_ca_certs', 'node_use_system_ca', 'ssl_cert_file', 'ssl_cert_dir'],
  ...['requests_ca_bundle', 'curl_ca_bundle', 'deno_cert'],
  ...['npm_config_registry', 'npm_config_proxy', 'npm_config_https_proxy', 'npm_config_noproxy'],
  ...['npm_config_cafile', 'npm_config_strict_ssl', 'npm_config_userconfig', 'bun_config_registry'],
  ...['pip_index_url', 'pip_extra_index_url', 'pip_cert', 'pip_proxy', 'pip_trusted_host', 'pip_config_file'],
  ...[
    'uv_index',
    'uv_default_index',
    'uv_index_url',
    'uv_extra_index_url',
    'uv_native_tls',
    'uv_config_file',
  ],
]

const HANDED_ON: ReadonlySet<string> = new Set([...USUAL, ...WAY_OUT])

function handedOn(environment: SourceServices['environment'] = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && value !== '' && HANDED_ON.has(name.toLowerCase()) ? [[name, value]] : [],
    ),
  )
}

/** Not every wait inside `connect` knows the signal, so the whole is given up with it. */
async function connect(
  client: Client,
  transport: Transport,
  { options }: ConnectionSetting,
  { prior, signal }: OpenRequest,
): Promise<void> {
  const known = options.revision === 'auto' ? prior : undefined
  const connecting = client.connect(transport, {
    timeout: options.connectTimeoutMs,
    signal,
    ...(known === undefined ? {} : { prior: known }),
  })
  await untilAborted(connecting, signal)
}

/** An old session is given back (MCP-26), as far as the upstream lets us. */
async function endTransport(transport: Transport, client: Client): Promise<void> {
  if (transport instanceof HttpTransport && transport.sessionId !== undefined) {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, FAREWELL_MS)
    })
    await Promise.race([transport.terminateSession().catch(() => undefined), late])
    clearTimeout(timer)
  }
  await client.close().catch(() => undefined)
  await transport.close().catch(() => undefined)
}

function endingOf(transport: Transport): string | undefined {
  return transport instanceof StdioTransport ? transport.ending : undefined
}
