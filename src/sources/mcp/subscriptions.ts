import { setTimeout as pause } from 'node:timers/promises'
import type { JsonObject } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { type MaybePromise, untilAborted } from '#kernel/base/waiting'
import type { ToolContext } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { isWireArray, isWireObject, type McpConnection } from './connection.ts'
import { isStale, RpcError } from './errors.ts'
import type { Lease } from './pool.ts'
import { CALL_BOUNDS, type Credentials } from './transport.ts'

/**
 * Subscriptions to resources of one MCP server, and to changes of its lists. A caller watches an address and subscribes with a
 * call. The subscription keeps a connection in use, is renewed after the connection is lost, and ends with its last watcher
 * (MCP-195). `upstream.ts` owns it.
 * Invariant: a subscription with credentials serves only the principal that has them.
 */

/** The caller that subscribes, and its credentials. */
export interface Subscriber {
  readonly context: ToolContext
  readonly credentials: Credentials
  /** True if all principals use the same subscription. */
  readonly isShared: boolean
}

interface Watcher {
  readonly principal: Principal
  onUpdated(uri: string): void
}

interface OpenSubscription {
  readonly uri: string
  /** `undefined` if all principals share it. */
  readonly principal: Principal | undefined
  readonly stopped: AbortController
  /** Settles when the server has granted or refused it. */
  readonly granted: PromiseWithResolvers<void>
  connection: McpConnection | undefined
  /** Aborted when the subscription has to move to another connection. */
  moving: AbortController
  done: Promise<void>
}

interface SubscriptionsOptions {
  readonly log: Logger
  lease(subscriber: Subscriber, signal: AbortSignal): MaybePromise<Lease>
  /** Called when the server no longer knows the connection. */
  onStale(connection: McpConnection): void
}

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 60_000
const GRANT_MS = 20_000
const UNSUBSCRIBE_MS = 5_000
const PING_MS = 30_000

export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #open = new Map<string, OpenSubscription>()

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  watch(uri: string, principal: Principal, onUpdated: (uri: string) => void): () => void {
    const watchers = this.#watchers.get(uri) ?? new Set<Watcher>()
    this.#watchers.set(uri, watchers)
    const watcher = { principal, onUpdated }
    watchers.add(watcher)
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0) this.#watchers.delete(uri)
      this.#endUnwatched(uri)
    }
  }

  /** Resolves when the server has granted the subscription. */
  async subscribe(uri: string, subscriber: Subscriber): Promise<void> {
    const { context, credentials, isShared } = subscriber
    const { principal } = context
    const owner = isShared ? [] : [principal.tenant, principal.id, credentials.fingerprint]
    const key = JSON.stringify([uri, ...owner])
    const open = this.#open.get(key) ?? this.#begin(key, uri, subscriber)
    await untilAborted(open.granted.promise, context.signal)
    this.#endUnwatched(uri)
  }

  /** Called when the server reports a change of a resource or of a part of it. */
  updated(connection: McpConnection, changed: string): void {
    for (const open of this.#open.values())
      if (open.connection === connection && isPartOf(changed, open.uri)) this.#report(open, changed)
  }

  /** Moves the subscriptions of a retired connection to another one. Without an argument, all subscriptions move. */
  moveFrom(connection?: McpConnection): void {
    for (const open of this.#open.values())
      if (connection === undefined || open.connection === connection) open.moving.abort()
  }

  async close(): Promise<void> {
    const all = [...this.#open.values()]
    for (const { stopped } of all) stopped.abort()
    await Promise.all(all.map(({ done }) => done))
  }

  #begin(key: string, uri: string, subscriber: Subscriber): OpenSubscription {
    const open: OpenSubscription = {
      uri,
      principal: subscriber.isShared ? undefined : subscriber.context.principal,
      stopped: new AbortController(),
      granted: Promise.withResolvers<void>(),
      connection: undefined,
      moving: new AbortController(),
      done: Promise.resolve(),
    }
    open.granted.promise.catch(() => undefined)
    this.#open.set(key, open)
    open.done = this.#keepOpen(open, subscriber).finally(() => {
      if (this.#open.get(key) === open) this.#open.delete(key)
    })
    return open
  }

  async #keepOpen(open: OpenSubscription, subscriber: Subscriber): Promise<void> {
    const { signal } = open.stopped
    let wasGranted = false
    let pauseMs = FIRST_PAUSE_MS
    const onGranted = (): void => {
      // Changes while the connection was lost were not reported, so this counts as one.
      if (wasGranted) this.#report(open, open.uri)
      wasGranted = true
      pauseMs = FIRST_PAUSE_MS
      open.granted.resolve()
    }
    while (!signal.aborted) {
      try {
        await this.#holdOnce(open, subscriber, onGranted)
      } catch (error) {
        open.granted.reject(error)
        if (!wasGranted) return
        this.#options.log.debug({ err: error }, 'lost a subscription to a resource of an MCP server')
      }
      pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)
      await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
    open.granted.reject(signal.reason)
  }

  /** Resolves when the connection or the subscription has ended. */
  async #holdOnce(open: OpenSubscription, subscriber: Subscriber, onGranted: () => void): Promise<void> {
    const { signal } = open.stopped
    const { connection, release } = await this.#options.lease(subscriber, signal)
    open.connection = connection
    open.moving = new AbortController()
    try {
      const { resources } = connection.server.capabilities
      if (!isWireObject(resources) || resources.subscribe !== true)
        throw new RpcError(JSON_RPC_CODES.unknownMethod, 'The server does not report changes of resources')
      const { credentials } = subscriber
      if (connection.isModern) await listen(connection, open, { credentials, onGranted })
      else await followInSession(connection, open, { credentials, onGranted })
    } catch (error) {
      // For example, a restarted server does not know the session.
      if (isStale(error, connection)) this.#options.onStale(connection)
      throw error
    } finally {
      open.connection = undefined
      release()
    }
  }

  #report({ uri, principal }: OpenSubscription, changed: string): void {
    for (const watcher of this.#watchersOf(uri, principal)) watcher.onUpdated(changed)
  }

  #endUnwatched(uri: string): void {
    for (const open of this.#open.values())
      if (open.uri === uri && this.#watchersOf(uri, open.principal).length === 0) open.stopped.abort()
  }

  #watchersOf(uri: string, principal: Principal | undefined): readonly Watcher[] {
    const watchers = [...(this.#watchers.get(uri) ?? [])]
    if (principal === undefined) return watchers
    return watchers.filter(
      (watcher) => watcher.principal.tenant === principal.tenant && watcher.principal.id === principal.id,
    )
  }
}

interface FollowOptions {
  readonly credentials: Credentials
  onGranted(): void
}

/** In 2026-07-28 a subscription is a stream that stays open. */
async function listen(
  connection: McpConnection,
  { uri, stopped, moving }: OpenSubscription,
  { credentials, onGranted }: FollowOptions,
): Promise<void> {
  const refused = new AbortController()
  const timer = setTimeout(() => refused.abort(new Error('not acknowledged')), GRANT_MS)
  const onAcknowledged = (params: JsonObject): void => {
    clearTimeout(timer)
    const { resourceSubscriptions: granted } = isWireObject(params.notifications) ? params.notifications : {}
    if (isWireArray(granted) && granted.includes(uri)) onGranted()
    else refused.abort(new RpcError(JSON_RPC_CODES.badParams, `Unknown resource: ${uri}`))
  }
  const ended = AbortSignal.any([stopped.signal, moving.signal])
  const signal = AbortSignal.any([ended, refused.signal])
  const notifications = { resourceSubscriptions: [uri] }
  try {
    // On stdio these bounds also apply to the answers of concurrent calls.
    const options = { signal, credentials, bounds: CALL_BOUNDS, onAcknowledged }
    await connection.request('subscriptions/listen', { notifications }, options)
  } catch (error) {
    if (!ended.aborted) throw error
  } finally {
    clearTimeout(timer)
  }
}

/** In 2025-11-25 and earlier the session of the connection stays subscribed until it ends. */
async function followInSession(
  connection: McpConnection,
  { uri, stopped, moving }: OpenSubscription,
  { credentials, onGranted }: FollowOptions,
): Promise<void> {
  const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(GRANT_MS)])
  await connection.request('resources/subscribe', { uri }, { signal, credentials })
  onGranted()
  const over = AbortSignal.any([stopped.signal, moving.signal, connection.ended])
  for (;;) {
    await pause(PING_MS, undefined, { signal: over, ref: false }).catch(() => undefined)
    if (over.aborted) break
    // Over HTTP only a request shows that the server still knows the session.
    const ping = { signal: AbortSignal.any([over, AbortSignal.timeout(GRANT_MS)]), credentials }
    await connection.request('ping', {}, ping).catch((error: unknown) => {
      if (!over.aborted && !(error instanceof RpcError)) throw error
    })
  }
  if (!connection.isOpen) return
  const late = AbortSignal.timeout(UNSUBSCRIBE_MS)
  await connection
    .request('resources/unsubscribe', { uri }, { signal: late, credentials })
    .catch(() => undefined)
}

/** In 2026-07-28 changes are reported only on a subscription stream (MCP-47), which is opened again whenever it ends. */
export async function listenForChanges(
  connection: McpConnection,
  { log, onMissed }: { readonly log: Logger; onMissed(): void },
): Promise<void> {
  const { changingLists, ended } = connection
  const notifications = Object.fromEntries(changingLists.map((list) => [`${list}ListChanged`, true]))
  let pauseMs = FIRST_PAUSE_MS
  let wasOpen = false
  while (connection.isOpen) {
    const unacknowledged = new AbortController()
    const timer = setTimeout(() => unacknowledged.abort(new Error('not acknowledged')), GRANT_MS)
    const onAcknowledged = (): void => {
      clearTimeout(timer)
      pauseMs = FIRST_PAUSE_MS
      // Changes between two streams were not reported.
      if (wasOpen) onMissed()
      wasOpen = true
    }
    pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)
    const signal = AbortSignal.any([ended, unacknowledged.signal])
    // On stdio these bounds also apply to the answers of concurrent calls.
    const options = { signal, bounds: CALL_BOUNDS, onAcknowledged }
    await connection
      .request('subscriptions/listen', { notifications }, options)
      .catch((err: unknown) => log.debug({ err }, 'The subscription to the MCP server ended'))
    clearTimeout(timer)
    await pause(pauseMs, undefined, { signal: ended, ref: false }).catch(() => undefined)
  }
}

function isPartOf(changed: string, uri: string): boolean {
  return changed === uri || changed.startsWith(uri.endsWith('/') ? uri : `${uri}/`)
}
