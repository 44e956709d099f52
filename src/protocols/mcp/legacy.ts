import { randomBytes } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { isJsonObject } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { isJsonRpcId } from '#protocols/json-rpc'
import type { CallerRequest, CallerSession, ProtocolSessionStore } from '#store/ports/protocol-store'
import { capabilitiesFromJson, capabilitiesToJson } from './codec-message.ts'
import type { Methods } from './methods.ts'
import { type ClientCapabilities, isLegacyRevision, type LegacyRevision, type Message } from './wire.ts'

/** MCP-05, MCP-18: nothing is answered, and what we do not know is ignored. */
export function takeNotification(
  { underWay }: { readonly underWay: RequestsUnderWay },
  { tenant }: Principal,
  session: { readonly id: string },
  { method, params }: Message & { readonly kind: 'notification' },
): void {
  const requestId = isJsonObject(params) ? params.requestId : undefined
  if (method !== 'notifications/cancelled' || !isJsonRpcId(requestId)) return
  underWay.cancel({ tenant, session: session.id, requestId: JSON.stringify(requestId) })
}

/** The answer to a question of ours, whichever process asked it; an error is a no (MCP-79). */
export async function takeResponse(
  { methods }: { readonly methods: Methods },
  principal: Principal,
  { id, result }: Message & { readonly kind: 'response' },
): Promise<void> {
  if (typeof id !== 'string') return
  await methods.calls.questions.deliver(id, principal, isJsonObject(result) ? result : { action: 'cancel' })
}

/** How soon a cancellation that another process heard of is cached. */
const POLL_MS = 500

interface UnderWay {
  readonly isCancelled: boolean
  /** What to do when it is cancelled; asked at once when it is already. */
  onBegun(cancel: () => void): void
  /** Nobody can cancel it any more. Called beside the write of its outcome, this costs no commit of its own. */
  forget(): void
  end(): void
}

/** Requests that may be cancelled by their id, which only their session knows: the store carries it over (MCP-85, MCP/T-30). */
export class RequestsUnderWay {
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

  begin(request: CallerRequest): UnderWay {
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
    // Beside the call, in the same commit: nobody waits for it.
    this.#write(() => this.#callers.beginRequest(request, this.#clock.nowMs()))
    this.#timer ??= setInterval(() => void this.#look(), POLL_MS).unref()
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

  async #look(): Promise<void> {
    for (const { request, cancel } of [...this.#here.values()]) {
      try {
        if (await this.#callers.isCancelled(request)) cancel()
      } catch (err) {
        this.#log.warn({ err }, 'cannot see whether requests were cancelled')
      }
    }
  }

  #write(change: () => unknown): void {
    const write = async (): Promise<void> => {
      await change()
    }
    write().catch((err: unknown) => this.#log.warn({ err }, 'a request under way was not noted'))
  }
}

function requestKey({ tenant, session, requestId }: CallerRequest): string {
  return JSON.stringify([tenant, session, requestId])
}

const ID_BYTES = 24
/** How long an end in another process may go unseen (MCP-26). */
const CACHED_MS = 1_000
const TOUCH_MS = 300_000
/** Sessions of one principal at a time, as of openwop's; clients that never end theirs lose those they left. */
const MAX_PER_PRINCIPAL = 100
/** One that was used since is not taken from its client, which knows no way to begin anew (MCP-23). */
const LEFT_MS = 3 * TOUCH_MS
const MAX_CACHED = 10_000

/** A session of an older revision as requests use it. */
export interface LegacySession {
  readonly id: string
  readonly revision: LegacyRevision
  readonly capabilities: ClientCapabilities
}

interface CachedSession {
  readonly session: LegacySession
  readonly principal: string
  readonly untilMs: number
}

/** Sessions live in the store, so that any process serves any request (MCP §1.6); they never say who asks (MCP-94). */
export class LegacySessions {
  readonly #callers: ProtocolSessionStore
  readonly #clock: Clock
  readonly #cached = new Map<string, CachedSession>()

  constructor(callers: ProtocolSessionStore, clock: Clock) {
    this.#callers = callers
    this.#clock = clock
  }

  /** Throws when its principal has too many. */
  async open(
    principal: Principal,
    revision: LegacyRevision,
    capabilities: ClientCapabilities,
  ): Promise<LegacySession> {
    const id = randomBytes(ID_BYTES).toString('base64url')
    const nowMs = this.#clock.nowMs()
    const session = {
      tenant: principal.tenant,
      id,
      principal: principal.id,
      agreed: { revision, capabilities: capabilitiesToJson(capabilities) },
      touchedAtMs: nowMs,
    }
    const room = { most: MAX_PER_PRINCIPAL, idleBeforeMs: nowMs - LEFT_MS }
    if (await this.#callers.openSession(session, room)) return { id, revision, capabilities }
    throw fault(
      'rate_limited',
      `You have ${MAX_PER_PRINCIPAL} open MCP sessions, all in use. End one (DELETE with its Mcp-Session-Id), or leave one alone for ${LEFT_MS / 60_000} minutes.`,
      { retryAfterMs: TOUCH_MS, scope: 'key' },
    )
  }

  /** `undefined` for one that is unknown, has ended or belongs to another principal. */
  async find(principal: Principal, id: string): Promise<LegacySession | undefined> {
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
    if (this.#cached.size >= MAX_CACHED) this.#cached.clear()
    this.#cached.set(key, { session, principal: found.principal, untilMs: nowMs + CACHED_MS })
    return found.principal === principal.id ? session : undefined
  }

  async end(principal: Principal, id: string): Promise<boolean> {
    if ((await this.find(principal, id)) === undefined) return false
    this.#cached.delete(sessionKey(principal, id))
    return await this.#callers.endSession(principal.tenant, id)
  }
}

function sessionOf({ id, agreed }: CallerSession): LegacySession | undefined {
  const { revision, capabilities } = agreed
  if (!isLegacyRevision(revision)) return undefined
  return { id, revision, capabilities: capabilitiesFromJson(capabilities) }
}

function sessionKey({ tenant }: Principal, id: string): string {
  return JSON.stringify([tenant, id])
}
