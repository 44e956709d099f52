import { randomBytes } from 'node:crypto'
import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { MessageLevel } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import {
  capabilitiesFromJson,
  capabilitiesToJson,
  isMessageLevel,
  readCapabilities,
} from '#protocols/mcp/codec-message'
import {
  type ClientCapabilities,
  isLegacyRevision,
  type LegacyRevision,
  NEWEST_LEGACY_REVISION,
  type WireError,
} from '#protocols/mcp/wire'
import type { CallerRequest, CallerSession, ProtocolSessionStore } from '#store/protocol-state'

/*
 * Sessions of revisions 2025-06-18 and 2025-11-25, and the requests in them that can be cancelled by id.
 * `revision-2025/http.ts` uses both; stdio uses `readInitialize` and keeps its one session in memory.
 * Invariant: sessions and running requests are in the store, so any process serves any request (MCP §1.6).
 */

type ReadInitialize =
  | { readonly ok: true; readonly revision: LegacyRevision; readonly capabilities: ClientCapabilities }
  | { readonly ok: false; readonly error: WireError }

/** Chooses the requested revision if it is served, otherwise the newest one with sessions (MCP-22, MCP/T-8, MCP/T-29). */
export function readInitialize(params: JsonValue | undefined): ReadInitialize {
  if (!isJsonObject(params) || typeof params.protocolVersion !== 'string') {
    const message = 'initialize needs params.protocolVersion, params.capabilities and params.clientInfo.'
    return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const asked = params.protocolVersion
  const revision = isLegacyRevision(asked) ? asked : NEWEST_LEGACY_REVISION
  return { ok: true, revision, capabilities: readCapabilities(params.capabilities, revision) }
}

/** How often the store is read for cancellations that another process received. */
const POLL_MS = 500

interface RunningRequest {
  readonly isCancelled: boolean
  /** Sets the function that cancels the call; it runs at once if the request was cancelled before. */
  onBegun(cancel: () => void): void
  /** From now on the request cannot be cancelled. Called together with the write of the outcome, so both share one commit. */
  forget(): void
  end(): void
}

/** Running requests by session and id. A cancellation reaches the process that runs one through the store (MCP-85, MCP/T-30). */
export class RunningRequests {
  readonly #callers: ProtocolSessionStore
  readonly #clock: Clock
  readonly #log: Logger
  readonly #here = new Map<string, { request: CallerRequest; cancel: () => void }>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: {
    readonly callers: ProtocolSessionStore
    readonly clock: Clock
    readonly log: Logger
  }) {
    this.#callers = options.callers
    this.#clock = options.clock
    this.#log = options.log
  }

  begin(request: CallerRequest): RunningRequest {
    const key = requestKey(request)
    let isCancelled = false
    let stop: (() => void) | undefined
    const entry = {
      request,
      cancel: () => {
        isCancelled = true
        stop?.()
      },
    }
    this.#here.set(key, entry)
    // Not awaited: the write shares the commit of the call.
    this.#write(() => this.#callers.beginRequest(request, this.#clock.nowMs()))
    this.#timer ??= setInterval(() => void this.#pollCancellations(), POLL_MS).unref()
    let isForgotten = false
    const forget = (): void => {
      if (!isForgotten) this.#write(() => this.#callers.endRequest(request))
      isForgotten = true
    }
    return {
      get isCancelled() {
        return isCancelled
      },
      onBegun: (cancel) => {
        stop = cancel
        if (isCancelled) cancel()
      },
      forget,
      end: () => {
        if (this.#here.get(key) === entry) this.#here.delete(key)
        forget()
        if (this.#here.size === 0) this.close()
      },
    }
  }

  /** Unknown and finished requests are ignored. */
  cancel(request: CallerRequest): void {
    const here = this.#here.get(requestKey(request))
    if (here !== undefined) here.cancel()
    else this.#write(() => this.#callers.cancelRequest(request))
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #pollCancellations(): Promise<void> {
    for (const { request, cancel } of [...this.#here.values()]) {
      try {
        if (await this.#callers.isCancelled(request)) cancel()
      } catch (err) {
        this.#log.warn({ err }, 'cannot read cancellations of MCP requests')
      }
    }
  }

  #write(change: () => unknown): void {
    const write = async (): Promise<void> => {
      await change()
    }
    write().catch((err: unknown) => this.#log.warn({ err }, 'cannot record a running MCP request'))
  }
}

function requestKey({ tenant, session, requestId }: CallerRequest): string {
  return JSON.stringify([tenant, session, requestId])
}

const ID_BYTES = 24
/** How long the end of a session in another process may go unnoticed (MCP-26). */
const CACHED_MS = 1_000
const TOUCH_MS = 300_000
/** Open sessions of one principal. A new session beyond the limit replaces the one that was unused longest. */
const MAX_PER_PRINCIPAL = 100
/** A session that was used within this time is not replaced, because some clients cannot recover from a lost one (MCP-23). */
const IDLE_MS = 3 * TOUCH_MS
const MAX_CACHED = 10_000

export interface ClientSession {
  readonly id: string
  readonly revision: LegacyRevision
  readonly capabilities: ClientCapabilities
  /** Absent if the client named none. */
  readonly logLevel: MessageLevel | undefined
}

interface CachedSession {
  readonly session: ClientSession
  readonly principal: string
  readonly untilMs: number
}

/** A session groups requests; it never authenticates them (MCP-94). */
export class ClientSessions {
  readonly #callers: ProtocolSessionStore
  readonly #clock: Clock
  readonly #cached = new BoundedMap<string, CachedSession>({ entries: MAX_CACHED })

  constructor(callers: ProtocolSessionStore, clock: Clock) {
    this.#callers = callers
    this.#clock = clock
  }

  /** Throws if the principal has too many sessions in use. */
  async open(
    principal: Principal,
    revision: LegacyRevision,
    capabilities: ClientCapabilities,
  ): Promise<ClientSession> {
    const id = randomBytes(ID_BYTES).toString('base64url')
    const nowMs = this.#clock.nowMs()
    const session = {
      tenant: principal.tenant,
      id,
      principal: principal.id,
      agreed: { revision, capabilities: capabilitiesToJson(capabilities) },
      touchedAtMs: nowMs,
    }
    const room = { max: MAX_PER_PRINCIPAL, idleBeforeMs: nowMs - IDLE_MS }
    if (await this.#callers.openSession(session, room))
      return { id, revision, capabilities, logLevel: undefined }
    throw fault(
      'rate_limited',
      `You have ${MAX_PER_PRINCIPAL} open MCP sessions, all in use. End one (DELETE with its Mcp-Session-Id), or leave one unused for ${IDLE_MS / 60_000} minutes.`,
      { retryAfterMs: TOUCH_MS, scope: 'key' },
    )
  }

  /** `undefined` for a session that is unknown, has ended or belongs to another principal. */
  async find(principal: Principal, id: string): Promise<ClientSession | undefined> {
    const key = sessionKey(principal, id)
    const cached = this.#cached.get(key)
    const nowMs = this.#clock.nowMs()
    if (cached !== undefined && cached.untilMs > nowMs)
      return cached.principal === principal.id ? cached.session : undefined
    this.#cached.delete(key)
    const found = await this.#callers.findSession(principal.tenant, id)
    const session = found === undefined ? undefined : sessionOf(found)
    if (found === undefined || session === undefined) return undefined
    if (nowMs - found.touchedAtMs > TOUCH_MS) await this.#callers.touchSession(principal.tenant, id, nowMs)
    this.#cached.set(key, { session, principal: found.principal, untilMs: nowMs + CACHED_MS })
    return found.principal === principal.id ? session : undefined
  }

  /** Requests of the session in other processes use the new level within a second. */
  async setLogLevel(principal: Principal, session: ClientSession, logLevel: MessageLevel): Promise<void> {
    const { id, revision, capabilities } = session
    const agreed = { revision, capabilities: capabilitiesToJson(capabilities), logLevel }
    await this.#callers.setAgreed(principal.tenant, id, agreed)
    this.#cached.delete(sessionKey(principal, id))
  }

  async end(principal: Principal, id: string): Promise<boolean> {
    if ((await this.find(principal, id)) === undefined) return false
    this.#cached.delete(sessionKey(principal, id))
    return await this.#callers.endSession(principal.tenant, id)
  }
}

function sessionOf({ id, agreed }: CallerSession): ClientSession | undefined {
  const { revision, capabilities } = agreed
  if (!isLegacyRevision(revision)) return undefined
  const { logLevel } = agreed
  return {
    ...{ id, revision, capabilities: capabilitiesFromJson(capabilities) },
    logLevel: isMessageLevel(logLevel) ? logLevel : undefined,
  }
}

function sessionKey({ tenant }: Principal, id: string): string {
  return JSON.stringify([tenant, id])
}
