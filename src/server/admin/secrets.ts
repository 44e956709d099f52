/**
 * Lists, stores and removes credentials in the vault, and connects principals to OAuth providers before a tool needs their tokens.
 * The vault is write-only: no route returns a value. A caller writes only to its own tenant, and connects only its own principal unless it
 * has the scope `admin:secrets`.
 */
import { randomBytes } from 'node:crypto'
import type { BodyOf } from '#admin-api/operation'
import {
  CONNECT_PROVIDER,
  LIST_PROVIDERS,
  LIST_SECRETS,
  REMOVE_SECRET,
  SET_SECRET,
  type StoredCredential,
} from '#admin-api/secrets'
import type { OAuthProviderSettings, OAuthSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, StoreError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { ANONYMOUS, type Principal, WHOLE_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { TokenBroker } from '#kernel/base/token-broker'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Tool } from '#kernel/tool/tool'
import { newCredentialRef } from '#oauth/consent'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { explainObstacle } from '#stages/credentials/consent-obstacles'
import { packToken, unpackToken, userDigest } from '#stages/credentials/credentials'
import type { Store } from '#store/collet-store'
import type { VaultFacts } from '#store/vault'
import { isOperator, type OperatorAccess, tenantFor, visibleTenant } from './access.ts'
import { badRequest, serveOperation, timeOf } from './admin-route.ts'

interface SecretsRoutesOptions {
  readonly store: Pick<Store, 'vault' | 'digest'>
  readonly broker: TokenBroker
  readonly clock: Clock
  /** The principal of callers without a credential; `undefined` if every caller needs one; `unknown` without a config. */
  openCaller(): MaybePromise<OpenCaller>
}

type OpenCaller = Principal | undefined | 'unknown'

const MAX_LISTED = 1_000

export function createSecretsRoutes(
  access: OperatorAccess,
  { store, broker, clock, openCaller }: SecretsRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_SECRETS, async ({ principal }) => {
      const tenant = visibleTenant(principal)
      const found = await store.vault.list(defined({ limit: MAX_LISTED, tenant }))
      return { secrets: found.map(renderCredential) }
    }),
    serveOperation(access, SET_SECRET, async ({ principal: setter, body }) => {
      const { name, kind, scopes } = body
      const tenant = tenantFor(body.tenant, setter, OWN_TENANT_ONLY)
      const principal = readOwner(body.principal, await openCaller())
      if (principal === WHOLE_TENANT && (kind === 'token' || body.user_id !== undefined))
        throw badRequest(
          'A credential shared by a whole tenant must be a secret, not a token, and cannot belong to a user.',
        )
      const value = new Secret(body.value)
      const ref = newCredentialRef()
      await store.vault.put({
        ...{ tenant, principal, user: userDigest(store, body.user_id), provider: name, kind, ref, scopes },
        value: kind === 'token' ? packToken({ accessToken: value, refreshToken: undefined }) : value,
        expiresAtMs: undefined,
        ...{ by: setter.id, atMs: clock.nowMs() },
      })
      return { ref }
    }),
    serveOperation(access, REMOVE_SECRET, async ({ principal, id: ref }) => {
      const facts = await store.vault.findByRef(ref)
      const tenant = visibleTenant(principal)
      if (facts !== undefined && facts.tenant === (tenant ?? facts.tenant)) {
        const token = await tokenToRevoke(store, facts)
        // The credential is removed first: it must not stay in the vault if the provider does not answer.
        if (await store.vault.remove(facts, principal.id, clock.nowMs()))
          return { ref, revoked: token !== undefined && (await broker.revoke(facts.provider, token)) }
      }
      throw httpFault(
        404,
        'There is no credential with this reference. "collet secrets list" and GET /admin/secrets list them.',
      )
    }),
  ]
}

const OWN_TENANT_ONLY = 'This credential may only write to its own tenant.'

function renderCredential(facts: VaultFacts): StoredCredential {
  return {
    ref: facts.ref,
    kind: facts.kind,
    name: facts.provider,
    tenant: facts.tenant,
    principal: facts.principal,
    user: facts.user === '' ? null : facts.user,
    scopes: [...facts.scopes],
    state: facts.isSpent ? 'spent' : 'live',
    expires_at: timeOf(facts.expiresAtMs),
    created_at: timeOf(facts.createdAtMs),
    updated_at: timeOf(facts.updatedAtMs),
  }
}

function renderConnection(facts: VaultFacts) {
  const { ref, tenant, principal, user, scopes, state, updated_at } = renderCredential(facts)
  return { ref, tenant, principal, user, scopes, state, updated_at }
}

/** Revoking the refresh token ends its access tokens too (RFC 7009 §2.1). A credential that cannot be read can still be removed. */
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

/** A name without its kind is not a principal (rule 3), so no caller could use a credential that is stored for it. */
const PRINCIPAL = /^[a-z]+:./
/** Without a name the owner is the local user, if callers need no credential (rule 28). */
function readOwner(principal: string | undefined, openCaller: OpenCaller): string {
  const isLocal = openCaller !== 'unknown' && openCaller?.isLocal === true
  if (principal === undefined && isLocal) return ANONYMOUS.id
  if (principal === undefined)
    throw badRequest(
      'Name the owner: --principal key:<id> (`principal`), or --tenant T for all callers of a tenant (`"principal": "*"`).',
    )
  if (principal === WHOLE_TENANT) return principal
  if (principal === ANONYMOUS.id) {
    if (isLocal || openCaller === 'unknown') return principal
    throw badRequest(
      openCaller === undefined
        ? 'Every caller of this server needs a credential, so no call would use a credential stored for `anonymous`. Store it for --principal key:NAME.'
        : 'Callers without a key have no vault here. Create a key with collet keys create NAME, and store the credential for --principal key:NAME; or send it with the call: collet call TOOL --secret ID=VALUE.',
    )
  }
  return checkPrincipal(principal)
}

interface ProviderRoutesOptions {
  /** The principal of callers without a credential; `undefined` if every caller needs one. */
  openCaller(): Principal | undefined
  readonly store: Pick<Store, 'vault' | 'openChallenge'>
  readonly broker: TokenBroker
  readonly clock: Clock
  publicUrl(): string
  /** The providers of the config, by the id that tools refer to. */
  providers(): OAuthSettings['providers']
  tools(): readonly Tool[]
}

const LINK_LIFETIME_MS = 10 * 60_000
const LINK_BYTES = 24

export function createProviderRoutes(
  access: OperatorAccess,
  options: ProviderRoutesOptions,
): readonly ServerRoute[] {
  const { broker, clock, store, publicUrl } = options
  return [
    serveOperation(access, LIST_PROVIDERS, async ({ principal }) => {
      const held = await store.vault.list(defined({ limit: MAX_LISTED, tenant: visibleTenant(principal) }))
      const seesAll = access.hasScope(principal, 'admin:secrets')
      const isVisible = ({ kind, principal: owner, user }: VaultFacts) =>
        kind === 'token' && (seesAll || (owner === principal.id && user === ''))
      return {
        providers: Object.entries(options.providers()).map(([id, settings]) => ({
          id,
          at: hostOf(settings),
          scopes: scopesFor(id, settings, options.tools()),
          tools: options.tools().filter((tool) => needsOf(tool, id) !== undefined).length,
          can_connect: broker.obstacle(id, []) === undefined,
          connections: held
            .filter((facts) => facts.provider === id && isVisible(facts))
            .map(renderConnection),
        })),
      }
    }),
    serveOperation(access, CONNECT_PROVIDER, async ({ principal: sender, id, body }) => {
      const settings = findProvider(id, options.providers())
      const tenant = tenantFor(body.tenant, sender, OWN_TENANT_ONLY)
      const owner = ownerOf(body, sender)
      const scopes = body.scopes ?? scopesFor(id, settings, options.tools())
      const obstacle = broker.obstacle(id, scopes)
      if (obstacle !== undefined) {
        const request = { provider: id, scopes, principal: owner }
        const { reason, operator = '' } = explainObstacle(obstacle, request)
        throw fault('not_authorized', `${reason} ${operator}`)
      }
      const atMs = clock.nowMs()
      const challenge = await store.openChallenge({
        id: randomBytes(LINK_BYTES).toString('base64url').replace(/^-/, '_'),
        ...{ tenant, principal: owner, user: '', provider: id, scopes },
        tool: 'every tool that needs it',
        atMs,
        expiresAtMs: atMs + LINK_LIFETIME_MS,
        consent: true,
      })
      const url = `${publicUrl()}/challenges/${challenge.id}`
      const expiresAt = timeOf(challenge.expiresAtMs)
      return { url, check_url: `${url}/status`, principal: owner, expires_at: expiresAt }
    }),
  ]

  /** The principal to connect: the one in the body, else the sender; if the operator sends it, the local caller without a credential. */
  function ownerOf(
    { principal: named }: NonNullable<BodyOf<typeof CONNECT_PROVIDER>>,
    sender: Principal,
  ): string {
    const local = options.openCaller()?.isLocal === true ? ANONYMOUS.id : undefined
    const owner = named ?? (isOperator(sender) ? local : sender.id)
    if (owner !== undefined && owner !== local) checkPrincipal(owner)
    if (owner !== sender.id) access.requireScope(sender, 'admin:secrets')
    if (owner !== undefined) return owner
    throw badRequest(
      'Name the principal to connect, which is the caller of the tools: `"principal": "key:<id>"`.',
    )
  }
}

function findProvider(id: string, providers: OAuthSettings['providers']): OAuthProviderSettings {
  const found = Object.hasOwn(providers, id) ? providers[id] : undefined
  if (found !== undefined) return found
  const hint = didYouMean(id, Object.keys(providers))
  throw httpFault(404, `There is no provider "${id}" in the config.${hint} Add it under oauth.providers.`)
}

/** Scopes of this provider that tools need and the config allows. */
function scopesFor(id: string, { scopes }: OAuthProviderSettings, tools: readonly Tool[]): readonly string[] {
  const needed = new Set(tools.flatMap((tool) => needsOf(tool, id) ?? []))
  return [...needed].filter((scope) => scopes === undefined || scopes.includes(scope)).sort()
}

function needsOf({ requirements }: Tool, id: string): readonly string[] | undefined {
  const need = requirements?.authorization?.find((each) => each.id === id)
  return need === undefined ? undefined : (need.oauth2?.scopes ?? [])
}

function hostOf({ issuer, authorizationEndpoint }: OAuthProviderSettings): string {
  return URL.parse(issuer ?? authorizationEndpoint ?? '')?.host ?? ''
}

function checkPrincipal(principal: string): string {
  if (PRINCIPAL.test(principal)) return principal
  throw badRequest('`principal` must begin with its kind: "key:<id>" or "jwt:<issuer>#<sub>".')
}
