import { randomBytes } from 'node:crypto'
import { fault } from '#core/errors'
import type { CallerSession, CallerStore } from '#core/ports/protocol-store'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import { capabilitiesFromJson, capabilitiesToJson } from './codec-capabilities.ts'
import { type ClientCapabilities, isOldRevision, type OldRevision } from './wire.ts'

const ID_BYTES = 24
/** How long an end in another process may go unseen (MCP-26). */
const SEEN_MS = 1_000
const TOUCH_MS = 300_000
/** Sessions of one principal at a time, as of openwop's; clients that never end theirs lose those they left. */
const MOST_PER_PRINCIPAL = 100
/** One that was used since is not taken from its client, which knows no way to begin anew (MCP-23). */
const LEFT_MS = 3 * TOUCH_MS
const MOST_SEEN = 10_000

/** A session of an older revision as requests use it. */
export interface OldSession {
  readonly id: string
  readonly revision: OldRevision
  readonly capabilities: ClientCapabilities
}

interface Seen {
  readonly session: OldSession
  readonly principal: string
  readonly untilMs: number
}

/** Sessions live in the store, so that any process serves any request (§1.6); they never say who asks (MCP-94). */
export class OldSessions {
  readonly #callers: CallerStore
  readonly #clock: Clock
  readonly #seen = new Map<string, Seen>()

  constructor(callers: CallerStore, clock: Clock) {
    this.#callers = callers
    this.#clock = clock
  }

  /** Throws when its principal has too many. */
  async open(
    principal: Principal,
    revision: OldRevision,
    capabilities: ClientCapabilities,
  ): Promise<OldSession> {
    const id = randomBytes(ID_BYTES).toString('base64url')
    const nowMs = this.#clock.nowMs()
    const session = {
      tenant: principal.tenant,
      id,
      principal: principal.id,
      agreed: { revision, capabilities: capabilitiesToJson(capabilities) },
      touchedAtMs: nowMs,
    }
    const room = { most: MOST_PER_PRINCIPAL, idleBeforeMs: nowMs - LEFT_MS }
    if (await this.#callers.openSession(session, room)) return { id, revision, capabilities }
    throw fault(
      'rate_limited',
      `You have ${MOST_PER_PRINCIPAL} open MCP sessions, all in use. End one (DELETE with its Mcp-Session-Id), or leave one alone for ${LEFT_MS / 60_000} minutes.`,
      { retryAfterMs: TOUCH_MS, scope: 'key' },
    )
  }

  /** `undefined` for one that is unknown, has ended or is somebody else's. */
  async find(principal: Principal, id: string): Promise<OldSession | undefined> {
    const key = keyOf(principal, id)
    const seen = this.#seen.get(key)
    const nowMs = this.#clock.nowMs()
    if (seen !== undefined && seen.untilMs > nowMs)
      return seen.principal === principal.id ? seen.session : undefined
    this.#seen.delete(key)
    const found = await this.#callers.findSession(principal.tenant, id)
    const session = found === undefined ? undefined : sessionOf(found)
    if (found === undefined || session === undefined) return undefined
    if (nowMs - found.touchedAtMs > TOUCH_MS) await this.#callers.touchSession(principal.tenant, id, nowMs)
    if (this.#seen.size >= MOST_SEEN) this.#seen.clear()
    this.#seen.set(key, { session, principal: found.principal, untilMs: nowMs + SEEN_MS })
    return found.principal === principal.id ? session : undefined
  }

  async end(principal: Principal, id: string): Promise<boolean> {
    if ((await this.find(principal, id)) === undefined) return false
    this.#seen.delete(keyOf(principal, id))
    return await this.#callers.endSession(principal.tenant, id)
  }
}

function sessionOf({ id, agreed }: CallerSession): OldSession | undefined {
  const { revision, capabilities } = agreed
  if (!isOldRevision(revision)) return undefined
  return { id, revision, capabilities: capabilitiesFromJson(capabilities) }
}

function keyOf({ tenant }: Principal, id: string): string {
  return JSON.stringify([tenant, id])
}
