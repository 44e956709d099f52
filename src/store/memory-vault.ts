import type { JournalEvent, VaultChanged } from '#core/journal/events'
import type {
  NewCredential,
  RenewedCredential,
  VaultAddress,
  VaultEntry,
  VaultFacts,
  VaultStore,
} from '#core/ports/vault-store'
import { vaultChanged } from './vault-event.ts'

interface Row {
  readonly entry: VaultEntry
  readonly leaseUntilMs: number
}

/** The memory store's vault: nothing is written anywhere, so nothing is sealed. */
export class MemoryVault implements VaultStore {
  readonly #rows = new Map<string, Row>()
  readonly #append: (event: JournalEvent) => void

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  put(credential: NewCredential): void {
    const { atMs, by: _by, ...given } = credential
    const name = nameOf(credential)
    const version = (this.#rows.get(name)?.entry.version ?? 0) + 1
    this.#rows.delete(name)
    this.#rows.set(name, {
      entry: { ...given, version, isSpent: false, createdAtMs: atMs, updatedAtMs: atMs },
      leaseUntilMs: 0,
    })
    this.#append(vaultChanged('vault.set', credential, atMs))
  }

  find(address: VaultAddress): VaultEntry | undefined {
    return this.#rows.get(nameOf(address))?.entry
  }

  lease(seen: VaultFacts, nowMs: number, untilMs: number): boolean {
    const row = this.#current(seen)
    if (row === undefined || row.leaseUntilMs > nowMs) return false
    this.#rows.set(nameOf(seen), { ...row, leaseUntilMs: untilMs })
    return true
  }

  unlease(seen: VaultFacts): void {
    const row = this.#current(seen)
    if (row !== undefined) this.#rows.set(nameOf(seen), { ...row, leaseUntilMs: 0 })
  }

  renew(seen: VaultFacts, { atMs, ...renewed }: RenewedCredential): boolean {
    return this.#change(seen, 'vault.renewed', { ...renewed, updatedAtMs: atMs })
  }

  spend(seen: VaultFacts, atMs: number): boolean {
    if (this.#current(seen)?.entry.isSpent !== false) return false
    return this.#change(seen, 'vault.spent', { value: undefined, isSpent: true, updatedAtMs: atMs })
  }

  remove(entry: VaultAddress & Pick<VaultFacts, 'ref'>, by: string, atMs: number): boolean {
    if (this.#rows.get(nameOf(entry))?.entry.ref !== entry.ref) return false
    this.#rows.delete(nameOf(entry))
    this.#append(vaultChanged('vault.removed', { ...entry, by }, atMs))
    return true
  }

  list({ tenant, limit }: { readonly tenant?: string; readonly limit: number }): readonly VaultFacts[] {
    return [...this.#rows.values()]
      .filter(({ entry }) => tenant === undefined || entry.tenant === tenant)
      .reverse()
      .slice(0, limit)
      .map(({ entry }) => factsOf(entry))
  }

  findByRef(ref: string): VaultFacts | undefined {
    const found = [...this.#rows.values()].find(({ entry }) => entry.ref === ref)
    return found === undefined ? undefined : factsOf(found.entry)
  }

  rotate(by: string, atMs: number): { readonly tenants: number; readonly entries: number } {
    const kept = [...this.#rows.values()].filter(({ entry }) => !entry.isSpent)
    const tenants = new Set([...this.#rows.values()].map(({ entry }) => entry.tenant)).size
    this.#append({ type: 'vault.rotated', at: atMs, by, tenants, entries: kept.length })
    return { tenants, entries: kept.length }
  }

  #current(seen: VaultFacts): Row | undefined {
    const row = this.#rows.get(nameOf(seen))
    return row?.entry.ref === seen.ref && row.entry.version === seen.version ? row : undefined
  }

  #change(
    seen: VaultFacts,
    type: VaultChanged['type'],
    change: Partial<VaultEntry> & { readonly updatedAtMs: number },
  ): boolean {
    const row = this.#current(seen)
    if (row === undefined) return false
    const entry = { ...row.entry, ...change, version: row.entry.version + 1 }
    this.#rows.set(nameOf(seen), { entry, leaseUntilMs: 0 })
    this.#append(vaultChanged(type, entry, change.updatedAtMs))
    return true
  }
}

function nameOf({ tenant, principal, user, provider, kind }: VaultAddress): string {
  return JSON.stringify([tenant, principal, user, provider, kind])
}

function factsOf({ value: _value, ...facts }: VaultEntry): VaultFacts {
  return facts
}
