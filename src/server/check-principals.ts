import type { Settings } from '#config/settings'
import type { KeyStore } from '#core/ports/key-store'
import { StartRefused } from './start-refused.ts'

/** Rule 3: a name that was ended in the store is not given again by the configuration either. */
export async function checkPrincipals(
  { apiKeys }: Settings['auth'],
  keys: Pick<KeyStore, 'isEnded'>,
): Promise<void> {
  for (const { id, tenant } of apiKeys) {
    if (!(await keys.isEnded({ tenant, name: id }))) continue
    throw new StartRefused(
      `auth.apiKeys: the principal "${id}" of tenant "${tenant}" was ended with collet keys revoke, and no name is given twice. Choose another id.`,
    )
  }
}
