import { randomBytes } from 'node:crypto'
import type { OAuthProviderSettings, OAuthSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, StoreError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { ANONYMOUS, DEFAULT_TENANT, type Principal, WHOLE_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { TokenBroker } from '#kernel/base/token-broker'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CredentialKind } from '#kernel/journal/events'
import type { Tool } from '#kernel/tool/tool'
import { newCredentialRef } from '#oauth/consent'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { explainObstacle } from '#stages/credentials/consent-obstacles'
import { packToken, unpackToken, userDigest } from '#stages/credentials/credentials'
import type { Store } from '#store/collet-store'
import type { VaultFacts } from '#store/vault'
import { adminRoute, badRequest, isOperator, NO_STORE, type OperatorAccess, tenantWithin } from './access.ts'

interface SecretsRoutesOptions {
  readonly store: Pick<Store, 'vault' | 'digest'>
  readonly broker: TokenBroker
  readonly clock: Clock
  /** Who calls without a credential; `undefined` where every caller needs one. `unknown`: without a config that cannot be said. */
  openCaller(): MaybePromise<Principal | undefined | 'unknown'>
}

const SCOPE = 'admin:secrets'
const MAX_LISTED = 1_000

/** Write-only: a value goes in and never comes out again. */
export function createSecretsRoutes(
  { store, broker, clock, openCaller }: SecretsRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SCOPE)
    const tenant = tenantWithin(principal)
    const filter = { limit: MAX_LISTED, ...(tenant === undefined ? {} : { tenant }) }
    return jsonReply(200, { secrets: (await store.vault.list(filter)).map(renderFacts) }, NO_STORE)
  }

  const set = async ({ principal, body }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SCOPE)
    const wanted = readSecretToSet(body, {
      ownTenant: tenantWithin(principal),
      openCaller: await openCaller(),
    })
    const ref = await setCredential(store, wanted, { by: principal.id, atMs: clock.nowMs() })
    return jsonReply(200, { ref }, NO_STORE)
  }

  const remove = async ({ principal, params }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SCOPE)
    const tenant = tenantWithin(principal)
    const removed = await removeCredential(
      { store, broker },
      { ref: params.ref ?? '', tenant, by: principal.id, atMs: clock.nowMs() },
    )
    if (removed === undefined)
      throw httpFault(
        404,
        'There is no credential with this reference. "collet secrets list" and GET /admin/secrets list them.',
      )
    return jsonReply(200, { ref: params.ref, revoked: removed.revoked }, NO_STORE)
  }

  return [
    adminRoute(access, 'GET', '/admin/secrets', list),
    adminRoute(access, 'POST', '/admin/secrets', set),
    adminRoute(access, 'DELETE', '/admin/secrets/:ref', remove),
  ]
}

/** Puts one credential in the place of the one that is there; gives its reference. */
async function setCredential(
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

/** A credential as operators see it: never its value. */
export type RenderedCredential = ReturnType<typeof renderFacts>

/** A user is shown as a digest: the same user, the same text. */
function renderFacts(facts: VaultFacts) {
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

/**
 * Forgets one credential, then tells its provider; `undefined` when there is none. First here: a provider that does not
 * answer must not keep a credential alive in the vault.
 */
async function removeCredential(
  { store, broker }: { readonly store: Pick<Store, 'vault'>; readonly broker: TokenBroker },
  wanted: {
    readonly ref: string
    readonly tenant: string | undefined
    readonly by: string
    readonly atMs: number
  },
): Promise<{ readonly revoked: boolean } | undefined> {
  const facts = await store.vault.findByRef(wanted.ref)
  if (facts === undefined || (wanted.tenant !== undefined && facts.tenant !== wanted.tenant)) return undefined
  const token = await tokenToRevoke(store, facts)
  if (!(await store.vault.remove(facts, wanted.by, wanted.atMs))) return undefined
  return { revoked: token !== undefined && (await broker.revoke(facts.provider, token)) }
}

/** The refresh token takes all its access tokens with it (RFC 7009 §2.1). What cannot be read can still be removed. */
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

/** What an operator puts into the vault. */
interface SecretToSet {
  readonly tenant: string
  readonly principal: string
  readonly userId: string | undefined
  readonly name: string
  readonly kind: CredentialKind
  readonly scopes: readonly string[]
  readonly value: Secret
}

const MEMBERS: ReadonlySet<string> = new Set([
  'kind',
  'name',
  'principal',
  'scopes',
  'tenant',
  'user_id',
  'value',
])
/** A name without its kind is no principal (rule 3): no caller could use what is kept for it. */
const PRINCIPAL = /^[a-z]+:./
const NO_SUCH_PRINCIPAL = '`principal` begins with its kind: "key:<id>" or "jwt:<issuer>#<sub>".'
const MAX_NAME_LENGTH = 256
const MAX_VALUE_LENGTH = 64 * 1_024

interface SecretRules {
  /** The only one its sender may write to; `undefined` = any. */
  readonly ownTenant: string | undefined
  readonly openCaller: Principal | undefined | 'unknown'
}

/** Checks what was sent; texts of refusals never repeat it. */
function readSecretToSet(body: JsonValue | undefined, { ownTenant, openCaller }: SecretRules): SecretToSet {
  if (!isJsonObject(body))
    throw badRequest(
      'Send a JSON object with `name`, `principal` and `value`, and optionally `user_id`, `kind`, `scopes` and `tenant`.',
    )
  if (Object.keys(body).some((name) => !MEMBERS.has(name)))
    throw badRequest(`Only ${[...MEMBERS].join(', ')} may be sent.`)
  const { kind = 'secret', scopes = [], value } = body
  const tenant = body.tenant === undefined ? (ownTenant ?? DEFAULT_TENANT) : readName(body.tenant, 'tenant')
  if (ownTenant !== undefined && tenant !== ownTenant)
    throw fault('not_authorized', 'This credential may only write to its own tenant.')
  const principal = readOwner(body.principal, openCaller)
  if (kind !== 'secret' && kind !== 'token') throw badRequest('`kind` is "secret" or "token".')
  if (!Array.isArray(scopes) || !scopes.every((scope) => typeof scope === 'string' && scope !== ''))
    throw badRequest('`scopes` is a list of texts.')
  if (kind === 'secret' && scopes.length > 0)
    throw badRequest('`scopes` can only be sent with `kind: "token"`.')
  if (typeof value !== 'string' || value === '' || value.length > MAX_VALUE_LENGTH)
    throw badRequest(`\`value\` is a text of 1 to ${MAX_VALUE_LENGTH} characters.`)
  const userId = body.user_id === undefined ? undefined : readName(body.user_id, 'user_id')
  if (principal === WHOLE_TENANT && (kind === 'token' || userId !== undefined))
    throw badRequest('What a tenant shares is a secret, never a token, and never of a user.')
  const name = readName(body.name, 'name')
  return {
    tenant,
    principal,
    userId,
    name,
    kind,
    scopes: scopes.filter((scope) => typeof scope === 'string'),
    value: new Secret(value),
  }
}

/** Without a name it is for the person at this machine, where callers need no credential (rule 28). */
function readOwner(written: JsonValue | undefined, openCaller: SecretRules['openCaller']): string {
  const isLocal = openCaller !== 'unknown' && openCaller?.isLocal === true
  if (written === undefined && isLocal) return ANONYMOUS.id
  if (written === undefined)
    throw badRequest(
      'Say who it belongs to: --principal key:<id> (`principal`), or --tenant T for all callers of a tenant (`"principal": "*"`).',
    )
  const principal = readName(written, 'principal')
  if (principal === WHOLE_TENANT) return principal
  if (principal === ANONYMOUS.id) {
    if (isLocal || openCaller === 'unknown') return principal
    throw badRequest(
      openCaller === undefined
        ? 'Every caller of this server needs a credential, so no call would use what is stored for `anonymous`. Store it for --principal key:NAME.'
        : 'Callers without a key have no vault here. Make a key with collet keys create NAME, and store it for --principal key:NAME; or send it with the call: collet call TOOL --secret ID=VALUE.',
    )
  }
  if (!PRINCIPAL.test(principal)) throw badRequest(NO_SUCH_PRINCIPAL)
  return principal
}

function readName(text: JsonValue | undefined, member: string): string {
  const isName =
    typeof text === 'string' && text !== '' && text.length <= MAX_NAME_LENGTH && !hasControl(text)
  if (isName) return text
  throw badRequest(`\`${member}\` is a text of 1 to ${MAX_NAME_LENGTH} characters.`)
}

function hasControl(text: string): boolean {
  return /\p{Cc}/u.test(text)
}

interface ProviderRoutesOptions {
  /** Who calls without a credential; `undefined` where every caller needs one. */
  openCaller(): Principal | undefined
  readonly store: Pick<Store, 'vault' | 'openChallenge'>
  readonly broker: TokenBroker
  readonly clock: Clock
  publicUrl(): string
  /** Of the config, by the name that tools know them by. */
  providers(): OAuthSettings['providers']
  tools(): readonly Tool[]
}

const LINK_LIFETIME_MS = 10 * 60_000
const LINK_BYTES = 24

/**
 * Providers whose access people grant, before an agent asks for it: which there are, who is connected, and a link where a person
 * consents. Everybody may connect themselves; for others, and to see them, it takes the scope of secrets.
 */
export function createProviderRoutes(
  options: ProviderRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    const held = await connectionsFor(principal, options, access)
    const providers = Object.entries(options.providers()).map(([id, settings]) => ({
      id,
      at: hostOf(settings),
      scopes: scopesFor(id, settings, options.tools()),
      tools: options.tools().filter((tool) => needsOf(tool, id) !== undefined).length,
      can_connect: options.broker.obstacle(id, []) === undefined,
      connections: held.filter(({ provider }) => provider === id).map(renderConnection),
    }))
    return jsonReply(200, { providers }, NO_STORE)
  }
  const connect = async ({ principal, params, body }: HttpRequest): Promise<HttpReply> => {
    const id = params.id ?? ''
    const settings = findProvider(id, options.providers())
    const wanted = readWanted(body, principal)
    const local = options.openCaller()?.isLocal === true ? ANONYMOUS.id : undefined
    const whose = wanted.principal ?? (isOperator(principal) ? local : principal.id)
    if (whose !== undefined && whose !== local) checkPrincipal(whose)
    if (whose !== principal.id) access.requireScope(principal, SCOPE)
    if (whose === undefined)
      throw badRequest('Say whose access it is to be: `"principal": "key:<id>"`, the caller of the tools.')
    const scopes = wanted.scopes ?? scopesFor(id, settings, options.tools())
    const obstacle = options.broker.obstacle(id, scopes)
    if (obstacle !== undefined) {
      const { reason, operator = '' } = explainObstacle(obstacle, { provider: id, scopes, principal: whose })
      throw fault('not_authorized', `${reason} ${operator}`)
    }
    const atMs = options.clock.nowMs()
    const challenge = await options.store.openChallenge({
      id: randomBytes(LINK_BYTES).toString('base64url').replace(/^-/, '_'),
      ...{ tenant: wanted.tenant, principal: whose, user: '', provider: id, scopes },
      tool: 'every tool that needs it',
      atMs,
      expiresAtMs: atMs + LINK_LIFETIME_MS,
      consent: true,
    })
    const url = `${options.publicUrl()}/challenges/${challenge.id}`
    const expiresAt = new Date(challenge.expiresAtMs).toISOString()
    return jsonReply(
      200,
      { url, check_url: `${url}/status`, principal: whose, expires_at: expiresAt },
      NO_STORE,
    )
  }
  return [
    adminRoute(access, 'GET', '/admin/providers', list),
    adminRoute(access, 'POST', '/admin/providers/:id/connect', connect),
  ]
}

async function connectionsFor(
  principal: Principal,
  { store }: ProviderRoutesOptions,
  access: OperatorAccess,
): Promise<readonly VaultFacts[]> {
  const tenant = tenantWithin(principal)
  const held = await store.vault.list({ limit: MAX_LISTED, ...(tenant === undefined ? {} : { tenant }) })
  const tokens = held.filter(({ kind }) => kind === 'token')
  return access.hasScope(principal, SCOPE)
    ? tokens
    : tokens.filter((each) => each.principal === principal.id && each.user === '')
}

function findProvider(id: string, providers: OAuthSettings['providers']): OAuthProviderSettings {
  const found = Object.hasOwn(providers, id) ? providers[id] : undefined
  if (found !== undefined) return found
  const meant = didYouMean(id, Object.keys(providers))
  throw httpFault(404, `There is no provider "${id}" in the config.${meant} Add it under oauth.providers.`)
}

/** What its tools need, within what may be asked for. */
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

/** Whose access it is, never what it is. Users are shown as digests. */
function renderConnection(facts: VaultFacts) {
  return {
    ref: facts.ref,
    tenant: facts.tenant,
    principal: facts.principal,
    user: facts.user === '' ? null : facts.user,
    scopes: [...facts.scopes],
    state: facts.isSpent ? 'spent' : 'live',
    updated_at: new Date(facts.updatedAtMs).toISOString(),
  }
}

function checkPrincipal(principal: string): void {
  if (!PRINCIPAL.test(principal)) throw badRequest(NO_SUCH_PRINCIPAL)
}

/** `{ principal?, tenant?, scopes? }` */
function readWanted(body: JsonValue | undefined, sender: Principal) {
  const { principal, tenant: named, scopes } = isJsonObject(body) ? body : {}
  const tenant = named === undefined ? sender.tenant : readName(named, 'tenant')
  if (!isOperator(sender) && tenant !== sender.tenant)
    throw fault('not_authorized', 'This credential may only write to its own tenant.')
  if (principal !== undefined && typeof principal !== 'string') throw badRequest(NO_SUCH_PRINCIPAL)
  const isList = Array.isArray(scopes) && scopes.every((scope) => typeof scope === 'string' && scope !== '')
  if (scopes !== undefined && !isList) throw badRequest('`scopes` is a list of texts.')
  const asked = Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === 'string') : undefined
  return { principal, tenant, scopes: asked }
}
