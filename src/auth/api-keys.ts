import { hash, randomBytes } from 'node:crypto'
import type { ApiKeySettings, JwtSettings } from '#config/settings'
import { isSameSecret } from '#core/hash'
import { principalIdOf } from '#core/journal/append'
import { grantedScopes, makePrincipal, NO_ROLES, type Principal, type RoleTable } from '#core/principal'
import type { Clock } from '#core/runtime'
import { Secret } from '#core/secret'

const FEWEST_CHARACTERS = 32
const FEWEST_DISTINCT = 12

/** What is configured to know callers by; nobody's principal or scopes matter here. */
export interface Credentials {
  readonly apiKeys: readonly Pick<ApiKeySettings, 'id' | 'key' | 'tools'>[]
  readonly jwt?: Pick<JwtSettings, 'secret'> | undefined
}

/**
 * One sentence for each credential that is easy to guess (OTC-103). A warning on loopback, a reason not to
 * start elsewhere. Never contains the credential.
 */
export function findWeakCredentials(auth: Credentials): readonly string[] {
  const weak: string[] = []
  for (const { id, key } of auth.apiKeys) {
    const reason = weaknessOf(key.reveal())
    if (reason !== undefined) weak.push(`The API key of "${id}" ${reason}. ${ADVICE}`)
  }
  const reason = auth.jwt === undefined ? undefined : weaknessOf(auth.jwt.secret.reveal())
  if (reason !== undefined) weak.push(`The JWT secret ${reason}. ${ADVICE}`)
  return weak
}

const ADVICE = 'Use 32 random bytes or more, for example the output of: openssl rand -base64 32'

function weaknessOf(text: string): string | undefined {
  const bytes = Buffer.byteLength(text)
  if (bytes < FEWEST_CHARACTERS) return `has only ${bytes} bytes`
  const distinct = new Set(text).size
  return distinct < FEWEST_DISTINCT ? `repeats itself: only ${distinct} different characters` : undefined
}

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
    if (known === undefined || !isSameSecret(digest, known.digest)) return undefined
    this.#verified.set(presented, known)
    return this.#whileGood(known)
  }

  #whileGood({ principal, endsAtMs }: KnownKey): Principal | undefined {
    return endsAtMs === Number.POSITIVE_INFINITY || this.#clock.nowMs() < endsAtMs ? principal : undefined
  }
}

export const KEY_PREFIX = 'clt_'
const RANDOM_ID_BYTES = 6
const TAG_CHARACTERS = 12
const SECRET_BYTES = 32
/** `clt_`, the public id, `_`, 32 random bytes. */
const KEY = /^clt_([0-9a-f]{24})_[A-Za-z0-9_-]{43}$/

/** A keyed digest that only the store's owner can compute. */
export type KeyedDigest = (text: string) => string

export interface MadeKey {
  readonly keyId: string
  readonly key: Secret
  /** What is stored instead of it. */
  readonly digest: string
}

/**
 * A new API key. Half of its public id is a keyed tag of the other half, so that a made-up id is refused without a look
 * into the store: a million wrong keys cost a million hashes and nothing else.
 */
export function makeKey(digest: KeyedDigest): MadeKey {
  const random = randomBytes(RANDOM_ID_BYTES).toString('hex')
  const keyId = random + tagOf(random, digest)
  const text = `${KEY_PREFIX}${keyId}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  return { keyId, key: new Secret(text), digest: digestOfKey(text) }
}

/** The public id inside a key of ours; `undefined` for any other text, and for an id that we never made. */
export function readKeyId(presented: string, digest: KeyedDigest): string | undefined {
  const keyId = KEY.exec(presented)?.[1]
  if (keyId === undefined) return undefined
  const random = keyId.slice(0, -TAG_CHARACTERS)
  return isSameSecret(keyId.slice(-TAG_CHARACTERS), tagOf(random, digest)) ? keyId : undefined
}

/** SHA-256 is enough for 256 random bits: nobody can try them all, so a slow hash would only slow us. */
export function digestOfKey(key: string): string {
  return hash('sha256', key)
}

/** Hexadecimal, so that an id never begins with "-" on a command line. */
function tagOf(random: string, digest: KeyedDigest): string {
  return hash('sha256', digest(`api key ${random}`)).slice(0, TAG_CHARACTERS)
}
