import { DEFAULT_TENANT } from '#kernel/base/principal'
import type { JournalEvent } from '#kernel/journal/events'

/**
 * What a journal event says to an auditor: who acted, in which tenant, on which object, and why; and whether an event matches
 * the auditor's filter. The journal's page, its exports and `collet journal` use these functions, so that all of them select
 * equal events.
 */

const OBJECT_KINDS = [
  ...['tool', 'source', 'key', 'principal', 'session', 'run', 'credential', 'provider', 'action', 'export'],
  ...['keys', 'receipt_key'],
] as const
type ObjectKind = (typeof OBJECT_KINDS)[number]

interface JournalFacts {
  /** Absent if the server acted by itself: a timeout, a refresh, a change upstream. */
  readonly who: string | undefined
  /** Absent for events that concern the whole server. */
  readonly tenant: string | undefined
  /** The principal that the event concerns, if it is not `who`. */
  readonly principal: string | undefined
  readonly object: { readonly kind: ObjectKind; readonly id: string } | undefined
  readonly why: string | undefined
}

/** An absent member matches every event. */
export interface JournalFilter {
  /** Types of events, or their first parts: `approval` stands for every `approval.…`. */
  readonly actions?: readonly string[] | undefined
  /** Who acted, or whom the event concerns. */
  readonly person?: string | undefined
  /** Part of the name or id of an object, in any case. */
  readonly object?: string | undefined
  readonly tenant?: string | undefined
}

/** The events that a reader may see. Without a tenant: all. */
export interface JournalSight {
  readonly tenant: string | undefined
}

export function factsOf(event: JournalEvent): JournalFacts {
  const principal = 'principal' in event ? event.principal : undefined
  const who = actorOf(event)
  return {
    who,
    tenant: 'tenant' in event ? event.tenant : undefined,
    principal: principal === who ? undefined : principal,
    object: objectOf(event),
    why: 'why' in event ? event.why : 'reason' in event ? event.reason : undefined,
  }
}

/** Events that a principal causes by its own requests, unless an operator is named. */
const OWN_ACTIONS = /^(?:call|session|run|challenge|authorization)\./

function actorOf(event: JournalEvent): string | undefined {
  if ('who' in event) return event.who
  if ('by' in event && event.by !== undefined) return event.by
  return 'principal' in event && OWN_ACTIONS.test(event.type) ? event.principal : undefined
}

function objectOf(event: JournalEvent): JournalFacts['object'] {
  if (event.type === 'authorization.decided') return { kind: 'action', id: event.resource }
  if (event.type === 'data.exported') return { kind: 'export', id: event.what }
  if ('source' in event) return { kind: 'source', id: sourceObject(event) }
  if ('key' in event) return { kind: 'key', id: event.key }
  if ('receiptKey' in event) return { kind: 'receipt_key', id: event.receiptKey }
  if ('ref' in event) return { kind: 'credential', id: event.ref }
  if ('challenge' in event) return { kind: 'provider', id: event.provider }
  if ('tool' in event) return { kind: 'tool', id: event.tool }
  if ('target' in event) return { kind: 'source', id: event.target }
  if (event.type === 'run.ended') return { kind: 'run', id: event.run }
  if (event.type === 'principal.ended') return { kind: 'principal', id: event.principal }
  return 'generation' in event ? { kind: 'keys', id: String(event.generation) } : undefined
}

function sourceObject(event: { readonly source: string; readonly tool?: string }): string {
  return event.tool ?? event.source
}

/**
 * Whether a reader may see an event. Events of the whole server are visible in the default tenant only. A denial for another
 * tenant's tool would reveal that tool to a tenant's auditors (OWP-22).
 */
export function isVisible(event: JournalEvent, { tenant }: JournalSight): boolean {
  if (tenant === undefined || tenant === DEFAULT_TENANT) {
    const of = 'tenant' in event ? event.tenant : undefined
    return tenant === undefined || of === undefined || of === tenant
  }
  if (!('tenant' in event) || event.tenant !== tenant) return false
  return event.type !== 'authorization.decided' || event.reason !== 'tenant'
}

export function matchesJournal(event: JournalEvent, filter: JournalFilter): boolean {
  const { actions, person, object, tenant } = filter
  if (actions !== undefined && !actions.some((action) => isAction(event.type, action))) return false
  if (tenant !== undefined && !('tenant' in event && event.tenant === tenant)) return false
  if (person !== undefined && !concerns(event, person)) return false
  return object === undefined || objectTexts(event).some((text) => contains(text, object))
}

function isAction(type: string, action: string): boolean {
  return type === action || type.startsWith(`${action}.`)
}

function concerns(event: JournalEvent, person: string): boolean {
  const { who, principal } = factsOf(event)
  return who === person || principal === person || ('for' in event && event.for === person)
}

/** Everything in an event that an auditor may have in hand: names, and the ids of calls, approvals, keys and sessions. */
function objectTexts(event: JournalEvent): readonly string[] {
  const named: unknown[] = Object.entries(event).flatMap(([member, value]) =>
    OBJECT_MEMBERS.has(member) ? [value] : [],
  )
  return named.filter((value) => typeof value === 'string')
}

const OBJECT_MEMBERS: ReadonlySet<string> = new Set([
  ...[
    'tool',
    'source',
    'target',
    'key',
    'ref',
    'provider',
    'challenge',
    'session',
    'run',
    'record',
    'approval',
    'rule',
  ],
  ...['resource', 'action', 'what', 'principal', 'parent', 'receiptKey'],
])

function contains(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase())
}

/**
 * A pattern that the text of every group with a matching event also matches. Testing it is far cheaper than parsing the group,
 * and most groups of a long search do not match.
 */
export function patternOf({ actions, person, object, tenant }: JournalFilter): RegExp {
  const types = actions?.map((action) => `"type":"${escaped(action)}[".]`)
  const texts = [person, tenant].map((text) => text && `"${escaped(text)}"`)
  const parts = [types && `(?:${types.join('|')})`, ...texts, object && escaped(object)]
  // The anchor keeps a failed search from starting again at every character.
  const ahead = parts.flatMap((part) => (part === undefined || part === '' ? [] : `(?=[^]*?${part})`))
  return new RegExp(`^${ahead.join('')}`, 'i')
}

/** The text as it is written in JSON, for a pattern. */
function escaped(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
