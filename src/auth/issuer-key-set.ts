import type { IssuerAlgorithm } from '#config/settings'
import { fault, type ToolError } from '#core/errors'
import type { Clock, Logger } from '#core/runtime'
import { fetchJson } from './fetch-json.ts'
import { type IssuerKey, readKeySet } from './issuer-keys.ts'

/** Keys are asked for again when they are this old … */
const FRESH_MS = 10 * 60_000
/** … and used up to this age while the issuer does not answer. */
const LONGEST_STALE_MS = 4 * 3_600_000
/** At most one request in this time, whatever `kid`s are presented … */
const PAUSE_MS = 30_000
/** … and after one that failed, so that an outage ends soon after its cause. */
const PAUSE_AFTER_FAILURE_MS = 5_000

export interface IssuerKeySetOptions {
  readonly issuer: string
  readonly jwksUri: string | undefined
  readonly algorithms: readonly IssuerAlgorithm[]
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

/** The signing keys of one issuer: found by discovery, kept, refreshed, rotated. */
export class IssuerKeySet {
  readonly #options: IssuerKeySetOptions
  #keys: readonly IssuerKey[] | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  #askAgainAtMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(options: IssuerKeySetOptions) {
    this.#options = options
  }

  /**
   * The keys that may have signed a token with this header. An unknown `kid` may be a new key, so it asks the issuer
   * once more; a known one never waits for it.
   */
  async candidates(kid: string | undefined, algorithm: string): Promise<readonly IssuerKey[]> {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#keys === undefined || ageMs > LONGEST_STALE_MS) await this.#ask()
    else if (ageMs > FRESH_MS) void this.#ask()
    const known = this.#matching(kid, algorithm)
    if (known.length > 0) return known
    await this.#ask()
    return this.#matching(kid, algorithm)
  }

  #matching(kid: string | undefined, algorithm: string): readonly IssuerKey[] {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#keys === undefined || ageMs > LONGEST_STALE_MS) throw this.#unavailable()
    return this.#keys.filter(
      (key) => (kid === undefined || key.kid === kid) && key.algorithms.some((name) => name === algorithm),
    )
  }

  /** One request at a time, and one per pause. Never throws: what it could not get shows in the keys. */
  #ask(): Promise<void> {
    if (this.#asking !== undefined) return this.#asking
    const nowMs = this.#options.clock.monotonicMs()
    if (nowMs < this.#askAgainAtMs) return Promise.resolve()
    this.#askAgainAtMs = nowMs + PAUSE_MS
    this.#asking = this.#read(nowMs).finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #read(sentAtMs: number): Promise<void> {
    const { issuer, fetch: send, algorithms, log } = this.#options
    try {
      const uri = this.#options.jwksUri ?? (await this.#discover())
      const keys = readKeySet(await fetchJson(uri, send), algorithms)
      if (keys.length === 0) throw new Error('the key set has no key that can be used')
      this.#keys = keys
      this.#readAtMs = sentAtMs
    } catch (err) {
      this.#askAgainAtMs = sentAtMs + PAUSE_AFTER_FAILURE_MS
      log.warn(
        { err, issuer },
        'the keys of a token issuer could not be read; known ones are used for a while',
      )
    }
  }

  /** OpenID Connect Discovery §4. The document must be the issuer's own, or another's keys could be slipped in. */
  async #discover(): Promise<string> {
    const { issuer, fetch: send } = this.#options
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await fetchJson(url, send)
    if (document.issuer !== issuer) throw new Error(`${url} is the document of another issuer`)
    const uri = typeof document.jwks_uri === 'string' ? URL.parse(document.jwks_uri) : null
    // An issuer that is asked over TLS must not send us to keys in the clear.
    if (uri === null || (uri.protocol !== 'https:' && uri.protocol !== new URL(issuer).protocol))
      throw new Error(`${url} names no usable jwks_uri`)
    return uri.href
  }

  #unavailable(): ToolError {
    return fault('not_ready', 'Tokens of this issuer cannot be checked right now. Try again shortly.', {
      retryAfterMs: PAUSE_AFTER_FAILURE_MS,
    })
  }
}
