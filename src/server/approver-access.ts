import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import { readBearer } from '#auth/bearer'
import type { StartToken } from '#auth/start-token'
import type { Approver } from '#core/approvals/approval-desk'
import { fault } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import type { HttpRoute } from '#protocols/http-exchange'
import type { ServerRoute } from './server-route.ts'

/** Whoever holds the start token: the person at this machine, who may decide anything here (rule 29). */
const OPERATOR: Principal = { id: 'operator', tenant: DEFAULT_TENANT, scopes: ['*'] }

export interface ApproverAccess {
  readonly startToken: Pick<StartToken, 'matches'>
  readonly authenticator: Authenticator
}

/** A credential, on loopback too: the start token, or one that the server knows. */
export function findApprover(access: ApproverAccess, headers: RequestHeaders): MaybePromise<Principal> {
  const bearer = headers.authorization === undefined ? undefined : readBearer(headers.authorization)
  if (bearer !== undefined && access.startToken.matches(bearer)) return OPERATOR
  if (access.authenticator.isConfigured) return access.authenticator.authenticate(headers)
  throw fault(
    'unauthenticated',
    'Deciding about calls needs a credential, on loopback too. Send the start token, which the server keeps in the file start-token-<port> of its data folder, as "Authorization: Bearer <token>".',
  )
}

/** The operator looks at every tenant, everybody else at its own. */
export function approverOf(principal: Principal): Approver {
  const { id, tenant, scopes } = principal
  return { id, tenant: principal === OPERATOR ? undefined : tenant, scopes }
}

/** Lets the start token open interrupts too; what needs no credential stays as it is. */
export function openToOperators(
  routes: readonly HttpRoute[],
  access: ApproverAccess,
): readonly ServerRoute[] {
  return routes.map((route) =>
    route.access === 'authenticated' && route.path.includes('/interrupts/')
      ? { ...route, authenticate: (headers: RequestHeaders) => findApprover(access, headers) }
      : route,
  )
}
