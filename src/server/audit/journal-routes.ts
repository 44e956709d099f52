/**
 * Serves the events of the journal, newest first (`GET /admin/journal/events`). A tenant's auditor sees the events of that tenant; the
 * operator sees all. Principals in denials are opaque, except for readers who manage keys and know the names anyway.
 */
import { LIST_JOURNAL, type ListedEvent } from '#admin-api/journal'
import { defined } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { serveOperation, timeOf } from '#server/admin/admin-route'
import { parseTime } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import { type AuditRoutesOptions, namesOf } from '#server/telemetry/audit'
import { factsOf } from '#store/audit/journal-facts'
import type { JournalCursor, JournalEntry, JournalSearch } from '#store/audit/journal-reader'
import type { Store } from '#store/collet-store'

interface JournalEventsOptions {
  readonly store: Pick<Store, 'journal'> & AuditRoutesOptions['store']
  readonly configured: AuditRoutesOptions['configured']
}

export function createJournalEventRoutes(
  access: OperatorAccess,
  { store, configured }: JournalEventsOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_JOURNAL, async ({ principal, query: { before, limit, ...filter } }) => {
      const search = { ...toSearch(filter, principal), before: readCursor(before) }
      const { entries, next, searchedToMs } = await store.journal.readPage(search, limit)
      const hasDenials = entries.some(({ event }) => event.type === 'authorization.decided')
      const names = hasDenials ? await knownNames(access, principal, { store, configured }) : NO_NAMES
      return {
        events: entries.map((entry) => renderEntry(entry, names)),
        next: next === undefined ? null : [next.atMs, next.no, next.group, next.index].join('.'),
        searched_to: timeOf(searchedToMs),
      }
    }),
  ]
}

/** Ids of principals by their opaque names. */
export type Names = ReadonlyMap<string, string>

const NO_NAMES: Names = new Map()

/** The names that a reader may see; none without the scope `admin:keys`. */
export async function knownNames(
  access: OperatorAccess,
  principal: Principal,
  { store, configured }: AuditRoutesOptions,
): Promise<Names> {
  if (!access.hasScope(principal, 'admin:keys')) return NO_NAMES
  return await namesOf(store, configured(), visibleTenant(principal))
}

interface JournalQuery {
  readonly person?: string | undefined
  readonly action?: string | undefined
  readonly object?: string | undefined
  readonly tenant?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/** Only the operator may name a tenant; for others the member is ignored, as in lists of calls. */
export function toSearch(query: JournalQuery, principal: Principal): JournalSearch {
  const { person, action, object, since, until } = query
  const visible = visibleTenant(principal)
  const tenant = visible === undefined ? query.tenant : undefined
  return {
    ...{ person, object, tenant, actions: action?.split(',') },
    sinceMs: parseTime(since),
    untilMs: parseTime(until),
    sight: { tenant: visible },
  }
}

function readCursor(text: string | undefined): JournalCursor | undefined {
  if (text === undefined) return undefined
  const [atMs = 0, no = 0, group = 0, index = 0] = text.split('.').map(Number)
  return { atMs, no, group, index }
}

/** Members of an event that the answer has under its own names. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(['at', 'type', 'tenant', 'record', 'approval'])

export function renderEntry({ writer, group, index, link, event }: JournalEntry, names: Names): ListedEvent {
  const { who, tenant, principal, object, why } = factsOf(event)
  const members = Object.entries(event).filter(([name]) => !OWN_MEMBERS.has(name))
  return {
    id: `${writer}:${group}:${index}`,
    at: timeOf(event.at),
    type: event.type,
    who: who ?? null,
    ...defined({ who_name: who === undefined ? undefined : names.get(who) }),
    tenant: tenant ?? null,
    principal: principal ?? null,
    object: object ?? null,
    why: why ?? null,
    record: 'record' in event ? event.record : null,
    approval: 'approval' in event ? event.approval : null,
    facts: Object.fromEntries(members.map(([name, value]) => [snakeName(name), value])),
    ...{ writer, group, link },
  }
}

function snakeName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
