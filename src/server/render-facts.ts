import type { JsonObject } from '#core/json'
import type { VaultFacts } from '#core/ports/vault-store'

/** What is known without the value. A user is told by its digest: the same user, the same text. */
export function renderFacts(facts: VaultFacts): JsonObject {
  return {
    ref: facts.ref,
    kind: facts.kind,
    name: facts.provider,
    tenant: facts.tenant,
    principal: facts.principal,
    user: facts.user === '' ? null : facts.user,
    scopes: [...facts.scopes],
    state: facts.isSpent ? 'spent' : 'live',
    expires_at: facts.expiresAtMs === undefined ? null : new Date(facts.expiresAtMs).toISOString(),
    created_at: new Date(facts.createdAtMs).toISOString(),
    updated_at: new Date(facts.updatedAtMs).toISOString(),
  }
}
