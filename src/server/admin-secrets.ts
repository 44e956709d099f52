import type { Store } from '#core/ports/store'
import type { Clock, TokenBroker } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { type OperatorAccess, tenantWithin } from './operator-access.ts'
import { readSecretToSet } from './read-secret.ts'
import { removeCredential } from './remove-credential.ts'
import { renderFacts } from './render-facts.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'
import { setCredential } from './set-credential.ts'

export interface SecretsRoutesOptions {
  readonly store: Pick<Store, 'vault' | 'digest'>
  readonly broker: TokenBroker
  readonly access: OperatorAccess
  readonly clock: Clock
}

const SCOPE = 'admin:secrets'
const MOST_LISTED = 1_000

/** Write-only: a value goes in and never comes out again. */
export function createSecretsRoutes(options: SecretsRoutesOptions): readonly ServerRoute[] {
  const { store, broker, clock } = options
  const { authenticate, requireScope } = options.access

  const list = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    requireScope(principal, SCOPE)
    const tenant = tenantWithin(principal)
    const filter = { limit: MOST_LISTED, ...(tenant === undefined ? {} : { tenant }) }
    return jsonReply(200, { secrets: (await store.vault.list(filter)).map(renderFacts) }, NO_STORE)
  }

  const set = async ({ principal, body }: HttpRequest): Promise<HttpReply> => {
    requireScope(principal, SCOPE)
    const wanted = readSecretToSet(body, tenantWithin(principal))
    const ref = await setCredential(store, wanted, { by: principal.id, atMs: clock.nowMs() })
    return jsonReply(200, { ref }, NO_STORE)
  }

  const remove = async ({ principal, params }: HttpRequest): Promise<HttpReply> => {
    requireScope(principal, SCOPE)
    const tenant = tenantWithin(principal)
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
