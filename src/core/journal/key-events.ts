import type { Denial } from '#core/ports/audit-store'
import type { KeyChange, KeyOwner } from '#core/ports/key-store'
import type { AuthorizationDecided, KeyChanged, PrincipalEnded } from './journal-event.ts'

/** What one change of a key writes to the journal; every store appends exactly these. */
export function keyEvent(
  type: KeyChanged['type'],
  key: KeyOwner & KeyChange & { readonly keyId: string },
): KeyChanged {
  const { tenant, name, keyId, by, atMs } = key
  return { type, at: atMs, tenant, principal: principalIdOf(name), key: keyId, by }
}

export function principalEndedEvent({ tenant, name, by, atMs }: KeyOwner & KeyChange): PrincipalEnded {
  return { type: 'principal.ended', at: atMs, tenant, principal: principalIdOf(name), by }
}

export function denialEvent({ atMs, ...denial }: Denial): AuthorizationDecided {
  return { type: 'authorization.decided', at: atMs, ...denial, allowed: false }
}

/** The principal that a key's owner acts as (rule 3). */
export function principalIdOf(name: string): string {
  return `key:${name}`
}
