import { randomBytes } from 'node:crypto'
import type { CallerSession, CallerStore } from '#core/ports/caller-store'
import type { Clock } from '#core/ports/clock'
import type { Principal } from '#core/principal'
import { capabilitiesFromJson, capabilitiesToJson } from './codec-capabilities.ts'
import { type ClientCapabilities, isOldRevision, type OldRevision } from './wire.ts'

const ID_BYTES = 24
/** How long an end in another process may go unseen (MCP-26). */
const SEEN_MS = 1_000
const TOUCH_MS = 3_600_000
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

  async open(
    principal: Principal,
    revision: OldRevision,
    capabilities: ClientCapabilities,
  ): Promise<OldSession> {
    const id = randomBytes(ID_BYTES).toString('base64url')
    await this.#callers.openSession({
      tenant: principal.tenant,
      id,
      principal: principal.id,
      agreed: { revision, capabilities: capabilitiesToJson(capabilities) },
      touchedAtMs: this.#clock.nowMs(),
    })
    return { id, revision, capabilities }
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
