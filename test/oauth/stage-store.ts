import { Secret } from '#kernel/base/secret'
import { packToken, unpackToken } from '#stages/credentials/credentials'
import { openStore } from '#store/stores'
import type { Stage } from './oauth-stage.ts'

interface StoreTampering {
  /** Expires every token, optionally replaces the refresh token, and returns the previous one. */
  expireTokens(refreshToken?: string): Promise<string>
}

/** Changes the store of a stage without the server's knowledge. */
export async function tamperedStore<T>(
  stage: Stage,
  change: (hands: StoreTampering) => Promise<T>,
): Promise<T> {
  const { store: url, dataFolder, masterKey } = stage.settings
  const store = await openStore(url, { dataFolder, masterKey, mode: 'operator' })
  try {
    return await change({
      async expireTokens(refreshToken) {
        let before = ''
        for (const facts of await store.vault.list({ limit: 100 })) {
          const entry = await store.vault.find(facts)
          if (entry?.value === undefined || entry.kind !== 'token') continue
          const token = unpackToken(entry.value)
          before = token.refreshToken?.reveal() ?? ''
          const next = refreshToken === undefined ? token.refreshToken : new Secret(refreshToken)
          const value = packToken({ ...token, refreshToken: next })
          await store.vault.renew(entry, { value, scopes: entry.scopes, expiresAtMs: 1, atMs: Date.now() })
        }
        return before
      },
    })
  } finally {
    await store.close()
  }
}
