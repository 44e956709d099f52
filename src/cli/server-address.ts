import { readdir, readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { EVENT_STREAM, IdleTimeout, readEvents } from '#client/event-stream'
import type { LoadedConfig } from '#config/load'
import type { Settings } from '#config/settings'
import { locateStore, startTokenFileIn, tlsFiles } from '#config/to-settings'
import type { StreamEvent } from '#kernel/base/event-stream'
import { defined, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { ACTING_AS } from '#server/admin/access'
import { READ_LIMIT_MS } from '#server/reload'
import { isLoopback } from '#server/safety'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  EXIT,
  type OptionSpecs,
  UsageError,
} from './command.ts'
import type { Services } from './io.ts'
import { CONFIG_OPTION, isStoreAlone, lacksConfig, loadProjectConfig } from './store-access.ts'

/**
 * Finds the server that a command talks to, and sends requests to it. All client and operator commands use it.
 * Invariant: there is one rule for the address (`--url`, `COLLET_URL`, the config, a running server's start token,
 * the default), and no redirect is followed, so a credential reaches only that server.
 */

export const DEFAULT_URL = 'http://127.0.0.1:4100'

/** Options of client commands: the server and the credential. */
export const SERVER_OPTIONS = {
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address in the config.' },
  config: CONFIG_OPTION,
  key: {
    value: 'K',
    help: 'API key. Default: COLLET_API_KEY, which other users of this machine cannot see.',
  },
} as const satisfies OptionSpecs

type Fetchers = Pick<Services, 'fetch' | 'fetchKnown'>

export interface ServerAddress {
  /** Without a trailing slash. */
  readonly url: string
  /** Where the address was found, for messages: `--url`, `the address in collet.config.ts` … */
  readonly from: string
  /** The certificate in the config. It is known because commands use 127.0.0.1, which a certificate rarely names. */
  readonly certificate?: string
}

/**
 * Finds the server: `--url`, else `COLLET_URL`, else the address in the config, else the default. A server on a port
 * other than the configured one is found by its start token in the data folder.
 */
export async function findServer(
  serverArgs: Arguments<'url' | 'config'>,
  context: CommandContext,
): Promise<ServerAddress> {
  // In a command without `--store` that argument is always absent.
  const args: Arguments<'url' | 'config' | 'store'> = serverArgs
  const named = namedServer(args, context)
  if (named !== undefined && !isOwnHttps(named.url)) return named
  if (isStoreAlone(args)) {
    const { dataFolder } = locateStore(args.text('store') ?? '', context.workingFolder, '--store')
    return named ?? (await runningIn(dataFolder)) ?? BY_DEFAULT
  }
  if (lacksConfig(args, context)) return named ?? BY_DEFAULT
  const loaded = await loadProjectConfig(args.text('config'), context)
  const { tls } = tlsFiles(loaded.config.server.tls, loaded.folder)
  const server =
    named ?? (await configuredServer(loaded, originOf({ ...loaded.config.server, tls }), context))
  return { ...server, ...(await knownCertificate(tls)) }
}

/** The caller's key, if any; a server without credentials needs none. */
export function callerKey(args: Arguments<'key'>, { environment }: CommandContext): string | undefined {
  return args.text('key') ?? environment.apiKey?.reveal()
}

const BY_DEFAULT: ServerAddress = {
  url: DEFAULT_URL,
  from: 'the default address, because no other is known here',
}

function namedServer(args: Arguments<'url'>, { environment }: CommandContext): ServerAddress | undefined {
  const option = args.text('url')
  const [text, from] = option === undefined ? [environment.url, 'COLLET_URL'] : [option, '--url']
  if (text === undefined) return undefined
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new UsageError(
      `${from} expects an http or https address, for example ${DEFAULT_URL}; got "${text}".`,
    )
  return { url: url.href.replace(/\/+$/, ''), from }
}

/** A server with one of these hosts also listens on 127.0.0.1. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', 'localhost', '::1'])

/** Returns the origin of the server, without its port. */
function originOf({ host, tls }: Pick<Settings['server'], 'host' | 'tls'>): string {
  return `${tls === undefined ? 'http' : 'https'}://${ANY_HOST.has(host) ? '127.0.0.1' : host}`
}

async function configuredServer(
  { config, file, folder }: LoadedConfig,
  origin: string,
  { workingFolder, services }: CommandContext,
): Promise<ServerAddress> {
  const { port } = config.server
  const { dataFolder } = locateStore(config.store, folder, 'store')
  const ports = await runningPorts(dataFolder)
  const [other, ...more] = ports
  if (!ports.includes(port) && other !== undefined && more.length === 0) {
    const running = runningAt(origin, other)
    if (await isListening(running.url, services)) return running
  }
  if (port === 0) return BY_DEFAULT
  return { url: `${origin}:${port}`, from: `the address in ${relative(workingFolder, file)}` }
}

/** Whether a server listens; a start token alone may be from a killed server. Only a refused connection means no. */
export async function isListening(url: string, { fetch: ask }: Pick<Services, 'fetch'>): Promise<boolean> {
  try {
    await (await ask(`${url}/health`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })).body?.cancel()
    return true
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    return !(cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED')
  }
}

const PROBE_TIMEOUT_MS = 1_000

/** The address of the server on the configured port, if it also uses this data folder. */
export async function sameServer(
  { dataFolder, server }: Pick<Settings, 'dataFolder' | 'server'>,
  services: Fetchers,
): Promise<string | undefined> {
  const url = `${originOf(server)}:${server.port}`
  const address = { url, from: '', ...(await knownCertificate(server.tls)) }
  return (await takesTokenOf(dataFolder, address, services)) ? url : undefined
}

/** Whether the server accepts the start token in this data folder; the file alone may belong to a killed server. */
export async function takesTokenOf(
  dataFolder: string,
  server: ServerAddress,
  services: Fetchers,
): Promise<boolean> {
  try {
    const token = await readFile(startTokenFileIn(dataFolder, server.url), 'utf8')
    const response = await fetchFrom(server, services)(`${server.url}/admin/sources`, {
      headers: { authorization: `Bearer ${token.trim()}` },
      redirect: 'manual',
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    })
    await response.body?.cancel()
    return response.ok
  } catch {
    return false
  }
}

async function runningIn(dataFolder: string): Promise<ServerAddress | undefined> {
  const [port, ...more] = await runningPorts(dataFolder)
  return port === undefined || more.length > 0 ? undefined : runningAt('http://127.0.0.1', port)
}

function runningAt(origin: string, port: number): ServerAddress {
  return { url: `${origin}:${port}`, from: `the address of start-token-${port} in the data folder` }
}

/** Ports of servers with a start token in this data folder. */
async function runningPorts(dataFolder: string): Promise<readonly number[]> {
  const names = await readdir(dataFolder).catch((): string[] => [])
  return names.flatMap((name) => {
    const port = /^start-token-(\d{1,5})$/.exec(name)?.[1]
    return port === undefined ? [] : [Number(port)]
  })
}

async function knownCertificate(tls: Settings['server']['tls']): Promise<Pick<ServerAddress, 'certificate'>> {
  if (tls === undefined) return {}
  const { cert: file } = tls
  try {
    return { certificate: await readFile(file, 'latin1') }
  } catch (cause) {
    const why = cause instanceof Error && 'code' in cause ? READ_PROBLEMS.get(cause.code) : undefined
    throw new CommandFailure(
      EXIT.usage,
      `server.tls.cert: ${file} ${why ?? 'cannot be read'}. Commands recognize the server of this config by its certificate. Run this as a user who may read it, or ask the server by the name in its certificate: --url https://…`,
      { cause },
    )
  }
}

const READ_PROBLEMS: ReadonlyMap<unknown, string> = new Map([
  ['ENOENT', 'does not exist'],
  ['EACCES', 'may not be read by this user'],
  ['EISDIR', 'is a folder'],
])

function isOwnHttps(text: string): boolean {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' && isLoopback(hostname)
}

/**
 * Timeout of the CLI's own requests: longer than a server takes to read its config, so that the server's reason
 * arrives.
 */
const REQUEST_TIMEOUT_MS = READ_LIMIT_MS + 5_000

interface JsonRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly server: ServerAddress
  readonly path: string
  readonly credential: string | undefined
  readonly body?: JsonObject
  /** Called with the identity under which the server accepted the request. */
  readonly onIdentity?: (principal: string) => void
}

/** Sends one request and returns its JSON object; refusals become failures with the server's message. */
export async function requestJson(request: JsonRequest, services: Fetchers): Promise<JsonObject> {
  const response = await send(request, AbortSignal.timeout(REQUEST_TIMEOUT_MS), services)
  const answer = parseJson(await response.text())
  if (response.ok && isJsonObject(answer)) return answer
  throw refusalOf(response, answer, request.server)
}

/** Sends one request and yields the events of its answer, until `ended` is aborted or no event arrives in time. */
export async function* requestEvents(
  request: JsonRequest,
  services: Fetchers,
  ended: AbortSignal,
): AsyncGenerator<StreamEvent> {
  const wait = new IdleTimeout(REQUEST_TIMEOUT_MS, [ended])
  try {
    const response = await send(request, wait.signal, services)
    if (!response.ok || !EVENT_STREAM.test(response.headers.get('content-type') ?? ''))
      throw refusalOf(response, parseJson(await response.text()), request.server)
    yield* readEvents(response, MAX_EVENT_LENGTH, wait)
  } catch (error) {
    if (ended.aborted) return
    const reason = wait.reasonFor(error)
    if (reason === undefined) throw error
    throw new CommandFailure(EXIT.server, `${request.server.url} ${reason.message}.`, { cause: error })
  } finally {
    wait.end()
  }
}

/** Sends one request and yields the text of its answer. Throws if the answer breaks off or no text arrives in time. */
export async function* requestText(
  request: JsonRequest,
  services: Fetchers,
  ended: AbortSignal,
): AsyncGenerator<string> {
  const wait = new IdleTimeout(REQUEST_TIMEOUT_MS, [ended])
  try {
    const response = await send(request, wait.signal, services)
    if (!response.ok) throw refusalOf(response, parseJson(await response.text()), request.server)
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) {
      wait.refresh()
      yield decoder.decode(bytes, { stream: true })
    }
    yield decoder.decode()
  } catch (error) {
    const reason = wait.reasonFor(error)
    if (reason === undefined) throw error
    throw new CommandFailure(EXIT.server, `${request.server.url} ${reason.message}.`, { cause: error })
  } finally {
    wait.end()
  }
}

/** Maximum length of one event in characters; enough for several thousand calls. */
export const MAX_EVENT_LENGTH = 16 * 1_024 * 1_024

async function send(
  { method, server, path, credential, body, onIdentity }: JsonRequest,
  signal: AbortSignal,
  services: Fetchers,
): Promise<Response> {
  const response = await fetchFrom(server, services)(`${server.url}${path}`, {
    method,
    headers: defined({
      authorization: credential && `Bearer ${credential}`,
      'content-type': body && 'application/json',
    }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // A redirect would send the credential somewhere else.
    redirect: 'manual',
    signal,
  }).catch((cause: unknown) => {
    throw new CommandFailure(EXIT.server, unreachable(server, cause), { cause })
  })
  const identity = response.headers.get(ACTING_AS)
  if (identity !== null) onIdentity?.(decodeURIComponent(identity))
  return response
}

function refusalOf(
  { status }: Response,
  answer: JsonValue | undefined,
  { url, from }: ServerAddress,
): CommandFailure {
  return new CommandFailure(
    // A wrong request is a usage error; otherwise the server refuses or fails.
    status === 400 || status === 404 || status === 422 ? EXIT.usage : EXIT.server,
    isJsonObject(answer) && typeof answer.message === 'string'
      ? answer.message
      : `${url} (${from}) answered ${status}. Is it a Collet server?`,
  )
}

/** `fetch` for a server: if its certificate is known, only that certificate is accepted. */
export function fetchFrom({ certificate }: ServerAddress, services: Fetchers): typeof fetch {
  return certificate === undefined ? services.fetch : services.fetchKnown(certificate)
}

/** The message for a server that does not answer: the address, where it comes from, and the next step. */
export function unreachable(server: ServerAddress, cause: unknown): string {
  return `No answer from ${server.url} (${server.from}). ${connectionAdvice(cause) ?? NO_SERVER_THERE}`
}

export const NO_SERVER_THERE =
  'Is the server running? "collet serve" starts the server of this folder. A command asks the server at --url, else at COLLET_URL, else at the address in the config.'

const UNKNOWN_AUTHORITY =
  'Its certificate is from an authority that Node does not trust. Name the certificate file of that authority: NODE_EXTRA_CA_CERTS=ca.pem collet …'
const NO_TLS = 'The server does not use https on that port; write http:// if that is intended.'

const CONNECTION_ADVICE: ReadonlyMap<unknown, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_AUTHORITY],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_AUTHORITY],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'Its certificate is for another name. Use that name in --url.'],
  ['CERT_HAS_EXPIRED', 'Its certificate has expired. Renew it on the server: collet doctor.'],
  ['CERT_NOT_YET_VALID', 'Its certificate is not valid yet. Check the clocks of both machines.'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', NO_TLS],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', NO_TLS],
  [
    'UND_ERR_SOCKET',
    'The connection was closed without an answer. If the server uses https, write https:// in --url.',
  ],
])

/** The next step for a failed connection, if its cause suggests one. */
export function connectionAdvice(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const found = 'code' in error ? CONNECTION_ADVICE.get(error.code) : undefined
  return found ?? connectionAdvice(error.cause)
}
