import type { Approver } from '#core/approvals/approvals'
import type { Principal } from '#core/principal'
import type { HttpRoute } from '#protocols/http-exchange'
import { isOperator, type OperatorAccess } from './operator-access.ts'
import type { ServerRoute } from './server-route.ts'

/** The operator looks at every tenant, everybody else at its own. */
export function approverOf(principal: Principal): Approver {
  const { id, tenant, scopes } = principal
  return { id, tenant: isOperator(principal) ? undefined : tenant, scopes }
}

/** Lets the start token open interrupts too; what needs no credential stays as it is. */
export function openToOperators(
  routes: readonly HttpRoute[],
  { authenticate }: Pick<OperatorAccess, 'authenticate'>,
): readonly ServerRoute[] {
  return routes.map((route) =>
    route.access === 'authenticated' && route.path.includes('/interrupts/')
      ? { ...route, authenticate }
      : route,
  )
}
