import type { CallFilter } from '#core/ports/store'
import type { Row } from '#store/sql/row'
import type { Database } from './database.ts'

/** Operators' view of calls, newest first; the ambiguous ones have an index of their own. */
export function listCalls(
  database: Database,
  { state, tenant = null, limit }: NullableTenant,
): readonly Row[] {
  if (state === undefined) return database.all('listCalls', tenant, tenant, limit)
  if (state === 'ambiguous') return database.all('listAmbiguousCalls', tenant, tenant, limit)
  return database.all('listCallsByState', state, tenant, tenant, limit)
}

type NullableTenant = Omit<CallFilter, 'tenant'> & { readonly tenant?: string | null }
