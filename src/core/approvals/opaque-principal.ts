import type { Store } from '#core/ports/store'

/** A subject may be a mail address; readers of a run get a name that only tells principals apart (OWP-62, OWP-72). */
export function opaquePrincipal(store: Pick<Store, 'digest'>, tenant: string, id: string): string {
  return `prn_${store.digest(JSON.stringify(['principal', tenant, id]))}`
}
