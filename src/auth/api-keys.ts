import { hash, timingSafeEqual } from 'node:crypto'
import type { ApiKeySettings } from '#config/settings'
import type { Principal } from '#core/principal'

interface KnownKey {
  readonly digest: Buffer
  readonly principal: Principal
}

/** The API keys of a server, looked up by digest. */
export class ApiKeys {
  readonly #byDigest: ReadonlyMap<string, KnownKey>
  /**
   * Keys that have been good once, so never more than there are. Spares a digest per request and tells a guesser
   * nothing: a map compares texts only if their hashes, seeded at random, are equal.
   */
  readonly #verified = new Map<string, Principal>()

  constructor(settings: readonly ApiKeySettings[]) {
    const known = new Map<string, KnownKey>()
    for (const { id, key, tenant, scopes } of settings) {
      const digest = digestOf(key.reveal())
      if (known.has(digest)) {
        throw new Error(`auth.apiKeys: the key of "${id}" is used twice; give each entry a key of its own.`)
      }
      const principal = Object.freeze({ id: `key:${id}`, tenant, scopes: Object.freeze([...scopes]) })
      known.set(digest, { digest: Buffer.from(digest), principal })
    }
    this.#byDigest = known
  }

  get size(): number {
    return this.#byDigest.size
  }

  /** Compared in constant time, so that timing tells nothing about a key (OTC-100). */
  find(presented: string): Principal | undefined {
    const verified = this.#verified.get(presented)
    if (verified !== undefined) return verified
    const digest = digestOf(presented)
    const known = this.#byDigest.get(digest)
    if (known === undefined || !timingSafeEqual(Buffer.from(digest), known.digest)) return undefined
    this.#verified.set(presented, known.principal)
    return known.principal
  }
}

function digestOf(key: string): string {
  return hash('sha256', key)
}
