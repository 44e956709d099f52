import { READ_AUDIT, type Refusal } from '#admin-api/server'
import { defined } from '#kernel/base/json'
import { ANONYMOUS, opaquePrincipal, type Principal, principalIdOf } from '#kernel/base/principal'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { serveOperation, timeOf } from '#server/admin/admin-route'
import { parseTime } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import type { Store } from '#store/collet-store'
import type { KeyOwner, RecordedDenial } from '#store/keys'
import { UNKNOWN_CALLER } from './denials.ts'

/*
 * `GET /admin/audit`: refusals of principals, for operators (rule 30a, OWP-62). Used by the admin API.
 * Invariant: principals are opaque, except for operators who manage keys and know the names anyway.
 */

const MAX_KEYS = 10_000

export interface AuditRoutesOptions {
  readonly store: Pick<Store, 'audit' | 'keys' | 'usage' | 'digest'>
  /** Principals with a key in the configuration. */
  configured(): readonly KeyOwner[]
}

/** `GET /admin/audit?after=&limit=&principal=&since=`: refused requests, oldest first. */
export function createAuditRoutes(
  access: OperatorAccess,
  { store, configured }: AuditRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, READ_AUDIT, async ({ principal, query }) => {
      const { after, limit } = query
      const tenant = visibleTenant(principal)
      const sinceMs = parseTime(query.since) ?? 0
      const denials = await store.audit.readDenials(defined({ after, limit, tenant }))
      const known = access.hasScope(principal, 'admin:keys')
        ? await namesOf(store, configured(), tenant)
        : new Map<string, string>()
      const events = denials
        .filter((denial) => denial.atMs >= sinceMs && isAbout(store, denial, query.principal))
        .map((denial) => renderDenial(denial, known.get(denial.principal)))
      return { events, next: denials.at(-1)?.no ?? after }
    }),
  ]
}

/** Whether the denial is about the principal with this id or opaque name. */
export function isAbout(
  { digest }: Pick<Store, 'digest'>,
  { tenant, principal }: RecordedDenial,
  wanted: string | undefined,
): boolean {
  if (wanted === undefined || wanted === principal) return true
  return opaquePrincipal({ digest }, { tenant, id: wanted }) === principal
}

export function renderDenial({ no, atMs, ...denial }: RecordedDenial, id: string | undefined): Refusal {
  const type = 'authorization.decided'
  return { no, type, at: timeOf(atMs), ...denial, ...defined({ principal_id: id }), allowed: false }
}

/**
 * Ids by opaque name, for principals with a key and for recent callers, including callers with a token. A token's principal without
 * recent calls stays opaque, but a filter by its id finds it.
 */
export async function namesOf(
  { keys, usage, digest }: AuditRoutesOptions['store'],
  configured: readonly KeyOwner[],
  tenant: string | undefined,
): Promise<ReadonlyMap<string, string>> {
  const owners = [...configured, ...(await keys.listKeys({ limit: MAX_KEYS }))]
  const { rows } = await usage(defined({ tenant }))
  const known: readonly Pick<Principal, 'tenant' | 'id'>[] = [
    ANONYMOUS,
    UNKNOWN_CALLER,
    ...owners.map((owner) => ({ tenant: owner.tenant, id: principalIdOf(owner.name) })),
    ...rows.map((row) => ({ tenant: row.tenant, id: row.principal })),
  ]
  const distinct = new Map(known.map((each) => [JSON.stringify([each.tenant, each.id]), each]))
  return new Map([...distinct.values()].map((each) => [opaquePrincipal({ digest }, each), each.id]))
}
