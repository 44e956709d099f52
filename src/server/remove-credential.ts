import { unpackToken } from '#core/credentials/credentials'
import { StoreError } from '#core/errors'
import type { Store } from '#core/ports/store'
import type { VaultFacts } from '#core/ports/vault-store'
import type { TokenBroker } from '#core/runtime'
import type { Secret } from '#core/secret'

/**
 * Forgets one credential, then tells its provider; `undefined` when there is none. First here: a provider that does not
 * answer must not keep a credential alive in the vault.
 */
export async function removeCredential(
  { store, broker }: { readonly store: Pick<Store, 'vault'>; readonly broker: TokenBroker },
  wanted: {
    readonly ref: string
    readonly tenant: string | undefined
    readonly by: string
    readonly atMs: number
  },
): Promise<{ readonly revoked: boolean } | undefined> {
  const facts = await store.vault.findByRef(wanted.ref)
  if (facts === undefined || (wanted.tenant !== undefined && facts.tenant !== wanted.tenant)) return undefined
  const token = await tokenToRevoke(store, facts)
  if (!(await store.vault.remove(facts, wanted.by, wanted.atMs))) return undefined
  return { revoked: token !== undefined && (await broker.revoke(facts.provider, token)) }
}

/** The refresh token takes all its access tokens with it (RFC 7009 §2.1). What cannot be read can still be removed. */
async function tokenToRevoke(store: Pick<Store, 'vault'>, facts: VaultFacts): Promise<Secret | undefined> {
  if (facts.kind !== 'token') return undefined
  try {
    const value = (await store.vault.find(facts))?.value
    if (value === undefined) return undefined
    const { accessToken, refreshToken } = unpackToken(value)
    return refreshToken ?? accessToken
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable') return undefined
    throw error
  }
}
