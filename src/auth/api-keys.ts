import type { ApiKeySettings } from '#config/settings'
import { principalIdOf } from '#core/journal/append'
import { grantedScopes, makePrincipal, NO_ROLES, type Principal, type RoleTable } from '#core/principal'
import type { Clock } from '#core/runtime'
import { digestOfKey, isSame } from './key-text.ts'

interface KnownKey {
  readonly digest: string
  readonly principal: Principal
  readonly endsAtMs: number
}

/** The API keys of the configuration, looked up by digest. */
export class ApiKeys {
  readonly #byDigest: ReadonlyMap<string, KnownKey>
  readonly #clock: Pick<Clock, 'nowMs'>
  /**
   * Keys that have been good once, so never more than there are. Spares a digest per request and tells a guesser
   * nothing: a map compares texts only if their hashes, seeded at random, are equal.
   */
  readonly #verified = new Map<string, KnownKey>()

  constructor(
    settings: readonly ApiKeySettings[],
    clock: Pick<Clock, 'nowMs'> = { nowMs: Date.now },
    roles: RoleTable = NO_ROLES,
  ) {
    this.#clock = clock
    const known = new Map<string, KnownKey>()
    for (const entry of settings) {
      const { id, key, tenant, tools } = entry
      const digest = digestOfKey(key.reveal())
      if (known.has(digest)) {
        throw new Error(`auth.apiKeys: the key of "${id}" is used twice; give each entry a key of its own.`)
      }
      const scopes = grantedScopes(roles, { scopes: entry.scopes, roles: entry.roles ?? [] })
      const principal = makePrincipal({ id: principalIdOf(id), tenant, scopes, tools })
      known.set(digest, { digest, principal, endsAtMs: entry.expiresAtMs ?? Number.POSITIVE_INFINITY })
    }
    this.#byDigest = known
  }

  get size(): number {
    return this.#byDigest.size
  }

  /** Compared in constant time, so that timing tells nothing about a key (OTC-100). */
  find(presented: string): Principal | undefined {
    const verified = this.#verified.get(presented)
    if (verified !== undefined) return this.#whileGood(verified)
    const digest = digestOfKey(presented)
    const known = this.#byDigest.get(digest)
    if (known === undefined || !isSame(digest, known.digest)) return undefined
    this.#verified.set(presented, known)
    return this.#whileGood(known)
  }

  #whileGood({ principal, endsAtMs }: KnownKey): Principal | undefined {
    return endsAtMs === Number.POSITIVE_INFINITY || this.#clock.nowMs() < endsAtMs ? principal : undefined
  }
}
