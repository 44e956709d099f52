import { hash, timingSafeEqual } from 'node:crypto'
import type { ApiKeySettings } from '#config/settings'
import type { Principal } from '#core/principal'

interface KnownKey {
  readonly digest: Buffer
  readonly principal: Principal
}

/** The API keys of a server, held as digests: the texts are not kept. */
export class ApiKeys {
  readonly #byDigest: ReadonlyMap<string, KnownKey>

  constructor(settings: readonly ApiKeySettings[]) {
    const known = new Map<string, KnownKey>()
    for (const { id, key, tenant, scopes } of settings) {
      const digest = digestOf(key.reveal())
      if (known.has(digest)) {
        throw new Error(`auth.apiKeys: the key of "${id}" is used twice; give each entry a key of its own.`)
      }
      const principal: Principal = Object.freeze({
        id: `key:${id}`,
        tenant,
        scopes: Object.freeze([...scopes]),
      })
      known.set(digest, { digest: Buffer.from(digest), principal })
    }
    this.#byDigest = known
  }

  get size(): number {
    return this.#byDigest.size
  }

  /** Found by digest and compared in constant time, so that timing tells nothing about a key (OTC-100). */
  find(presented: string): Principal | undefined {
    const digest = digestOf(presented)
    const known = this.#byDigest.get(digest)
    return known !== undefined && timingSafeEqual(Buffer.from(digest), known.digest)
      ? known.principal
      : undefined
  }
}

function digestOf(key: string): string {
  return hash('sha256', key)
}
