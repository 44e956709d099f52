import { hash, randomBytes } from 'node:crypto'
import type { ApiKeySettings, JwtSettings } from '#config/settings'
import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { isSameSecret } from '#kernel/base/hash'
import type { Logger } from '#kernel/base/logger'
import {
  granted,
  makePrincipal,
  NO_ROLES,
  type Principal,
  principalIdOf,
  type RoleTable,
} from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { KeyOwner, KeyRecord, KeyStore, StoredKey } from '#store/keys'

/**
 * API keys: their format and strength, the keys in the configuration (`ApiKeys`) and the keys in the store (`StoredKeys`). The
 * authenticator uses both; the commands and routes for keys use the rest.
 * Invariant: only digests of keys are stored, and a revoked key is refused within a second (rule 26).
 */

const MIN_CHARACTERS = 32
const MIN_DISTINCT = 12

export interface Credentials {
  readonly apiKeys: readonly Pick<ApiKeySettings, 'id' | 'key' | 'tools'>[]
  readonly jwt?: Pick<JwtSettings, 'secret'> | undefined
}

/**
 * One sentence for each credential that is easy to guess (OTC-103): a warning on loopback, a reason not to start elsewhere.
 * It never contains the credential.
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
  if (bytes < MIN_CHARACTERS) return `has only ${bytes} bytes`
  const distinct = new Set(text).size
  return distinct < MIN_DISTINCT ? `repeats itself: only ${distinct} different characters` : undefined
}

interface KnownKey {
  readonly digest: string
  readonly principal: Principal
  readonly endsAtMs: number
}

export class ApiKeys {
  readonly #byDigest: ReadonlyMap<string, KnownKey>
  readonly #clock: Pick<Clock, 'nowMs'>
  /**
   * Keys that have been verified. The map saves a digest per request and reveals no timing to a guesser: it compares texts only if
   * their hashes, seeded at random, are equal.
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
        throw new Error(`auth.apiKeys: the key of "${id}" is used twice; give each entry its own key.`)
      }
      const grants = granted(roles, { scopes: entry.scopes, roles: entry.roles ?? [] })
      const principal = makePrincipal({ id: principalIdOf(id), tenant, tools, ...grants })
      known.set(digest, { digest, principal, endsAtMs: entry.expiresAtMs ?? Number.POSITIVE_INFINITY })
    }
    this.#byDigest = known
  }

  get size(): number {
    return this.#byDigest.size
  }

  /** Compares in constant time, so that timing reveals nothing about a key (OTC-100). */
  find(presented: string): Principal | undefined {
    const verified = this.#verified.get(presented)
    if (verified !== undefined) return this.#unlessExpired(verified)
    const digest = digestOfKey(presented)
    const known = this.#byDigest.get(digest)
    if (known === undefined || !isSameSecret(digest, known.digest)) return undefined
    this.#verified.set(presented, known)
    return this.#unlessExpired(known)
  }

  /** The principal of this name, if one of its keys is valid. */
  findNamed({ tenant, name }: KeyOwner): Principal | undefined {
    const id = principalIdOf(name)
    for (const known of this.#byDigest.values()) {
      const { principal } = known
      if (principal.id === id && principal.tenant === tenant && this.#unlessExpired(known) !== undefined)
        return principal
    }
    return undefined
  }

  #unlessExpired({ principal, endsAtMs }: KnownKey): Principal | undefined {
    return endsAtMs === Number.POSITIVE_INFINITY || this.#clock.nowMs() < endsAtMs ? principal : undefined
  }
}

export const KEY_PREFIX = 'clt_'
const RANDOM_ID_BYTES = 6
const TAG_CHARACTERS = 12
const SECRET_BYTES = 32
const KEY = /^clt_([0-9a-f]{24})_[A-Za-z0-9_-]{43}$/

/** True for a text in the format of the keys that `collet keys create` makes. */
export function isKeyShaped(text: string): boolean {
  return KEY.test(text)
}

/** The store's keyed digest. */
type KeyedDigest = (text: string) => string

export interface MadeKey {
  readonly keyId: string
  readonly key: Secret
  /** Stored instead of the key. */
  readonly digest: string
}

/**
 * Half of the public id is a keyed tag of the other half, so that an invented id is refused without reading the store: a
 * wrong key costs one hash.
 */
export function makeKey(digest: KeyedDigest): MadeKey {
  const random = randomBytes(RANDOM_ID_BYTES).toString('hex')
  const keyId = random + tagOf(random, digest)
  const text = `${KEY_PREFIX}${keyId}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  return { keyId, key: new Secret(text), digest: digestOfKey(text) }
}

/** `undefined` for any text that is not a key of this store. */
export function readKeyId(presented: string, digest: KeyedDigest): string | undefined {
  const keyId = KEY.exec(presented)?.[1]
  if (keyId === undefined) return undefined
  const random = keyId.slice(0, -TAG_CHARACTERS)
  return isSameSecret(keyId.slice(-TAG_CHARACTERS), tagOf(random, digest)) ? keyId : undefined
}

/** SHA-256 is enough for 256 random bits, which cannot be guessed: a slow hash would add nothing. */
export function digestOfKey(key: string): string {
  return hash('sha256', key)
}

/** Hexadecimal, so that an id never begins with "-" on a command line. */
function tagOf(random: string, digest: KeyedDigest): string {
  return hash('sha256', digest(`api key ${random}`)).slice(0, TAG_CHARACTERS)
}

const MAX_VERIFIED = 10_000
const MAX_LOOKED_UP = 10_000
/** How often the times of last use are written, in one batch and not during calls. */
const WRITE_USES_MS = 60_000

interface VerifiedKey extends Omit<KnownKey, 'digest'> {
  readonly keyId: string
}

interface StoredKeysOptions {
  readonly keys: KeyStore
  readonly digest: KeyedDigest
  readonly roles: RoleTable
  readonly clock: Clock
  readonly log: Logger
  /** Called if the store's first key is made while this process runs. */
  readonly onFirstKey?: () => void
}

/** Verified keys are remembered until any key changes, which is seen within a second (rule 26). */
export class StoredKeys {
  readonly #options: StoredKeysOptions
  readonly #epoch: KeyEpoch
  /** Keyed by the presented text; see `ApiKeys` about timing. */
  readonly #verified = new BoundedMap<string, VerifiedKey>({ entries: MAX_VERIFIED })
  /** Keyed by public id, so that wrong secrets for a known id do not read the store. */
  readonly #lookedUp = new BoundedMap<string, StoredKey | undefined>({ entries: MAX_LOOKED_UP })
  #uses = new Map<string, number>()
  readonly #timer: NodeJS.Timeout

  constructor(options: StoredKeysOptions) {
    this.#options = options
    this.#epoch = new KeyEpoch(options.keys, options.clock, (isFirst) => {
      this.#verified.clear()
      this.#lookedUp.clear()
      if (isFirst) options.onFirstKey?.()
    })
    this.#timer = setInterval(() => void this.#writeUses(), WRITE_USES_MS).unref()
  }

  /** True once the store has ever had a key. From then on every caller needs a credential. */
  get hasAny(): boolean {
    return this.#epoch.value > 0
  }

  /** Brings `hasAny` and the verified keys up to date; throws `not_ready` if the store cannot be read. */
  refresh(): MaybePromise<void> {
    return this.#epoch.refresh()
  }

  /** `undefined` for anything but a valid key. Throws `not_ready` if the store cannot be read. */
  find(presented: string): MaybePromise<Principal | undefined> {
    const refreshed = this.#epoch.refresh()
    if (refreshed instanceof Promise) return refreshed.then(() => this.#findNow(presented))
    return this.#findNow(presented)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writeUses()
  }

  #findNow(presented: string): MaybePromise<Principal | undefined> {
    const verified = this.#verified.get(presented)
    if (verified !== undefined) return this.#use(verified)
    const keyId = readKeyId(presented, this.#options.digest)
    if (keyId === undefined) return undefined
    const found = this.#lookUp(keyId)
    if (found instanceof Promise) return found.then((key) => this.#check(presented, key))
    return this.#check(presented, found)
  }

  #lookUp(keyId: string): MaybePromise<StoredKey | undefined> {
    if (this.#lookedUp.has(keyId)) return this.#lookedUp.get(keyId)
    const epoch = this.#epoch.value
    const keep = (key: StoredKey | undefined): StoredKey | undefined => {
      // A result that was read before a change must not be kept after it.
      if (epoch === this.#epoch.value) this.#lookedUp.set(keyId, key)
      return key
    }
    try {
      const found = this.#options.keys.findKey(keyId)
      return found instanceof Promise ? found.then(keep, failClosed) : keep(found)
    } catch (cause) {
      return failClosed(cause)
    }
  }

  #check(presented: string, key: StoredKey | undefined): Principal | undefined {
    if (key === undefined || !isSameSecret(digestOfKey(presented), key.digest)) return undefined
    if (key.revokedAtMs !== undefined) return undefined
    const { keyId, expiresAtMs: endsAtMs = Number.POSITIVE_INFINITY } = key
    const verified = { keyId, principal: this.#principalOf(key), endsAtMs }
    this.#verified.set(presented, verified)
    return this.#use(verified)
  }

  /** The principal of this name, as its newest valid key defines it. */
  async findNamed(owner: KeyOwner): Promise<Principal | undefined> {
    const nowMs = this.#options.clock.nowMs()
    const [newest] = (await this.#options.keys.keysOf(owner))
      .filter(
        ({ revokedAtMs, expiresAtMs }) => revokedAtMs === undefined && nowMs < (expiresAtMs ?? Infinity),
      )
      .toSorted((left, right) => right.createdAtMs - left.createdAtMs)
    return newest === undefined ? undefined : this.#principalOf(newest)
  }

  #principalOf(key: KeyRecord): Principal {
    const { tenant, name, tools } = key
    return makePrincipal({ id: principalIdOf(name), tenant, tools, ...granted(this.#options.roles, key) })
  }

  #use({ keyId, principal, endsAtMs }: VerifiedKey): Principal | undefined {
    const nowMs = this.#options.clock.nowMs()
    if (nowMs >= endsAtMs) return undefined
    this.#uses.set(keyId, nowMs)
    return principal
  }

  async #writeUses(): Promise<void> {
    if (this.#uses.size === 0) return
    const uses = this.#uses
    this.#uses = new Map()
    try {
      await this.#options.keys.noteUses([...uses].map(([keyId, atMs]) => ({ keyId, atMs })))
    } catch (err) {
      for (const [keyId, atMs] of uses) if (!this.#uses.has(keyId)) this.#uses.set(keyId, atMs)
      this.#options.log.warn({ err }, 'cannot write the last uses of API keys; will retry')
    }
  }
}

/** A key that cannot be read is neither refused nor accepted (rule 14). */
function failClosed(cause: unknown): never {
  const message = 'API keys cannot be checked right now. Try again shortly.'
  throw fault('not_ready', message, { retryAfterMs: 1_000, cause })
}

/** How long verified keys are trusted after the last successful read of the epoch (rule 26). */
const MAX_TRUST_MS = 1_000
/** The epoch is read again at this age, which leaves time for a second attempt before `MAX_TRUST_MS`. */
const READ_AGAIN_MS = 500

/** Keeps the last known epoch, a number that every change to a key raises. */
class KeyEpoch {
  readonly #keys: Pick<KeyStore, 'epoch'>
  readonly #clock: Clock
  readonly #onChange: (isFirst: boolean) => void
  #epoch = 0
  /** When the last successful read was sent. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(keys: Pick<KeyStore, 'epoch'>, clock: Clock, onChange: (isFirst: boolean) => void) {
    this.#keys = keys
    this.#clock = clock
    this.#onChange = onChange
  }

  /** 0 until the first key is made. */
  get value(): number {
    return this.#epoch
  }

  refresh(): MaybePromise<void> {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#readAtMs < READ_AGAIN_MS) return
    if (this.#reading !== undefined) return this.#reading
    try {
      const read = this.#keys.epoch()
      if (!(read instanceof Promise)) return this.#take(read, nowMs)
      this.#reading = this.#await(read, nowMs)
      return this.#reading
    } catch (cause) {
      this.#failClosed(cause)
    }
  }

  async #await(read: Promise<number>, sentAtMs: number): Promise<void> {
    try {
      this.#take(await read, sentAtMs)
    } catch (cause) {
      this.#failClosed(cause)
    } finally {
      this.#reading = undefined
    }
  }

  #take(epoch: number, sentAtMs: number): void {
    const isFirst = this.#epoch === 0 && Number.isFinite(this.#readAtMs)
    this.#readAtMs = sentAtMs
    if (epoch === this.#epoch) return
    this.#epoch = epoch
    this.#onChange(isFirst)
  }

  #failClosed(cause: unknown): void {
    if (this.#clock.monotonicMs() - this.#readAtMs < MAX_TRUST_MS) return
    failClosed(cause)
  }
}
