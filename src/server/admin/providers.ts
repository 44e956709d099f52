import { randomBytes } from 'node:crypto'
import type { OAuthProviderSettings, OAuthSettings } from '#config/settings'
import { fault } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import type { Store } from '#core/ports/store'
import type { VaultFacts } from '#core/ports/vault-store'
import type { Principal } from '#core/principal'
import type { Clock, TokenBroker } from '#core/runtime'
import type { Tool } from '#core/tool'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { adminRoute, badRequest, isOperator, NO_STORE, type OperatorAccess, tenantWithin } from './access.ts'

interface ProviderRoutesOptions {
  readonly store: Pick<Store, 'vault' | 'openChallenge'>
  readonly broker: TokenBroker
  readonly clock: Clock
  publicUrl(): string
  /** Of the config, by the name that tools know them by. */
  providers(): OAuthSettings['providers']
  tools(): readonly Tool[]
}

const SCOPE = 'admin:secrets'
const MOST_LISTED = 1_000
const LINK_LIFETIME_MS = 10 * 60_000
const LINK_BYTES = 24
const PRINCIPAL = /^(?:key|jwt):.{1,250}$/

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
      can_connect: options.broker.canAsk(id, []),
      connections: held.filter(({ provider }) => provider === id).map(renderConnection),
    }))
    return jsonReply(200, { providers }, NO_STORE)
  }
  const connect = async ({ principal, params, body }: HttpRequest): Promise<HttpReply> => {
    const id = params.id ?? ''
    const settings = findProvider(id, options.providers())
    const wanted = readWanted(body)
    const whose = wanted.principal ?? principal.id
    if (wanted.principal !== undefined && wanted.principal !== principal.id)
      access.requireScope(principal, SCOPE)
    else if (isOperator(principal))
      throw badRequest('Say whose access it is to be: `"principal": "key:<id>"`, the caller of the tools.')
    const scopes = wanted.scopes ?? scopesFor(id, settings, options.tools())
    if (!options.broker.canAsk(id, scopes)) throw fault('not_authorized', CANNOT_ASK)
    const atMs = options.clock.nowMs()
    const challenge = await options.store.openChallenge({
      id: randomBytes(LINK_BYTES).toString('base64url').replace(/^-/, '_'),
      ...{ tenant: principal.tenant, principal: whose, user: '', provider: id, scopes },
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

const CANNOT_ASK =
  'People cannot be sent to this provider from here: others reach this server, so it has to know who consents. Set oauth.signIn in the config, or allow these scopes under the provider.'

async function connectionsFor(
  principal: Principal,
  { store }: ProviderRoutesOptions,
  access: OperatorAccess,
): Promise<readonly VaultFacts[]> {
  const tenant = tenantWithin(principal)
  const held = await store.vault.list({ limit: MOST_LISTED, ...(tenant === undefined ? {} : { tenant }) })
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

/** `{ principal?, scopes? }` */
function readWanted(body: JsonValue | undefined) {
  const { principal, scopes } = isJsonObject(body) ? body : {}
  if (principal !== undefined && (typeof principal !== 'string' || !PRINCIPAL.test(principal)))
    throw badRequest('`principal` begins with its kind: "key:<id>" or "jwt:<issuer>#<sub>".')
  const isList = Array.isArray(scopes) && scopes.every((scope) => typeof scope === 'string' && scope !== '')
  if (scopes !== undefined && !isList) throw badRequest('`scopes` is a list of texts.')
  const asked = Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === 'string') : undefined
  return { principal, scopes: asked }
}
