import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import { readBearer } from '#auth/bearer'
import type { StartToken } from '#auth/start-token'
import { fault } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { MaybePromise, Store } from '#core/ports/store'
import type { TokenBroker } from '#core/ports/token-broker'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import { coversScope } from '#core/scopes'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { readSecretToSet } from './read-secret.ts'
import { removeCredential } from './remove-credential.ts'
import { renderFacts } from './render-facts.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'
import { setCredential } from './set-credential.ts'

export interface SecretsRoutesOptions {
  readonly store: Pick<Store, 'vault' | 'digest'>
  readonly broker: TokenBroker
  readonly startToken: Pick<StartToken, 'matches'>
  readonly authenticator: Authenticator
  readonly clock: Clock
}

const SCOPE = 'admin:secrets'
const MOST_LISTED = 1_000

/** Whoever holds the start token (rule 29). Sees every tenant. */
const OPERATOR: Principal = { id: 'operator', tenant: DEFAULT_TENANT, scopes: [SCOPE] }

/** Write-only: a value goes in and never comes out again. */
export function createSecretsRoutes(options: SecretsRoutesOptions): readonly ServerRoute[] {
  const { store, broker, clock } = options
  const authenticate = (headers: RequestHeaders): MaybePromise<Principal> => findOperator(options, headers)

  const list = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    checkScope(principal)
    const tenant = tenantOf(principal)
    const filter = { limit: MOST_LISTED, ...(tenant === undefined ? {} : { tenant }) }
    return jsonReply(200, { secrets: (await store.vault.list(filter)).map(renderFacts) }, NO_STORE)
  }

  const set = async ({ principal, body }: HttpRequest): Promise<HttpReply> => {
    checkScope(principal)
    const wanted = readSecretToSet(body, tenantOf(principal))
    const ref = await setCredential(store, wanted, { by: principal.id, atMs: clock.nowMs() })
    return jsonReply(200, { ref }, NO_STORE)
  }

  const remove = async ({ principal, params }: HttpRequest): Promise<HttpReply> => {
    checkScope(principal)
    const tenant = tenantOf(principal)
    const removed = await removeCredential(
      { store, broker },
      { ref: params.ref ?? '', tenant, by: principal.id, atMs: clock.nowMs() },
    )
    if (removed === undefined)
      throw httpFault(404, 'There is no credential with this reference; GET /admin/secrets lists them.')
    return jsonReply(200, { ref: params.ref, revoked: removed.revoked }, NO_STORE)
  }

  const shared = { access: 'authenticated', authenticate, refuse: refuseWithMessage } as const
  return [
    { ...shared, method: 'GET', path: '/admin/secrets', body: 'never', handle: list },
    { ...shared, method: 'POST', path: '/admin/secrets', body: 'json', handle: set },
    { ...shared, method: 'DELETE', path: '/admin/secrets/:ref', body: 'never', handle: remove },
  ]
}

const NO_STORE = { 'cache-control': 'no-store' }

function findOperator(options: SecretsRoutesOptions, headers: RequestHeaders): MaybePromise<Principal> {
  const bearer = headers.authorization === undefined ? undefined : readBearer(headers.authorization)
  if (bearer !== undefined && options.startToken.matches(bearer)) return OPERATOR
  if (options.authenticator.isConfigured) return options.authenticator.authenticate(headers)
  throw fault(
    'unauthenticated',
    'The vault needs a credential, on loopback too. Send the start token, which the server keeps in the file start-token-<port> of its data folder, as "Authorization: Bearer <token>".',
  )
}

function checkScope({ scopes }: Principal): void {
  if (coversScope(scopes, SCOPE)) return
  throw fault('not_authorized', `This needs a credential with the scope ${SCOPE}.`)
}

/** The only tenant a principal may manage; `undefined` for the operator, who may manage all. */
function tenantOf(principal: Principal): string | undefined {
  return principal === OPERATOR ? undefined : principal.tenant
}
