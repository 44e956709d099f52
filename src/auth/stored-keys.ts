import { principalIdOf } from '#core/journal/append'
import type { KeyStore, StoredKey } from '#core/ports/key-store'
import type { MaybePromise } from '#core/ports/store'
import { grantedScopes, makePrincipal, type Principal, type RoleTable } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { BoundedMap } from './bounded-map.ts'
import { KeyEpoch, keysUnknown } from './key-epoch.ts'
import { digestOfKey, isSame, type KeyedDigest, readKeyId } from './key-text.ts'

const MOST_VERIFIED = 10_000
const MOST_LOOKED_UP = 10_000
/** Last uses are written together and late: never on the way of a call. */
const WRITE_USES_MS = 60_000

interface VerifiedKey {
  readonly keyId: string
  readonly principal: Principal
  readonly endsAtMs: number
}

export interface StoredKeysOptions {
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
    if (key === undefined || !isSame(digestOfKey(presented), key.digest)) return undefined
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
