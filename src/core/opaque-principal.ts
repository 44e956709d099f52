import type { Store } from './ports/store.ts'
import type { Principal } from './principal.ts'

/** A subject may be a mail address; readers of runs and audits get a name that only tells principals apart. */
export function opaquePrincipal(
  store: Pick<Store, 'digest'>,
  { tenant, id }: Pick<Principal, 'tenant' | 'id'>,
): string {
  return `prn_${store.digest(JSON.stringify(['principal', tenant, id]))}`
}
