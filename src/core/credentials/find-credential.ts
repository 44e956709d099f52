import { fault, type ToolError } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { Store } from '#core/ports/store'
import type { TokenBroker } from '#core/ports/token-broker'
import type { VaultEntry } from '#core/ports/vault-store'
import type { Secret } from '#core/secret'
import type { TokenRefresher } from './token-refresher.ts'
import { unpackToken } from './token-value.ts'
import type { VaultOwner } from './vault-owner.ts'

/** A token that ends sooner than this is renewed first: clocks differ, and the tool needs time to use it. */
const EXPIRY_SKEW_MS = 60_000
/** Of a token that lives for a short time only, this part of its life. */
const EXPIRY_SKEW_PART = 0.25

/** Why there is none, in the words of openwop (OWP-76). */
export type CredentialProblem =
  | 'credential_required'
  | 'credential_not_found'
  | 'credential_forbidden'
  | 'credential_scope_unsupported'
  | 'connector_auth_expired'

export type FoundCredential =
  | { readonly ok: true; readonly ref: string; readonly value: Secret }
  | { readonly ok: false; readonly problem: CredentialProblem }

export interface CredentialServices {
  readonly store: Pick<Store, 'vault'>
  readonly clock: Clock
  readonly broker: TokenBroker
  readonly refresher: TokenRefresher
}

/** A secret an operator has set for exactly this owner. */
export async function findSecret(
  { store }: CredentialServices,
  owner: VaultOwner | undefined,
  name: string,
): Promise<FoundCredential> {
  if (owner === undefined) return { ok: false, problem: 'credential_forbidden' }
  const entry = await store.vault.find({ ...owner, provider: name, kind: 'secret' })
  return entry?.value === undefined
    ? { ok: false, problem: 'credential_not_found' }
    : { ok: true, ref: entry.ref, value: entry.value }
}

/** A token of exactly this owner that covers the scopes and is good for a while, renewed if need be. */
export async function findToken(
  services: CredentialServices,
  owner: VaultOwner | undefined,
  need: { readonly provider: string; readonly scopes: readonly string[] },
): Promise<FoundCredential> {
  if (owner === undefined) return { ok: false, problem: 'credential_forbidden' }
  const entry = await services.store.vault.find({ ...owner, provider: need.provider, kind: 'token' })
  if (entry === undefined) return { ok: false, problem: 'credential_not_found' }
  if (entry.value === undefined) return { ok: false, problem: 'connector_auth_expired' }
  if (!need.scopes.every((scope) => entry.scopes.includes(scope)))
    return { ok: false, problem: 'credential_scope_unsupported' }
  const nowMs = services.clock.nowMs()
  if (isGood(entry, nowMs + skewOf(entry))) return accessOf(entry)
  return await renew(services, entry, need.scopes)
}

async function renew(
  { refresher, clock }: CredentialServices,
  entry: VaultEntry,
  scopes: readonly string[],
): Promise<FoundCredential> {
  const renewed = await refresher.refresh(entry)
  if (renewed === 'refused') return { ok: false, problem: 'connector_auth_expired' }
  if (renewed !== 'unavailable') {
    const covers = scopes.every((scope) => renewed.scopes.includes(scope))
    return covers ? accessOf(renewed) : { ok: false, problem: 'credential_scope_unsupported' }
  }
  // The provider cannot be asked just now: what is still good is used up.
  if (isGood(entry, clock.nowMs())) return accessOf(entry)
  throw credentialUnavailable(entry.provider)
}

function skewOf({ expiresAtMs = 0, updatedAtMs }: VaultEntry): number {
  return Math.min(EXPIRY_SKEW_MS, Math.max(0, (expiresAtMs - updatedAtMs) * EXPIRY_SKEW_PART))
}

function isGood({ expiresAtMs }: VaultEntry, atMs: number): boolean {
  return expiresAtMs === undefined || expiresAtMs > atMs
}

function accessOf({ ref, value }: VaultEntry): FoundCredential {
  if (value === undefined) return { ok: false, problem: 'connector_auth_expired' }
  return { ok: true, ref, value: unpackToken(value).accessToken }
}

/** Nobody is asked for consent because a provider is down: the authorization itself is still there. */
function credentialUnavailable(provider: string): ToolError {
  return fault(
    'not_ready',
    `The authorization of ${provider} has to be renewed, and ${provider} does not answer. Nothing was run. Try again shortly.`,
    { retryAfterMs: 5_000, developerMessage: `credential_unavailable: ${provider}` },
  )
}
