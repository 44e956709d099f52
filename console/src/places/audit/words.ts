import type { ListedEvent } from '../../../../src/admin-api/journal.ts'
import { countOf } from '../../parts/format.ts'

/*
 * The texts of Audit. Each event of the journal is a sentence: who did what to what. The compiler asks for a sentence for each type of
 * event.
 */

type EventType = ListedEvent['type']

/** A part of a sentence; names are set apart from words. */
export type Part = string | { readonly name: string }

/** Who acted, as a name for people. */
export function actorOf({ who, who_name }: Pick<ListedEvent, 'who' | 'who_name'>): string {
  return who_name ?? who ?? words.server
}

export function sentenceOf(event: ListedEvent): readonly Part[] {
  const write = SENTENCES[knownType(event.type)]
  return write === undefined
    ? [{ name: actorOf(event) }, `: ${event.type}`]
    : write({
        event,
        who: { name: actorOf(event) },
        what: { name: event.object?.id ?? '' },
        fact: (member) => textOf(event.facts[member]),
      })
}

interface Words {
  readonly event: ListedEvent
  readonly who: Part
  readonly what: Part
  fact(member: string): string
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

function knownType(type: string): EventType | 'unknown' {
  return TYPES.find((known) => known === type) ?? 'unknown'
}

/** The principal that a call belongs to, if another person ran it. */
function forOther({ event: { principal } }: Words): readonly Part[] {
  return principal === null ? [] : [' for ', { name: principal }]
}

const callEnded =
  (end: string) =>
  (all: Words): readonly Part[] => [
    'Call of ',
    { name: all.event.principal ?? actorOf(all.event) },
    ' to ',
    all.what,
    ` ${end}`,
    ...(all.fact('code') === '' ? [] : [`: ${all.fact('code')}`]),
  ]

const did =
  (verb: string, after = '') =>
  ({ who, what }: Words): readonly Part[] => [who, ` ${verb} `, what, after]

const approvalDid =
  (verb: string) =>
  ({ who, what, event: { principal } }: Words): readonly Part[] => [
    who,
    ` ${verb} `,
    what,
    ...(principal === null ? [] : [' by ', { name: principal }]),
  ]

const keyDid =
  (verb: string) =>
  ({ who, what, event }: Words): readonly Part[] => [
    who,
    ` ${verb} the API key `,
    what,
    ...(event.principal === null ? [] : [' of ', { name: event.principal }]),
  ]

const definition =
  (verb: string) =>
  ({ who, what, event, fact }: Words): readonly Part[] => {
    const count = Number(fact('count'))
    if (count > 0) return [who, ` ${verb} `, `${countOf(count, 'definition')} of `, { name: fact('source') }]
    return [event.who === null ? 'The server' : who, ` ${verb} the definition of `, what]
  }

const sessionDid =
  (verb: string) =>
  ({ what, event }: Words): readonly Part[] => [
    'Session of ',
    { name: event.principal ?? actorOf(event) },
    ' with ',
    what,
    ` ${verb}`,
  ]

const consent =
  (verb: string) =>
  ({ what, event }: Words): readonly Part[] => [
    'Consent of ',
    { name: event.principal ?? actorOf(event) },
    ' with ',
    what,
    ` ${verb}`,
  ]

const credential =
  (verb: string) =>
  ({ who, what, event }: Words): readonly Part[] => [
    who,
    ` ${verb} the credential `,
    what,
    ...(event.principal === null ? [] : [' of ', { name: event.principal }]),
  ]

const SENTENCES: Readonly<Record<EventType, (all: Words) => readonly Part[]>> & {
  readonly unknown?: undefined
} = {
  'call.claimed': (all) => [all.who, ' called ', all.what, ...forOther(all)],
  'call.corrected': did('changed the input of a repeated call to'),
  'call.suspended': callEnded('waits for a step'),
  'call.resumed': callEnded('continued'),
  'call.succeeded': callEnded('succeeded'),
  'call.failed': callEnded('failed'),
  'call.released': callEnded('failed and may be repeated'),
  'call.late': callEnded('returned a result after it had ended'),
  'call.ambiguous': callEnded('was interrupted, and its outcome is unknown'),
  'call.cut': callEnded('was interrupted, and may run again'),
  'call.settled': (all) => [
    all.who,
    ' settled the call to ',
    all.what,
    ` as ${SETTLED[all.fact('as')] ?? all.fact('as')}`,
  ],
  'call.shown': did('viewed the input and the outcome of a call to'),
  'call.cancel_requested': did('asked to cancel a call to'),
  'call.receipt_made': did('made a receipt of a call to'),
  'call.refused': callEnded('was refused'),
  'call.parked': (all) => [all.who, ' requested approval for a call to ', all.what, ...forOther(all)],
  'approval.granted': approvalDid('approved a call to'),
  'approval.rejected': approvalDid('rejected a call to'),
  'approval.overridden': approvalDid('approved, without the required approvals, a call to'),
  'approval.expired': ({ what }) => ['The approval of a call to ', what, ' expired'],
  'approval.cancelled': ({ what }) => ['The approval of a call to ', what, ' was cancelled'],
  'approval.used': did('used the approval of a call to'),
  'approval.link_made': (all) => [
    all.who,
    ' made an approval link for ',
    { name: all.fact('for') },
    ', for a call to ',
    all.what,
  ],
  'challenge.opened': consent('was requested'),
  'challenge.asked': consent('was requested by a run'),
  'challenge.completed': consent('was given'),
  'challenge.failed': consent('failed'),
  'vault.set': credential('stored'),
  'vault.renewed': credential('renewed'),
  'vault.spent': credential('can no longer renew'),
  'vault.removed': credential('removed'),
  'vault.rotated': ({ who }) => [who, ' sealed stored credentials again'],
  'keys.announced': ({ who, what }) => [who, ' began to change the key of the store, to generation ', what],
  'keys.activated': ({ who, what }) => [who, ' put generation ', what, ' of the key of the store into use'],
  'keys.rotated': ({ who, what }) => [
    who,
    ' finished the change of the key of the store, to generation ',
    what,
  ],
  'receipt_key.made': did('made the key', ', which signs receipts'),
  'session.opened': sessionDid('opened'),
  'session.closed': sessionDid('closed'),
  'key.created': keyDid('created'),
  'key.rotated': keyDid('rotated'),
  'key.revoked': keyDid('revoked'),
  'principal.ended': did('removed the principal'),
  'source.added': did('added the source'),
  'source.replaced': did('changed the source'),
  'source.removed': did('removed the source'),
  'source.probed': did('tested a connection to'),
  'authorization.decided': (all) => [
    all.who,
    ' was denied ',
    all.what,
    ` (${DENIED[all.fact('reason')] ?? all.fact('reason')})`,
    Number(all.fact('count')) > 1 ? `, ${countOf(Number(all.fact('count')), 'time')}` : '',
  ],
  'pin.first_seen': definition('accepted'),
  'pin.held': definition('held a change of'),
  'pin.returned': definition('serves again'),
  'pin.accepted': definition('accepted'),
  'pin.rejected': definition('rejected'),
  'data.exported': ({ who, what, fact }) => [who, ' exported ', what, ` as ${fact('format').toUpperCase()}`],
  'rule.created': ({ who, what, event }) => [
    who,
    ' approved further calls of ',
    { name: event.principal ?? '' },
    ' to ',
    what,
  ],
  'rule.revoked': ({ who, what, event }) => [
    ...[who, ' ended the approval of further calls of ', { name: event.principal ?? '' }, ' to ', what],
  ],
  'run.ended': ({ what }) => ['Run ', what, ' ended'],
  'writer.started': () => ['A server process started to write'],
  'writer.stopped': () => ['A server process stopped writing'],
  'retention.purged': ({ fact }) => [
    `Retention removed results of ${countOf(Number(fact('calls')), 'call')} and ${countOf(Number(fact('groups')), 'commit')}`,
  ],
}

const SETTLED: Readonly<Record<string, string>> = {
  succeeded: 'succeeded',
  failed: 'failed',
  'not-run': 'not run',
}

const DENIED: Readonly<Record<string, string>> = {
  scope: 'missing scope',
  allowlist: 'tool not allowed for this key',
  tenant: 'belongs to another tenant',
  self_approval: 'own call',
  second_vote: 'voted already',
  changed_row: 'row changed without the key',
  credential: 'invalid credential',
}

const TYPES = Object.keys(SENTENCES).filter((type): type is EventType => type !== 'unknown')

/** The kinds of events that the filter offers, in its order. */
export const ACTIONS: Readonly<Record<string, string>> = {
  call: 'Calls',
  approval: 'Approvals',
  rule: 'Standing approvals',
  'call.settled': 'Settlements',
  'call.shown': 'Viewed contents',
  key: 'API keys',
  source: 'Sources',
  pin: 'Definitions',
  vault: 'Credentials',
  challenge: 'Consents',
  session: 'Sessions',
  run: 'Runs',
  authorization: 'Denied requests',
  data: 'Exports',
  principal: 'Principals',
  keys: 'Store key',
  receipt_key: 'Receipt keys',
  writer: 'Server processes',
  retention: 'Retention',
}

/** What can be exported, with what a row is. */
export const EXPORTED = [
  {
    what: 'journal',
    label: 'Journal',
    row: 'one row per event, with the filters of this page',
    scope: 'audit:read',
  },
  {
    what: 'calls',
    label: 'Calls',
    row: 'one row per call, without inputs and outputs',
    scope: 'admin:calls',
  },
  { what: 'usage', label: 'Usage', row: 'one row per caller and tool', scope: 'admin:calls' },
  {
    what: 'approvals',
    label: 'Approvals',
    row: 'one row per approval, without arguments',
    scope: 'approvals:read',
  },
  {
    what: 'denials',
    label: 'Denied requests',
    row: 'one row per caller, action and minute',
    scope: 'audit:read',
  },
] as const

export const words = {
  title: 'Audit',
  server: 'The server',
  journal: 'Journal',
  denied: 'Denied requests',
  verification: 'Verification',
  person: 'Person',
  personHint: 'key:alice',
  object: 'Object',
  objectHint: 'Tool, source, key, call …',
  tenant: 'Tenant',
  tenantHint: 'acme',
  action: 'Action',
  clear: 'Clear filters',
  caption: 'Events of the journal, newest first',
  time: 'Time',
  event: 'Event',
  noneInRange: 'No events in this period',
  noneInRangeHint: 'Choose a longer period.',
  noMatch: 'No event matches',
  noMatchHint: 'No event of this period matches the filters.',
  searchedTo: (time: string) => `Searched back to ${time}.`,
  searching: 'Searching older events',
  continue: 'Continue',
  end: 'No older events in this period.',
  newEvents: (count: number) => (count >= MAX_NEW ? `${MAX_NEW}+ new events` : countOf(count, 'new event')),
  closeEvent: 'Close event',
  reason: 'Reason',
  who: 'Who',
  principal: 'Principal',
  when: 'Recorded at',
  place: 'Place in the chain',
  placeOf: (writer: string, group: number) => `group ${group} of writer ${writer.slice(0, 8)}`,
  link: 'Link',
  call: 'Call',
  approval: 'Approval',
  raw: 'Event',
  showCall: 'Show call',
  showApproval: 'Show approval',
  showTool: 'Show tool',
  showSource: 'Show source',
  showKey: 'Show keys',
  receipt: 'Save receipt',
  receiptHint: 'A signed proof of this call, which others can verify. Recorded in the audit log.',
  saved: (name: string) => `${name} saved.`,
  onlyOf: (name: string) => `Only events of ${name}`,
  export: 'Export',
  exportTitle: 'Export',
  exportIntro: 'The file has every row of the period. The export is recorded in the audit log.',
  exportWhat: 'What',
  exportFormat: 'Format',
  csv: 'CSV, for spreadsheets',
  jsonl: 'JSON lines, for programs',
  download: 'Download',
  cancel: 'Cancel',
  needsScope: (scope: string) => `Needs the scope ${scope}`,
  unreadable: 'The journal could not be read',
} as const

/** The number of new events that one request asks for. */
export const MAX_NEW = 100
