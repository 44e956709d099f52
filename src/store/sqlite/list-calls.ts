import type { CallFilter, OwnCallsPage, OwnCallsQuery } from '#core/ports/store'
import type { SealedText } from '#store/sql/call-row'
import { integer, type Row } from '#store/sql/row'
import { showCall } from '#store/sql/show-call'
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

/** Calls of everybody that one page looks at: some milliseconds. */
const MOST_LOOKED_AT = 5_000

/** Calls of one principal, newest first, and the number to go on before. */
export function listOwnCalls(
  database: Database,
  contents: SealedText,
  { tenant, principal, before, limit }: OwnCallsQuery,
): OwnCallsPage {
  const numbers = database.get('callNumbers')
  if (numbers === undefined) return { calls: [] }
  const first = integer(numbers, 'first')
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, integer(numbers, 'last') + 1)
  const from = Math.max(first, end - MOST_LOOKED_AT)
  const rows = database.all('listOwnCalls', end, from, tenant, principal, limit)
  const last = rows.length < limit ? undefined : rows.at(-1)
  const next = last === undefined ? from : integer(last, 'no')
  const calls = rows.map((row) => showCall(row, contents))
  return next > first ? { calls, next } : { calls }
}
