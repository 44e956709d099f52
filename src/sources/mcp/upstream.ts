import { createHmac, randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { canonicalJson, isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ToolContext } from '#kernel/tool/tool'
import { addressWithoutValues } from '#sources/common/options'
import type { SourceHealth, SourceServices, UpstreamList } from '#sources/kit/source'
import { pinnedCommand } from '#sources/kit/source-facts'
import type { McpConnection } from './connection.ts'
import { readToken } from './credentials.ts'
import { Completions } from './elicitation.ts'
import { errorText, isCredentialRefusal, unreachable } from './errors.ts'
import { type ConnectionSetting, type Era, openConnection } from './handshake.ts'
import type { McpOptions } from './options.ts'
import { ALL_PROCESSES, Backoff, ConnectionPool, type Lease, type ProcessLimit } from './pool.ts'
import { listenForChanges, type Subscriber, Subscriptions } from './subscriptions.ts'
import type { Credentials } from './transport.ts'

/**
 * The state of one MCP server for its source: its endpoint, the connection that each call uses, its health and its protocol era.
 * Discovery, calls and subscriptions use it.
 * Invariant: a connection that belongs to one caller's credentials is never used for another caller (§7.3).
 */

/** Key of the connection that lists tools. If the server keeps no state per connection, all calls use it too. */
const COMMON = 'common'
/** Prefix of the keys of sessions. Keys of principals are JSON, so none begins with it. */
const SESSION = 'session '
/** After this time, a server of the legacy era is probed again. */
const ERA_MS = 24 * 3_600_000
/** Changes reported within this time of the handshake only announce the initial list (MCP/T-25). */
const SETTLING_MS = 1000
const NO_CREDENTIALS: Credentials = { headers: {}, fingerprint: '' }

interface UpstreamOptions {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  readonly processes?: ProcessLimit
  /** `lists`: the lists that changed, if they are known. */
  onChange(lists?: readonly UpstreamList[]): void
}

export class Upstream {
  readonly completions = new Completions()
  readonly subscriptions: Subscriptions
  readonly #setting: ConnectionSetting
  readonly #pool: ConnectionPool
  readonly #backoff: Backoff
  readonly #onChange: (lists?: readonly UpstreamList[]) => void
  #knownEra: { readonly era: Era; readonly atMs: number } | undefined
  #health: SourceHealth = { state: 'starting' }
  #restart: NodeJS.Timeout | undefined
  #isClosed = false
  /** The credentials of the last listing. */
  #listing: Credentials = NO_CREDENTIALS
  #listingToken: Secret | undefined

  constructor({ key, endpoint, options, services, processes = ALL_PROCESSES, onChange }: UpstreamOptions) {
    this.#onChange = onChange
    this.subscriptions = new Subscriptions({
      log: services.log,
      lease: (subscriber, signal) => this.#leaseSubscription(subscriber, signal),
      onStale: (connection) => this.refused(connection),
    })
    this.#backoff = new Backoff(services.clock)
    this.#pool = new ConnectionPool({
      maxConnections: options.maxConnections,
      idleMs: options.idleMs,
      connectTimeoutMs: options.connectTimeoutMs,
      clock: services.clock,
      backoff: this.#backoff,
      processes: endpoint.transport === 'stdio' ? processes : undefined,
      isKept: (name, connection) =>
        name === COMMON && endpoint.transport === 'http' && connection.changingLists.length > 0,
    })
    this.#setting = {
      key,
      endpoint,
      options,
      services,
      traits: { asks: false },
      onListChanged: (connection, list) => this.#listChanged(connection, list),
      onElicitationComplete: (id) => this.completions.complete(id),
      onResourceUpdated: (connection, uri) => this.subscriptions.updated(connection, uri),
      onLost: (connection, why) => this.#lost(connection, why),
    }
  }

  get health(): SourceHealth {
    return this.#health
  }

  /** The connection for listing. It ignores the pause after failures, because discovery has its own schedule. */
  async common(signal: AbortSignal): Promise<Lease> {
    const credentials = await this.#listingCredentials()
    // After a token was renewed, the connection with the old one ends when its calls have ended.
    if (credentials.fingerprint !== this.#listing.fingerprint) this.#retireAll((key) => key === COMMON)
    this.#listing = credentials
    return await this.#lease(COMMON, credentials, signal, true)
  }

  /** The connection for a call: the caller's own, unless the server keeps no state per connection (§7.3). */
  leaseFor(context: ToolContext, credentials: Credentials): MaybePromise<Lease> {
    const { signal } = context
    const isShared = this.#isShared
    // The common connection has the credentials for listing; each call sends its own.
    if (isShared === true) return this.#lease(COMMON, this.#listing, signal)
    if (isShared === false || credentials.fingerprint !== '')
      return this.#lease(ownKey(context, credentials), credentials, signal)
    return this.#leaseFirst(context, credentials)
  }

  /** The connection for a subscription. Over HTTP all callers without credentials share one. */
  #leaseSubscription({ context, credentials }: Subscriber, signal: AbortSignal): MaybePromise<Lease> {
    if (this.#setting.endpoint.transport === 'stdio' || credentials.fingerprint !== '')
      return this.#lease(ownKey(context, credentials), credentials, signal)
    return this.#lease(COMMON, this.#listing, signal)
  }

  /** Opens the first connection, which shows whether the server keeps state per connection. */
  async #leaseFirst(context: ToolContext, credentials: Credentials): Promise<Lease> {
    const { signal } = context
    const common = await this.#lease(COMMON, this.#listing, signal)
    if (this.#isShared === true) return common
    common.release()
    return await this.#lease(ownKey(context, credentials), credentials, signal)
  }

  /** A connection that only one session uses. */
  leaseSession(sessionId: string, credentials: Credentials, signal: AbortSignal): MaybePromise<Lease> {
    return this.#lease(`${SESSION}${sessionId}`, credentials, signal)
  }

  succeeded(): void {
    if (this.#backoff.failures > 0) this.#backoff.succeeded()
    if (this.#health.state !== 'ready') this.#health = { state: 'ready' }
  }

  /** The server refused a connection. The next call opens another one; running calls may finish. */
  refused(connection: McpConnection): void {
    if (connection.isModern) this.#knownEra = undefined
    this.#pool.retire(connection)
    this.subscriptions.moveFrom(connection)
  }

  retire(connection: McpConnection): void {
    this.#pool.retire(connection)
  }

  listed(): void {
    if (this.#health.state !== 'ready') this.#health = { state: 'ready' }
  }

  /** A server that cannot list its tools is down, whatever the state of its connections. */
  unlisted({ developerMessage, message }: ToolError): void {
    if (this.#health.state !== 'down') this.#health = { state: 'down', reason: developerMessage ?? message }
  }

  /** The server refused the token for listing, so the next listing gets a renewed one. */
  listingRefused(): void {
    const { options, services } = this.#setting
    const { authorization } = options
    if (authorization === undefined || this.#listingToken === undefined) return
    const { provider } = authorization
    services.tokenRefused?.({ provider, tool: undefined, token: this.#listingToken, scopes: [] })
  }

  /** The server no longer has an accepted definition, or changes of these lists may have been missed. */
  outdated(lists?: readonly UpstreamList[]): void {
    this.#onChange(lists)
  }

  /** A program offers tools other than those it listed before, so the next listing starts a new process. */
  changed(): void {
    this.#retireAll((key) => key === COMMON)
    this.#onChange()
  }

  /** Drops connections and the known era; sessions keep their connections. */
  renew(): void {
    this.#knownEra = undefined
    this.#retireAll((key) => !key.startsWith(SESSION))
  }

  /** A failed call makes the health at most `degraded`; the loss of a connection is reported separately. */
  failed(error: ToolError): void {
    if (!error.canRetry || this.#health.state === 'down') return
    const known = this.#health.state === 'degraded' ? this.#health.reason : undefined
    this.#health = { state: 'degraded', reason: error.developerMessage ?? known ?? error.message }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.subscriptions.close()
    clearTimeout(this.#restart)
    await this.#pool.close()
  }

  #retireAll(isSelected: (key: string) => boolean): void {
    this.#pool.retireAll(isSelected)
    this.subscriptions.moveFrom()
  }

  async #listingCredentials(): Promise<Credentials> {
    const { options, services } = this.#setting
    const { authorization } = options
    if (authorization?.provider === undefined) return NO_CREDENTIALS
    const { provider, scopes, listAs } = authorization
    const token = await services.listingToken?.({ provider, scopes, as: listAs })
    this.#listingToken = token
    return token === undefined ? NO_CREDENTIALS : readToken(token)
  }

  get #isShared(): boolean | undefined {
    const { options, endpoint } = this.#setting
    if (options.connection !== undefined) return options.connection === 'shared'
    if (endpoint.transport === 'stdio') return false
    return this.#era === undefined ? undefined : this.#era.kind === 'modern'
  }

  get #era(): Era | undefined {
    if (this.#knownEra === undefined) return undefined
    const { era, atMs } = this.#knownEra
    const isOld = this.#setting.services.clock.monotonicMs() - atMs > ERA_MS
    return isOld && era.kind === 'legacy' ? undefined : era
  }

  #lease(
    key: string,
    credentials: Credentials,
    signal: AbortSignal,
    ignoresBackoff = false,
  ): MaybePromise<Lease> {
    const open = async (deadline: AbortSignal): Promise<McpConnection> => {
      const connection = await this.#open(credentials, deadline)
      this.#listen(key, connection)
      return connection
    }
    return this.#pool.lease({ key, signal, ignoresBackoff, open })
  }

  /** A program reports the changes that its own callers make; over HTTP the server reports them to every connection. */
  #listen(key: string, connection: McpConnection): void {
    if (!connection.isModern || connection.changingLists.length === 0) return
    if (key !== COMMON && this.#setting.endpoint.transport === 'http') return
    const onMissed = (): void => this.outdated(connection.changingLists)
    void listenForChanges(connection, { log: this.#setting.services.log, onMissed })
  }

  async #open(credentials: Credentials, signal: AbortSignal): Promise<McpConnection> {
    try {
      const request = { era: this.#era, credentials, signal }
      const { connection, era } = await openConnection(this.#setting, request)
      if (this.#era?.kind !== era.kind)
        this.#knownEra = { era, atMs: this.#setting.services.clock.monotonicMs() }
      this.#health = { state: 'ready' }
      return connection
    } catch (error) {
      const isRefused = isCredentialRefusal(error)
      const reason = isRefused
        ? `The MCP server refused the credential: HTTP ${error.details.status}`
        : `The MCP server does not answer: ${errorText(error)}`
      // An outdated era could be the cause.
      this.#knownEra = undefined
      if (!isRefused && !this.#isClosed) this.#backoff.failed()
      if (!isRefused || this.#health.state === 'starting') this.#health = { state: 'down', reason }
      if (isRefused) throw error
      const { waitMs } = this.#backoff
      // The call that needed the connection was not sent.
      throw isToolError(error) && error.code !== 'upstream_failed'
        ? error
        : unreachable({ developerMessage: reason, cause: error, retryAfterMs: waitMs })
    }
  }

  #listChanged(connection: McpConnection, list: UpstreamList): void {
    connection.listChanges += 1
    const ageMs = this.#setting.services.clock.monotonicMs() - connection.openedMs
    if (ageMs >= SETTLING_MS || connection.hasListed) this.#onChange([list])
  }

  #lost(connection: McpConnection, why: string | undefined): void {
    const livedMs = this.#setting.services.clock.monotonicMs() - connection.openedMs
    this.#backoff.died(livedMs)
    this.#health = {
      state: 'degraded',
      reason: `The connection to the MCP server was lost${why === undefined ? '' : `: ${why}`}`,
    }
    this.#setting.services.log.warn(
      { reason: this.#health.reason },
      'the connection to an MCP server was lost',
    )
    const key = this.#pool.lost(connection)
    if (key !== COMMON || this.#isClosed) return
    clearTimeout(this.#restart)
    this.#restart = setTimeout(() => this.#onChange(), this.#backoff.waitMs)
    this.#restart.unref()
  }
}

function ownKey({ principal, userId, claimedUserId }: ToolContext, { fingerprint }: Credentials): string {
  return JSON.stringify([principal.tenant, principal.id, userId ?? null, claimedUserId ?? null, fingerprint])
}

/** The address or command of the server. `pinned` is the part that pins contain (rule 32). */
export type Endpoint =
  | { readonly transport: 'http'; readonly url: string; readonly pinned: JsonObject }
  | {
      readonly transport: 'stdio'
      readonly command: string
      readonly args: readonly string[]
      readonly cwd: string
      readonly pinned: JsonObject
    }

/**
 * Pins contain neither the folder, which differs between machines, nor a program's arguments or the values of a query, which
 * may be secrets.
 */
export function endpointOf(
  { command, args, cwd, url }: McpOptions,
  { folder, digest = processDigest }: Pick<SourceServices, 'folder' | 'digest'>,
): Endpoint {
  if (command !== undefined) {
    const startedIn = cwd === undefined ? folder : resolve(folder, cwd)
    const pinned = pinnedCommand(command, args, digest)
    return { transport: 'stdio', command, args, cwd: startedIn, pinned }
  }
  if (url === undefined) throw new TypeError('the options of an MCP source must have a command or a URL')
  const { href } = new URL(url)
  return { transport: 'http', url: href, pinned: { transport: 'http', url: addressWithoutValues(href) } }
}

/** Default key of digests. It is different in each process, because without a store no digest outlives the process. */
const PROCESS_KEY = randomBytes(32)

function processDigest(text: string): string {
  return createHmac('sha256', PROCESS_KEY).update(text).digest('base64url')
}

/** True if the accepted definition came from the server that is configured now. */
export function isAt({ endpoint }: JsonObject, { pinned }: Endpoint): boolean {
  return isJsonObject(endpoint) && canonicalJson(endpoint) === canonicalJson(pinned)
}

/** The connection of one session, which its first call opens (openwop §7.3). */
export class SessionConnection {
  readonly #sessionId: string
  readonly #upstream: Upstream
  #leasing: MaybePromise<Lease> | undefined
  #lease: Lease | undefined
  #isClosed = false

  constructor(sessionId: string, upstream: Upstream) {
    this.#sessionId = sessionId
    this.#upstream = upstream
  }

  /** The session's connection. Throws if it was lost, because the server's state of the session is lost with it. */
  async connect(credentials: Credentials, signal: AbortSignal): Promise<McpConnection> {
    if (this.#lease === undefined) {
      this.#leasing ??= this.#upstream.leaseSession(this.#sessionId, credentials, signal)
      try {
        this.#lease = await this.#leasing
      } finally {
        this.#leasing = undefined
      }
    }
    if (this.#isClosed) this.#end()
    const { connection } = this.#lease
    if (!connection.isOpen) throw sessionLost()
    return connection
  }

  close(): void {
    this.#isClosed = true
    this.#end()
  }

  #end(): void {
    if (this.#lease === undefined) return
    const { connection, release } = this.#lease
    release()
    this.#upstream.retire(connection)
  }
}

export function sessionLost(): ToolError {
  return fault(
    'session_lost',
    'The connection to the MCP server that had the state of this session is lost; open a new session.',
  )
}
