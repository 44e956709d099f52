import { keyEvent, principalEndedEvent } from '#core/journal/append'
import type { JournalEvent } from '#core/journal/events'
import type {
  KeyChange,
  KeyFilter,
  KeyOwner,
  KeyRecord,
  KeyRotation,
  KeyStore,
  KeyUse,
  NewKey,
  StoredKey,
} from '#core/ports/key-store'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The memory store's keys, with the same rules as any other's. */
export class MemoryKeys implements KeyStore {
  readonly #keys = new Map<string, Mutable<StoredKey>>()
  /** Whether each principal has ended. */
  readonly #owners = new Map<string, boolean>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  createKey(key: NewKey): 'created' | 'exists' | 'ended' {
    const ended = this.#owners.get(ownerText(key))
    if (ended !== undefined) return ended ? 'ended' : 'exists'
    this.#owners.set(ownerText(key), false)
    this.#insert(key)
    this.#change(keyEvent('key.created', key))
    return 'created'
  }

  rotateKey(rotation: KeyRotation): 'rotated' | 'not_found' | 'ended' {
    const ended = this.#owners.get(ownerText(rotation))
    if (ended !== false) return ended === undefined ? 'not_found' : 'ended'
    const mine = this.#rowsOf(rotation)
    const model = mine.find(({ revokedAtMs }) => revokedAtMs === undefined) ?? mine[0]
    if (model === undefined) return 'not_found'
    const { oldEndAtMs } = rotation
    if (oldEndAtMs !== undefined) {
      for (const old of mine.filter(({ revokedAtMs }) => revokedAtMs === undefined)) {
        old.expiresAtMs = Math.min(old.expiresAtMs ?? oldEndAtMs, oldEndAtMs)
      }
    }
    this.#insert({ ...rotation, scopes: model.scopes, roles: model.roles, tools: model.tools })
    this.#change(keyEvent('key.rotated', rotation))
    return 'rotated'
  }

  revokeKey(key: { readonly tenant: string; readonly keyId: string } & KeyChange): boolean {
    const found = this.#keys.get(key.keyId)
    if (found?.tenant !== key.tenant || found.revokedAtMs !== undefined) return false
    found.revokedAtMs = key.atMs
    this.#change(keyEvent('key.revoked', { ...key, name: found.name }))
    return true
  }

  endPrincipal(owner: KeyOwner & KeyChange): boolean {
    if (this.#owners.get(ownerText(owner)) !== false) return false
    for (const { keyId } of this.#rowsOf(owner)) this.revokeKey({ ...owner, keyId })
    this.#owners.set(ownerText(owner), true)
    this.#change(principalEndedEvent(owner))
    return true
  }

  isEnded(owner: KeyOwner): boolean {
    return this.#owners.get(ownerText(owner)) === true
  }

  listKeys({ tenant, limit }: KeyFilter): readonly KeyRecord[] {
    return [...this.#keys.values()]
      .filter((key) => tenant === undefined || key.tenant === tenant)
      .reverse()
      .slice(0, limit)
      .map(withoutDigest)
  }

  keysOf(owner: KeyOwner): readonly KeyRecord[] {
    return this.#rowsOf(owner).map(withoutDigest)
  }

  findKey(keyId: string): StoredKey | undefined {
    const found = this.#keys.get(keyId)
    return found === undefined ? undefined : { ...found }
  }

  epoch(): number {
    return this.#epoch
  }

  noteUses(uses: readonly KeyUse[]): void {
    for (const { keyId, atMs } of uses) {
      const key = this.#keys.get(keyId)
      if (key !== undefined) key.lastUsedAtMs = Math.max(key.lastUsedAtMs ?? 0, atMs)
    }
  }

  /** Newest first. */
  #rowsOf({ tenant, name }: KeyOwner): Mutable<StoredKey>[] {
    return [...this.#keys.values()].filter((key) => key.tenant === tenant && key.name === name).reverse()
  }

  #insert(key: NewKey): void {
    const { by: _by, atMs, ...facts } = key
    const { tenant, name, scopes, roles, tools, keyId, digest, label, expiresAtMs } = facts
    const row = { tenant, name, scopes, roles, tools, keyId, digest, label, expiresAtMs }
    this.#keys.set(keyId, { ...row, createdAtMs: atMs, revokedAtMs: undefined, lastUsedAtMs: undefined })
  }

  #change(event: JournalEvent): void {
    this.#epoch += 1
    this.#append(event)
  }
}

function ownerText({ tenant, name }: KeyOwner): string {
  return JSON.stringify([tenant, name])
}

function withoutDigest({ digest: _digest, ...record }: StoredKey): KeyRecord {
  return record
}
