import type { VaultChanged } from '#core/journal/events'
import type { NewCredential, VaultAddress, VaultFacts } from '#core/ports/vault-store'

/** What a change of the vault writes to the journal: the reference, never the value, and not the user (rule 15). */
export function vaultChanged(
  type: VaultChanged['type'],
  changed: VaultAddress & Pick<VaultFacts, 'ref'> & Partial<Pick<NewCredential, 'scopes' | 'by'>>,
  atMs: number,
): VaultChanged {
  const { ref, tenant, principal, provider, kind, scopes, by } = changed
  const names = scopes === undefined || scopes.length === 0 ? {} : { scopes }
  const who = by === undefined ? {} : { by }
  return { type, at: atMs, ref, tenant, principal, provider, kind, ...who, ...names }
}
