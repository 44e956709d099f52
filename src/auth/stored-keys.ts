import { BoundedMap } from '#core/bounded-map'
import { fault, type ToolError } from '#core/errors'
import { isSameSecret } from '#core/hash'
import { principalIdOf } from '#core/journal/append'
import type { KeyStore, StoredKey } from '#core/ports/key-store'
import type { MaybePromise } from '#core/ports/store'
import { grantedScopes, makePrincipal, type Principal, type RoleTable } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { digestOfKey, type KeyedDigest, readKeyId } from './api-keys.ts'

const MOST_VERIFIED = 10_000
const MOST_LOOKED_UP = 10_000
/** Last uses are written together and late: never on the way of a call. */
const WRITE_USES_MS = 60_000

interface VerifiedKey {
  readonly keyId: string
  readonly principal: Principal
  readonly endsAtMs: number
}

interface StoredKeysOptions {
  readonly keys: KeyStore
  /** The store's own. */
  readonly digest: KeyedDigest
  readonly roles: RoleTable
  readonly clock: Clock
  readonly log: Logger
}

/** The keys of the store. What was verified is remembered until any key changes, as seen within a second (rule 26). */
export class StoredKeys {
  readonly #options: StoredKeysOptions
  readonly #epoch: KeyEpoch
  /** By the presented text, which a map compares only if hashes that are seeded at random are equal. */
  readonly #verified = new BoundedMap<string, VerifiedKey>({ entries: MOST_VERIFIED })
  /** By public id, so that wrong secrets for a known id read nothing either. */
  readonly #lookedUp = new BoundedMap<string, StoredKey | undefined>({ entries: MOST_LOOKED_UP })
  #uses = new Map<string, number>()
  readonly #timer: NodeJS.Timeout

  constructor(options: StoredKeysOptions) {
    this.#options = options
    this.#epoch = new KeyEpoch(options.keys, options.clock, () => {
      this.#verified.clear()
      this.#lookedUp.clear()
    })
    this.#timer = setInterval(() => void this.#writeUses(), WRITE_USES_MS).unref()
  }

  /** Whether there has ever been a key here: from then on every caller needs a credential. */
  get hasAny(): boolean {
    return this.#epoch.value > 0
  }

  /** Makes `hasAny` and what was verified true of this second; throws `not_ready` when that cannot be known. */
  refresh(): MaybePromise<void> {
    return this.#epoch.refresh()
  }

  /** `undefined` for anything but a key that is good now. Throws `not_ready` when the store does not say. */
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
      // An answer from before a change must not outlive it.
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
    const { tenant, name, tools, keyId } = key
    const scopes = grantedScopes(this.#options.roles, key)
    const verified = {
      keyId,
      principal: makePrincipal({ id: principalIdOf(name), tenant, scopes, tools }),
      endsAtMs: key.expiresAtMs ?? Number.POSITIVE_INFINITY,
    }
    this.#verified.set(presented, verified)
    return this.#use(verified)
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
      this.#options.log.warn({ err }, 'when API keys were last used could not be written yet')
    }
  }
}

/** A key that cannot be read is not a wrong one, and opens nothing either (rule 14). */
function failClosed(cause: unknown): never {
  throw keysUnknown(cause)
}

/** Rule 26: how long what was verified counts after the last good read of the epoch. */
const LONGEST_TRUST_MS = 1_000
/** Read again from here on, so that one failed read is not yet an outage. */
const READ_AGAIN_MS = 500

/** The number that every change of a key raises, as last read, and what to do when it moves. */
class KeyEpoch {
  readonly #keys: Pick<KeyStore, 'epoch'>
  readonly #clock: Clock
  readonly #onChange: () => void
  #epoch = 0
  /** When the last good read was sent, not when it was answered. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(keys: Pick<KeyStore, 'epoch'>, clock: Clock, onChange: () => void) {
    this.#keys = keys
    this.#clock = clock
    this.#onChange = onChange
  }

  /** As last read; 0 while there has never been a key. */
  get value(): number {
    return this.#epoch
  }

  /** Makes sure that the epoch is of this second; throws `not_ready` when it cannot be read. */
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
    this.#readAtMs = sentAtMs
    if (epoch === this.#epoch) return
    this.#epoch = epoch
    this.#onChange()
  }

  #failClosed(cause: unknown): void {
    if (this.#clock.monotonicMs() - this.#readAtMs < LONGEST_TRUST_MS) return
    throw keysUnknown(cause)
  }
}

function keysUnknown(cause: unknown): ToolError {
  const message = 'API keys cannot be checked right now. Try again shortly.'
  return fault('not_ready', message, { retryAfterMs: 1_000, cause })
}
