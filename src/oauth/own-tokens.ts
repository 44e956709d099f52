import { hash } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import type { Secret } from '#kernel/base/secret'
import type { Obtained } from './client.ts'

/**
 * Tokens that this server obtains for itself, and refusals of tokens by the servers behind tools. The broker has one `OwnTokens` for
 * each provider without consent, and one `Refusals`. Both are only in memory, because after a restart tokens are requested again and
 * servers refuse bad tokens again.
 * Invariant: a token is used for one owner only, and requested once for all of the owner's waiting calls.
 */

const EXPIRY_SKEW_MS = 60_000
/** For a short-lived token the skew is at most this part of its lifetime. */
const EXPIRY_SKEW_PART = 0.25
/** Assumed lifetime of a token without an expiry. */
const UNKNOWN_LIFETIME_MS = 300_000
/** For this time calls get the last failure, so that they do not flood the provider. */
const FAILURE_MS = 5_000
const MAX_ENTRIES = 10_000

interface Kept {
  readonly answer: Promise<Obtained>
  readonly token: string
  untilMs: number
}

export class OwnTokens {
  readonly #obtain: (scopes: readonly string[]) => Promise<Obtained>
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()

  constructor(obtain: (scopes: readonly string[]) => Promise<Obtained>, clock: Clock) {
    this.#obtain = obtain
    this.#clock = clock
  }

  find(owner: string, scopes: readonly string[]): Promise<Obtained> {
    const name = JSON.stringify([owner, [...scopes].sort()])
    const known = this.#kept.get(name)
    if (known !== undefined && this.#clock.nowMs() < known.untilMs) return known.answer
    const answer = this.#obtain(scopes)
    this.#keep(name, { answer, token: '', untilMs: Number.POSITIVE_INFINITY })
    answer.then((obtained) => this.#keep(name, this.#settled(obtained, answer)))
    return answer
  }

  /** Forgets a token that its server refused. */
  drop(token: Secret): void {
    const digest = digestOf(token)
    for (const [name, kept] of this.#kept) if (kept.token === digest) this.#kept.delete(name)
  }

  #settled(obtained: Obtained, answer: Promise<Obtained>): Kept {
    const nowMs = this.#clock.nowMs()
    if (obtained.kind !== 'tokens') return { answer, token: '', untilMs: nowMs + FAILURE_MS }
    const { expiresAtMs = nowMs + UNKNOWN_LIFETIME_MS, accessToken } = obtained.tokens
    const skewMs = Math.min(EXPIRY_SKEW_MS, (expiresAtMs - nowMs) * EXPIRY_SKEW_PART)
    return { answer, token: digestOf(accessToken), untilMs: expiresAtMs - skewMs }
  }

  #keep(name: string, kept: Kept): void {
    this.#kept.delete(name)
    this.#kept.set(name, kept)
    dropOldest(this.#kept)
  }
}

export class Refusals {
  /** Missing scopes by provider and tool. */
  readonly #scopes = new Map<string, ReadonlySet<string>>()
  /** Digests of rejected tokens. */
  readonly #rejected = new Map<string, true>()

  scopesFor(provider: string, tool: string): readonly string[] {
    return [...(this.#scopes.get(JSON.stringify([provider, tool])) ?? [])]
  }

  /**
   * Adds these scopes to every later token request for this tool. Returns false if they were already added: then the refused token had
   * them, and another token would not help. This prevents endless consents for a server that always refuses (MCP-160).
   */
  noteScopes(provider: string, tool: string, scopes: readonly string[]): boolean {
    const name = JSON.stringify([provider, tool])
    const known = this.#scopes.get(name) ?? new Set<string>()
    if (scopes.every((scope) => known.has(scope))) return false
    this.#scopes.set(name, new Set([...known, ...scopes]))
    dropOldest(this.#scopes)
    return true
  }

  reject(token: Secret): void {
    this.#rejected.set(digestOf(token), true)
    dropOldest(this.#rejected)
  }

  isRejected(token: Secret): boolean {
    return this.#rejected.size > 0 && this.#rejected.has(digestOf(token))
  }
}

/** Digests are enough, because these tokens are only compared. */
function digestOf(token: Secret): string {
  return hash('sha256', token.reveal(), 'base64url')
}

function dropOldest(map: Map<string, unknown>): void {
  if (map.size <= MAX_ENTRIES) return
  const [oldest] = map.keys()
  if (oldest !== undefined) map.delete(oldest)
}
