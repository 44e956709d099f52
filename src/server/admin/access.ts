/**
 * Decides who may use the admin API: the holder of the start token in every tenant, and credentials with a scope in their own tenant.
 * The composition root creates one `OperatorAccess` for a server, and all admin routes use it. Refusals are written to the audit stream.
 */

import type { ServerScope } from '#admin-api/operation'
import { type Authenticator, type RequestHeaders, readBearer } from '#auth/authenticator'
import type { StartToken } from '#auth/start-token'
import type { Approver } from '#kernel/approval/approvals'
import { fault } from '#kernel/base/errors'
import { coversScope, DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import { API_KEY_HEADERS, type HttpRoute } from '#protocols/http-exchange'
import type { ServerRoute } from '#server/http/router'
import type { NoteDenial } from '#server/telemetry/denials'

/** The response header that names the principal of an admin request. */
export const ACTING_AS = 'collet-acting-as'

/** Only routes that authenticate with this interface accept the start token. Requests from loopback need a credential too. */
export interface OperatorAccess {
  authenticate(headers: RequestHeaders): Promise<Principal>
  /** Authenticates requests to routes that callers may use too: no credential is needed if callers need none. */
  admit(headers: RequestHeaders): Promise<Principal>
  /** Throws `not_authorized` and writes the refusal to the audit stream. */
  requireScope(principal: Principal, scope: ServerScope): void
  /** Used to choose what to show; a missing scope is not a refusal here, so it is not audited. */
  hasScope(principal: Principal, scope: ServerScope): boolean
  /** Audits a refusal that a handler finds after the scope check. */
  noteDenied(principal: Principal, scope: ServerScope): void
}

export function createOperatorAccess(options: {
  readonly startToken: Pick<StartToken, 'matches'>
  readonly authenticator: Authenticator
  readonly noteDenial?: NoteDenial
}): OperatorAccess {
  const { startToken, authenticator, noteDenial } = options
  const noteDenied = (principal: Principal, scope: ServerScope): void =>
    noteDenial?.(principal, { action: 'admin', resource: scope, reason: 'scope' })
  const admit = async (headers: RequestHeaders): Promise<Principal> => {
    const bearer = headers.authorization === undefined ? undefined : readBearer(headers.authorization)
    if (bearer === undefined || !startToken.matches(bearer)) return await authenticator.authenticate(headers)
    // A request with an invalid credential gets a 401, even if another credential of the request is valid (OTC/T-28).
    const { authorization: _startToken, ...others } = headers
    if (API_KEY_HEADERS.some((name) => others[name] !== undefined)) await authenticator.authenticate(others)
    return OPERATOR
  }
  return {
    noteDenied,
    admit,
    async authenticate(headers) {
      const principal = await admit(headers)
      if (isOperator(principal) || authenticator.isConfigured) return principal
      throw fault(
        'unauthenticated',
        'Managing calls, keys, secrets and approvals requires a credential, even on loopback. Send the start token, which the server keeps in the file start-token-<port> of its data folder, as "Authorization: Bearer <token>".',
      )
    },
    hasScope: ({ scopes }, scope) => coversScope(scopes, scope),
    requireScope(principal, scope) {
      if (coversScope(principal.scopes, scope)) return
      noteDenied(principal, scope)
      throw fault('not_authorized', `This needs a credential with the scope ${scope}.`)
    },
  }
}

/** Full access for the local user who opened the store with its key; `id` is their user name on this machine. */
export function createLocalAccess(id: string): OperatorAccess {
  const operator = createOperator(id)
  return {
    authenticate: async () => operator,
    admit: async () => operator,
    requireScope: () => {},
    hasScope: () => true,
    noteDenied: () => {},
  }
}

const OPERATORS = new WeakSet<Principal>()

/** The holder of the start token (rule 29), who sees every tenant. */
export const OPERATOR = createOperator('operator')

function createOperator(id: string): Principal {
  const operator: Principal = { id, tenant: DEFAULT_TENANT, scopes: ['*'] }
  OPERATORS.add(operator)
  return operator
}

export function isOperator(principal: Principal): boolean {
  return OPERATORS.has(principal)
}

/** The only tenant that a principal may see; `undefined` for the operator, who sees all. */
export function visibleTenant(principal: Principal): string | undefined {
  return isOperator(principal) ? undefined : principal.tenant
}

/** The tenant that a request is about. Only the operator may name a tenant other than its own; `refusal` is the error for others. */
export function tenantFor(named: string | undefined, principal: Principal, refusal: string): string {
  const tenant = named ?? principal.tenant
  if (isOperator(principal) || tenant === principal.tenant) return tenant
  throw fault('not_authorized', refusal)
}

/** The operator decides in every tenant, any other approver in its own. */
export function approverOf(principal: Principal): Approver {
  return { id: principal.id, tenant: visibleTenant(principal), scopes: principal.scopes }
}

/** Lets protocol routes that are for operators too accept the start token. */
export function openToOperators(
  routes: readonly HttpRoute[],
  { authenticate }: Pick<OperatorAccess, 'authenticate'>,
): readonly ServerRoute[] {
  return routes.map((route) => (route.forOperators === true ? { ...route, authenticate } : route))
}
