import { createHmac, randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { PriorDiscovery } from '@modelcontextprotocol/client'
import type { Clock } from '#kernel/base/clock'
import { isToolError, type ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { ToolContext } from '#kernel/tool/tool'
import { shownAddress } from '#sources/common/options'
import type { SourceHealth, SourceServices } from '#sources/kit/source'
import { pinnedCommand } from '#sources/kit/source-facts'
import { Completions } from './call-tool.ts'
import type { Connection } from './connection.ts'
import { isRefusal, reasonOf, unreachable } from './errors.ts'
import type { Credentials } from './invoke.ts'
import { type ConnectionSetting, openConnection } from './open-connection.ts'
import type { McpOptions } from './options.ts'
import { ALL_PROCESSES, ConnectionPool, type Lease, type ProcessLimit } from './pool.ts'

/** The connection that belongs to nobody: tools are listed on it, and calls of all where nothing is kept. */
const COMMON = 'common'
/** No key of a principal begins so: those are JSON. */
const SESSION = 'session '
/** A server believed to be old is asked again after this long. */
const VERDICT_MS = 24 * 3_600_000
/** News right after the handshake are about it (MCP/T-25). */
const SETTLING_MS = 1000
const NO_CREDENTIALS: Credentials = { headers: {}, fingerprint: '' }

interface UpstreamOptions {
  /** Of the source. */
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  readonly processes?: ProcessLimit
  onChange(): void
}

/** Supervises one upstream: who talks over which connection, and what is known about its health and its era. */
export class Upstream {
  readonly completions = new Completions()
  readonly #setting: ConnectionSetting
  readonly #pool: ConnectionPool
  readonly #backoff: Backoff
  readonly #onChange: () => void
  #verdict: { readonly prior: PriorDiscovery; readonly atMs: number } | undefined
  #health: SourceHealth = { state: 'starting' }
  #restart: NodeJS.Timeout | undefined
  #isClosed = false

  constructor({ key, endpoint, options, services, processes = ALL_PROCESSES, onChange }: UpstreamOptions) {
    this.#onChange = onChange
    this.#backoff = new Backoff(services.clock)
    this.#pool = new ConnectionPool({
      maxConnections: options.maxConnections,
      idleMs: options.idleMs,
      connectTimeoutMs: options.connectTimeoutMs,
      clock: services.clock,
      backoff: this.#backoff,
      processes: endpoint.transport === 'stdio' ? processes : undefined,
      isKept: (name, connection) => name === COMMON && this.#listens(connection),
    })
    this.#setting = {
      key,
      endpoint,
      options,
      services,
      manners: { asks: false },
      onToolsChanged: (connection) => this.#toolsChanged(connection),
      onElicitationComplete: (id) => this.completions.complete(id),
      onLost: (connection, why) => this.#lost(connection, why),
    }
  }

  get health(): SourceHealth {
    return this.#health
  }

  /** Connections, with those that are being made or ended. */
  get connections(): number {
    return this.#pool.size
  }

  /** For listing; also while the upstream is left alone, because its callers keep a schedule of their own. */
  common(signal: AbortSignal): Promise<Lease> {
    return this.#lease(COMMON, NO_CREDENTIALS, signal, true)
  }

  /** The connection that a call goes over: one's own, unless the upstream keeps nothing (§7.3). */
  async leaseFor(context: ToolContext, credentials: Credentials): Promise<Lease> {
    const { signal } = context
    const own = ownKey(context, credentials)
    const isShared = this.#isShared
    // What is common to all never knows the credentials of one; there each request brings its own.
    if (isShared === true) return await this.#lease(COMMON, NO_CREDENTIALS, signal)
    if (isShared === false || credentials.fingerprint !== '')
      return await this.#lease(own, credentials, signal)
    const common = await this.#lease(COMMON, NO_CREDENTIALS, signal)
    if (this.#isShared === true) return common
    common.release()
    return await this.#lease(own, credentials, signal)
  }

  /** A connection for one session alone. */
  leaseSession(sessionId: string, credentials: Credentials, signal: AbortSignal): Promise<Lease> {
    return this.#lease(`${SESSION}${sessionId}`, credentials, signal)
  }

  /** A call came back: whatever was wrong before, it works. */
  worked(): void {
    if (this.#backoff.failures > 0) this.#backoff.succeeded()
    if (this.#health.state !== 'ready') this.#health = { state: 'ready' }
  }

  /** The connection was refused: the next call starts from nothing, those that are on it may end. */
  refused(connection: Connection): void {
    if (connection.isModern) this.#verdict = undefined
    this.#pool.retire(connection)
  }

  /** Nobody will use it again. */
  retire(connection: Connection): void {
    this.#pool.retire(connection)
  }

  listed(): void {
    if (this.#health.state !== 'ready') this.#health = { state: 'ready' }
  }

  /** An upstream that cannot say what it offers is down, whatever became of connections before. */
  unlisted({ developerMessage, message }: ToolError): void {
    if (this.#health.state !== 'down') this.#health = { state: 'down', reason: developerMessage ?? message }
  }

  /** What is offered is not what was accepted any more. */
  outdated(): void {
    this.#onChange()
  }

  /** A program offers something else than the one that was listed: the next listing starts it anew. */
  changed(): void {
    this.#pool.retireAll((key) => key === COMMON)
    this.#onChange()
  }

  /** Whatever lives may be of another day. Sessions keep what they stand on. */
  renew(): void {
    this.#verdict = undefined
    this.#pool.retireAll((key) => !key.startsWith(SESSION))
  }

  troubled(error: unknown): void {
    if (!isToolError(error) || !error.canRetry || this.#health.state === 'down') return
    // A call that finds the connection gone knows less than the moment in which it was lost.
    const known = this.#health.state === 'degraded' ? this.#health.reason : undefined
    this.#health = { state: 'degraded', reason: error.developerMessage ?? known ?? error.message }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#restart)
    await this.#pool.close()
  }

  get #isShared(): boolean | undefined {
    const { options, endpoint } = this.#setting
    if (options.connection !== undefined) return options.connection === 'shared'
    if (endpoint.transport === 'stdio') return false
    return this.#prior === undefined ? undefined : this.#prior.kind === 'modern'
  }

  get #prior(): PriorDiscovery | undefined {
    if (this.#verdict === undefined) return undefined
    const isOld = this.#setting.services.clock.monotonicMs() - this.#verdict.atMs > VERDICT_MS
    return isOld && this.#verdict.prior.kind === 'legacy' ? undefined : this.#verdict.prior
  }

  #lease(key: string, credentials: Credentials, signal: AbortSignal, insists = false): Promise<Lease> {
    const open = (deadline: AbortSignal) => this.#open(credentials, deadline)
    return this.#pool.lease({ key, signal, insists, open })
  }

  async #open({ headers }: Credentials, signal: AbortSignal): Promise<Connection> {
    try {
      const request = { prior: this.#prior, credentials: headers, signal }
      const connection = await openConnection(this.#setting, request)
      this.#learn(connection)
      this.#health = { state: 'ready' }
      return connection
    } catch (error) {
      const isRefused = isRefusal(error)
      const reason = isRefused
        ? `The MCP server refused the credential: HTTP ${error.status}`
        : `The MCP server does not answer: ${reasonOf(error)}`
      // A stale verdict about its era could be the cause.
      this.#verdict = undefined
      if (!isRefused && !this.#isClosed) this.#backoff.failed()
      if (!isRefused || this.#health.state === 'starting') this.#health = { state: 'down', reason }
      if (isRefused) throw error
      const { waitMs } = this.#backoff
      // The call that wanted the connection was not sent, whatever became of the handshake.
      throw isToolError(error) && error.code !== 'upstream_failed'
        ? error
        : unreachable({ developerMessage: reason, cause: error, retryAfterMs: waitMs })
    }
  }

  #learn(connection: Connection): void {
    const discover = connection.client.getDiscoverResult()
    const prior: PriorDiscovery =
      connection.isModern && discover !== undefined ? { kind: 'modern', discover } : { kind: 'legacy' }
    if (this.#prior?.kind !== prior.kind)
      this.#verdict = { prior, atMs: this.#setting.services.clock.monotonicMs() }
  }

  #listens(connection: Connection): boolean {
    const isHttp = this.#setting.endpoint.transport === 'http'
    return isHttp && connection.client.getServerCapabilities()?.tools?.listChanged === true
  }

  #toolsChanged(connection: Connection): void {
    connection.news += 1
    const ageMs = this.#setting.services.clock.monotonicMs() - connection.openedMs
    if (ageMs >= SETTLING_MS || connection.hasListed) this.#onChange()
  }

  #lost(connection: Connection, why: string | undefined): void {
    const livedMs = this.#setting.services.clock.monotonicMs() - connection.openedMs
    this.#backoff.died(livedMs)
    this.#health = {
      state: 'degraded',
      reason: `The connection to the MCP server was lost${why === undefined ? '' : `: ${why}`}`,
    }
    this.#setting.services.log.warn({ reason: this.#health.reason }, 'An MCP server went away')
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

/** Where the upstream is. */
export type Endpoint =
  | { readonly transport: 'http'; readonly url: string }
  | {
      readonly transport: 'stdio'
      readonly command: string
      readonly args: readonly string[]
      readonly cwd: string
      /** Keyed; stands for the arguments in pins. */
      digest(text: string): string
    }

export function endpointOf(
  { command, args, cwd, url }: McpOptions,
  { folder, digest = processDigest }: Pick<SourceServices, 'folder' | 'digest'>,
): Endpoint {
  if (command !== undefined) {
    const startedIn = cwd === undefined ? folder : resolve(folder, cwd)
    return { transport: 'stdio', command, args, cwd: startedIn, digest }
  }
  if (url === undefined) throw new TypeError('the options of an MCP source name a command or a URL')
  return { transport: 'http', url: new URL(url).href }
}

/** Stands in for the digest of a store where nothing is kept, so two processes never have the same one. */
const PROCESS_KEY = randomBytes(32)

function processDigest(text: string): string {
  return createHmac('sha256', PROCESS_KEY).update(text).digest('base64url')
}

/**
 * The part of an endpoint that a pin holds (rule 32): not the folder, which differs between machines, no argument of a
 * program and no value of a query.
 */
export function endpointJson(endpoint: Endpoint): JsonObject {
  if (endpoint.transport === 'http') return { transport: 'http', url: shownAddress(endpoint.url) }
  return pinnedCommand(endpoint.command, endpoint.args, endpoint.digest)
}

/** Whether an accepted definition was offered by the upstream that is configured now. */
export function isAt(binding: JsonObject, endpoint: Endpoint): boolean {
  const { endpoint: accepted } = binding
  return JSON.stringify(sorted(accepted)) === JSON.stringify(sorted(endpointJson(endpoint)))
}

/** A store may give members back in another order. */
function sorted(value: JsonValue | undefined): JsonValue {
  if (!isJsonObject(value)) return value ?? null
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
}

const FIRST_MS = 500
const MAX_MS = 60_000
/** What lived this long is not one of a series. */
const STEADY_MS = 30_000

/** How long an upstream that fails is left alone: longer each time, up to a minute. */
export class Backoff {
  readonly #clock: Clock
  #failures = 0
  #untilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What is left of the pause; 0 when it may be tried. */
  get waitMs(): number {
    return Math.max(0, Math.ceil(this.#untilMs - this.#clock.monotonicMs()))
  }

  get failures(): number {
    return this.#failures
  }

  failed(): void {
    const pauseMs = Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(this.#failures, 16))
    this.#failures += 1
    this.#untilMs = this.#clock.monotonicMs() + pauseMs
  }

  /** A connection is gone without being closed by us; one that had just been made counts as a failure. */
  died(livedMs: number): void {
    if (livedMs < STEADY_MS) this.failed()
    else this.succeeded()
  }

  /** It works: the next failure is a first one. */
  succeeded(): void {
    this.#failures = 0
    this.#untilMs = 0
  }
}
