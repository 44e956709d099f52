import { packToken, userDigest } from '#core/credentials/credentials'
import type { Store } from '#core/ports/store'
import { newCredentialRef } from '#oauth/consent'
import type { SecretToSet } from './read-secret.ts'

/** Puts one credential in the place of the one that is there; gives its reference. */
export async function setCredential(
  store: Pick<Store, 'vault' | 'digest'>,
  wanted: SecretToSet,
  set: { readonly by: string; readonly atMs: number },
): Promise<string> {
  const { tenant, principal, userId, name, kind, scopes, value } = wanted
  const ref = newCredentialRef()
  await store.vault.put({
    ...{ tenant, principal, user: userDigest(store, userId), provider: name, kind },
    ref,
    value: kind === 'token' ? packToken({ accessToken: value, refreshToken: undefined }) : value,
    scopes,
    expiresAtMs: undefined,
    ...set,
  })
  return ref
}
