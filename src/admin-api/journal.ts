/**
 * Operations on the events of the journal. The journal's page and its export share one filter, so that they select the same events. The
 * check of the journal's chains is declared in `server.ts`.
 */
import { z } from 'zod'
import { type AnswerOf, numberInQuery, operation, time, timeInQuery } from './operation.ts'

const MAX_TEXT = 300

/** The types of events that a server records. The compiler compares them with those of `kernel/journal/events.ts`. */
const EVENT_TYPES = [
  'approval.cancelled',
  'approval.expired',
  'approval.granted',
  'approval.link_made',
  'approval.overridden',
  'approval.rejected',
  'approval.used',
  'authorization.decided',
  'call.ambiguous',
  'call.cancel_requested',
  'call.claimed',
  'call.corrected',
  'call.cut',
  'call.failed',
  'call.late',
  'call.parked',
  'call.receipt_made',
  'call.refused',
  'call.released',
  'call.resumed',
  'call.settled',
  'call.shown',
  'call.succeeded',
  'call.suspended',
  'challenge.asked',
  'challenge.completed',
  'challenge.failed',
  'challenge.opened',
  'data.exported',
  'key.created',
  'key.revoked',
  'key.rotated',
  'keys.activated',
  'keys.announced',
  'keys.rotated',
  'pin.accepted',
  'pin.first_seen',
  'pin.held',
  'pin.rejected',
  'pin.returned',
  'principal.ended',
  'receipt_key.made',
  'retention.purged',
  'rule.created',
  'rule.revoked',
  'run.ended',
  'session.closed',
  'session.opened',
  'source.added',
  'source.probed',
  'source.removed',
  'source.replaced',
  'vault.removed',
  'vault.renewed',
  'vault.rotated',
  'vault.set',
  'vault.spent',
  'writer.started',
  'writer.stopped',
] as const

/** Selects the same events in the list and in the export. */
export const JOURNAL_FILTER = () =>
  z.object({
    person: z
      .string()
      .max(MAX_TEXT)
      .optional()
      .describe('Who acted, or whom the event concerns: `key:alice`, `jwt:<issuer>#<sub>`, `operator` …'),
    action: z
      .string()
      .max(1_000)
      .regex(/^[a-z_.]+(?:,[a-z_.]+)*$/, { error: 'expected types of events, separated by commas.' })
      .optional()
      .describe(
        'Types of events, separated by commas. The first part of a type stands for all of its kind: `approval,call.settled`.',
      ),
    object: z
      .string()
      .max(MAX_TEXT)
      .optional()
      .describe(
        'Part of the name or id of a tool, source, key, call, approval, credential or session, in any case.',
      ),
    tenant: z.string().max(MAX_TEXT).optional(),
    since: timeInQuery(),
    until: timeInQuery(),
  })

const ENTRY = () =>
  z.object({
    id: z.string().describe('Writer, commit group and index of the event.'),
    at: time(),
    type: z.enum(EVENT_TYPES),
    who: z.string().nullable().describe('Null if the server acted by itself.'),
    who_name: z
      .string()
      .optional()
      .describe('The id behind an opaque name, for readers with the scope `admin:keys`.'),
    tenant: z.string().nullable().describe('Null for events that concern the whole server.'),
    principal: z.string().nullable().describe('The principal that the event concerns, if it is not `who`.'),
    object: z.object({ kind: z.string(), id: z.string() }).nullable(),
    why: z.string().nullable(),
    record: z.string().nullable().describe('The call that the event is about.'),
    approval: z.string().nullable(),
    facts: z.record(z.string(), z.unknown()).describe('The other members of the event.'),
    writer: z.string(),
    group: z.int(),
    link: z.string().describe('The link of the commit group in the chain of its writer.'),
  })

export const LIST_JOURNAL = operation({
  route: 'GET /admin/journal/events',
  scope: 'audit:read',
  summary: 'Events of the journal, newest first.',
  description:
    'Events that concern the whole server are shown to credentials of the default tenant. One page searches a limited number of commit groups, so a page can be short or empty although older events match: continue with `next`.',
  query: () =>
    JOURNAL_FILTER().extend({
      before: z
        .string()
        .regex(/^\d{1,16}(?:\.\d{1,16}){3}$/, { error: 'expected `next` of the previous page.' })
        .optional()
        .describe('`next` of the previous page.'),
      limit: numberInQuery(500, 1).default(100),
    }),
  answer: () =>
    z.object({
      events: z.array(ENTRY()),
      next: z.string().nullable().describe('Send it as `before` for the next page; null at the end.'),
      searched_to: time()
        .nullable()
        .describe('The page includes every matching event since this time; null at the end.'),
    }),
})
export type JournalEventPage = AnswerOf<typeof LIST_JOURNAL>
export type ListedEvent = JournalEventPage['events'][number]
