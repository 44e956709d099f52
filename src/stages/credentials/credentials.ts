import type { Clock } from '#kernel/base/clock'
import { fault, StoreError, type ToolError } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import {
  ANONYMOUS,
  ASSERT_USERS_SCOPE,
  isRunAs,
  mayNameUser,
  type Principal,
  WHOLE_TENANT,
} from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { BoundToken, type TokenBroker, type TokenSet } from '#kernel/base/token-broker'
import type { Tool } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import type { VaultEntry, VaultOwner } from '#store/vault'

/**
 * Finds the tokens and secrets in the vault that a call may use, and renews tokens. `requirements.ts` calls it for each of a
 * tool's requirements; consent pages and commands share the packing of tokens.
 * A call can use only the vault of its own principal, or of a proven user (rule 24).
 */

/** A token that expires within this time is renewed first, because clocks differ and the tool needs time to use the token. */
const EXPIRY_SKEW_MS = 60_000
/** A short-lived token is renewed if less than this fraction of its lifetime remains. */
const EXPIRY_SKEW_PART = 0.25

/** Why there is no credential, in the terms of openwop (OWP-76). */
export type CredentialProblem =
  | 'credential_required'
  | 'credential_not_found'
  | 'credential_forbidden'
  | 'credential_scope_unsupported'
  | 'connector_auth_expired'

type FoundCredential =
  | { readonly ok: true; readonly ref: string; readonly value: Secret }
  | { readonly ok: false; readonly problem: CredentialProblem }

export interface CredentialNeeds {
  readonly store: Pick<Store, 'vault'>
  readonly clock: Clock
  readonly broker: TokenBroker
  readonly refresher: TokenRefresher
}

/** A secret that an operator set for this owner or, for calls without a user, for the whole tenant (rule 24). */
export async function findSecret(
  { store }: CredentialNeeds,
  owner: VaultOwner | undefined,
  name: string,
): Promise<FoundCredential> {
  if (owner === undefined) return { ok: false, problem: 'credential_forbidden' }
  const address = { ...owner, provider: name, kind: 'secret' } as const
  const own = await store.vault.find(address)
  const entry = own ?? (owner.user === '' ? await store.vault.find(sharedBy(address)) : undefined)
  return entry?.value === undefined
    ? { ok: false, problem: 'credential_not_found' }
    : { ok: true, ref: entry.ref, value: entry.value }
}

/** The owner of the credentials that all callers of a tenant share. */
export function sharedBy<Owner extends VaultOwner>(owner: Owner): Owner {
  return { ...owner, principal: WHOLE_TENANT, user: '' }
}

/** A token of exactly this owner that covers the scopes and is valid for a while, renewed if necessary. */
export async function findToken(
  services: CredentialNeeds,
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
  const isRejected = services.broker.isRejected?.(unpackToken(entry.value).accessToken) === true
  if (!isRejected && isValidAt(entry, nowMs + skewOf(entry))) return accessOf(entry)
  return await renew(services, entry, need.scopes)
}

async function renew(
  { refresher, clock }: CredentialNeeds,
  entry: VaultEntry,
  scopes: readonly string[],
): Promise<FoundCredential> {
  const renewed = await refresher.refresh(entry)
  if (renewed === 'refused') return { ok: false, problem: 'connector_auth_expired' }
  if (renewed !== 'unavailable') {
    const covers = scopes.every((scope) => renewed.scopes.includes(scope))
    return covers ? accessOf(renewed) : { ok: false, problem: 'credential_scope_unsupported' }
  }
  // The provider does not answer now, so a token that is still valid is used.
  if (isValidAt(entry, clock.nowMs())) return accessOf(entry)
  throw credentialUnavailable(entry.provider)
}

function skewOf({ expiresAtMs = 0, updatedAtMs }: VaultEntry): number {
  return Math.min(EXPIRY_SKEW_MS, Math.max(0, (expiresAtMs - updatedAtMs) * EXPIRY_SKEW_PART))
}

function isValidAt({ expiresAtMs }: VaultEntry, atMs: number): boolean {
  return expiresAtMs === undefined || expiresAtMs > atMs
}

function accessOf({ ref, value }: VaultEntry): FoundCredential {
  if (value === undefined) return { ok: false, problem: 'connector_auth_expired' }
  return { ok: true, ref, value: unpackToken(value).accessToken }
}

/** While a provider is down no consent is requested, because the authorization still exists. */
function credentialUnavailable(provider: string): ToolError {
  return fault(
    'not_ready',
    `The authorization for ${provider} has to be renewed, and ${provider} does not answer. Nothing was run. Try again shortly.`,
    { retryAfterMs: 5_000, developerMessage: `credential_unavailable: ${provider}` },
  )
}

/** The error if a provider that issues tokens to this server itself issues none. Only the server's operator can fix this. */
export function ownTokenUnavailable(provider: string, answer: 'refused' | 'unavailable'): ToolError {
  const message =
    answer === 'refused'
      ? `${provider} refused to issue a token to this server. Nothing was run. Ask the operator of this server to check oauth.providers.${provider}.`
      : `${provider} does not answer, and this server needs a token from it. Nothing was run. Try again shortly.`
  return fault('not_ready', message, {
    retryAfterMs: 5_000,
    developerMessage: `The server's log contains the error code from ${provider}.`,
  })
}

/**
 * The part of the vault that a call may use; `undefined` if there is none. Callers without a credential share one principal, which
 * has a vault only if it is the person at this machine (rules 3 and 28). A user id counts only if it is the credential's own
 * subject, or the principal may assert users; neither can reach the other's entries (rule 24).
 */
export function vaultOwner(
  store: Pick<Store, 'digest'>,
  principal: Principal,
  userId: string | undefined,
): VaultOwner | undefined {
  if (principal.id === ANONYMOUS.id && principal.isLocal !== true) return undefined
  if (isRunAs(principal)) return undefined
  const { id, tenant } = principal
  if (userId === undefined || userId === '') return { tenant, principal: id, user: '' }
  return mayNameUser(principal, userId)
    ? { tenant, principal: id, user: userDigest(store, userId) }
    : undefined
}

/** The error for a call that names an unproven user, if its tool needs a proven user. */
export function unprovenUser({ name }: Pick<Tool, 'name'>, { id }: Principal, userId: string): ToolError {
  const because =
    id === ANONYMOUS.id
      ? 'a caller without a key cannot prove one'
      : `${id} may not act for ${userId} (scope ${ASSERT_USERS_SCOPE})`
  return fault('not_authorized', `${name} needs a user id that is proven, and ${because}. Nothing was run.`, {
    developerMessage:
      "Call with the user's own token (its `sub` is the user id), or with a credential that has the scope users:assert.",
  })
}

/** The error for an operator who runs a tool in a caller's name, if the tool needs that caller's credentials. */
export function credentialsNotUsed({ id }: Principal, needed: readonly string[]): ToolError {
  return fault(
    'not_authorized',
    `The tool needs ${needed.join(', ')}. The operator runs this call as ${id}, and the credentials of ${id} are used only for its own calls. Nothing was run. Sign in with a key of ${id} to use them.`,
  )
}

/** A user id is stored only as a digest. */
export function userDigest(store: Pick<Store, 'digest'>, userId: string | undefined): string {
  return userId === undefined || userId === '' ? '' : store.digest(`user:${userId}`)
}

/** Longer than any wait for a provider, so that a lease expires only if its process died. */
const LEASE_MS = 12_000
const POLL_MS = 50

type RefreshResult = VaultEntry | 'refused' | 'unavailable'

type TokenRefresherOptions = Omit<CredentialNeeds, 'refresher'> & { readonly log: Logger }

/**
 * Renews tokens with one request for all waiting calls: in this process they share a promise, and a lease on the entry's version
 * excludes other processes (rule 26). A provider that rotates refresh tokens would treat a second request as theft.
 */
export class TokenRefresher {
  readonly #options: TokenRefresherOptions
  readonly #inProgress = new Map<string, Promise<RefreshResult>>()

  constructor(options: TokenRefresherOptions) {
    this.#options = options
  }

  refresh(entry: VaultEntry): Promise<RefreshResult> {
    const name = `${entry.ref} ${entry.version}`
    const known = this.#inProgress.get(name)
    if (known !== undefined) return known
    const begun = this.#refresh(entry).finally(() => this.#inProgress.delete(name))
    this.#inProgress.set(name, begun)
    return begun
  }

  async #refresh(entry: VaultEntry): Promise<RefreshResult> {
    const { store, clock } = this.#options
    const value = entry.value === undefined ? undefined : unpackToken(entry.value)
    const { refreshToken } = value ?? {}
    if (value === undefined || refreshToken === undefined) return this.#spend(entry)
    const giveUpMs = clock.nowMs() + LEASE_MS + POLL_MS
    while (clock.nowMs() < giveUpMs) {
      const nowMs = clock.nowMs()
      if (await store.vault.lease(entry, nowMs, nowMs + LEASE_MS))
        return await this.#ask(entry, { ...value, refreshToken })
      const current = await store.vault.find(entry)
      if (current?.value === undefined) return 'refused'
      if (current.version !== entry.version) return current
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    return 'unavailable'
  }

  async #ask(
    entry: VaultEntry,
    { refreshToken, accessToken, issuer }: TokenValue & { readonly refreshToken: Secret },
  ): Promise<RefreshResult> {
    const { store, clock, broker, log } = this.#options
    const proofKey = accessToken instanceof BoundToken ? accessToken.proofKey : undefined
    const renewal = { refreshToken, scopes: entry.scopes, issuer, proofKey }
    const answer = await broker.refresh(entry.provider, renewal)
    if (answer.kind === 'unavailable') {
      await store.vault.unlease(entry)
      return 'unavailable'
    }
    if (answer.kind === 'refused') {
      log.info({ provider: entry.provider, ref: entry.ref }, 'a provider refused to renew a token')
      return await this.#spend(entry)
    }
    const { tokens } = answer
    const renewed = {
      value: packToken({ ...tokens, refreshToken: tokens.refreshToken ?? refreshToken }),
      scopes: tokens.scopes,
      expiresAtMs: tokens.expiresAtMs,
      atMs: clock.nowMs(),
    }
    // If the entry was set again or removed in the meantime, the current entry is used.
    if (!(await store.vault.renew(entry, renewed))) return (await store.vault.find(entry)) ?? 'refused'
    return { ...entry, ...renewed, version: entry.version + 1, updatedAtMs: renewed.atMs }
  }

  async #spend(entry: VaultEntry): Promise<RefreshResult> {
    const { store, clock } = this.#options
    if (await store.vault.spend(entry, clock.nowMs())) return 'refused'
    const current = await store.vault.find(entry)
    return current?.value === undefined || current.version === entry.version ? 'refused' : current
  }
}

/** The vault's value of a token: the access token with its key, the token that renews it, and the issuer of both. */
type TokenValue = Pick<TokenSet, 'accessToken' | 'refreshToken' | 'issuer'>

export function packToken({ accessToken, refreshToken, issuer }: TokenValue): Secret {
  const proofKey = accessToken instanceof BoundToken ? accessToken.proofKey.reveal() : null
  const plain = [accessToken.reveal(), refreshToken?.reveal() ?? null]
  const isPlain = proofKey === null && issuer === undefined
  return new Secret(JSON.stringify(isPlain ? plain : [...plain, proofKey, issuer ?? null]))
}

export function unpackToken(value: Secret): TokenValue {
  const [access, refresh, proofKey, issuer] = readToken(value)
  if (typeof access !== 'string' || access === '')
    throw new StoreError('unreadable', 'a token in the vault is damaged')
  return {
    accessToken:
      typeof proofKey === 'string' ? new BoundToken(access, new Secret(proofKey)) : new Secret(access),
    refreshToken: typeof refresh === 'string' ? new Secret(refresh) : undefined,
    ...(typeof issuer === 'string' ? { issuer } : {}),
  }
}

/** Errors are not passed on, because the JSON parser's message would quote the value. */
function readToken(value: Secret): readonly unknown[] {
  try {
    const parsed: unknown = JSON.parse(value.reveal())
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}
