import { setTimeout as sleep } from 'node:timers/promises'
import { READ_AUDIT, type Refusal } from '#admin-api/server'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { COMMANDS as RECEIPT_COMMANDS } from '#cli/audit/receipts'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { type Columns, printRows } from '#cli/operator-command'
import { counted, snakeNames } from '#cli/output'
import { configHere, STORE_OPTIONS, storeAccess, withStore } from '#cli/store-access'
import { cleanText } from '#kernel/base/json'
import type { JournalEvent, JournalGroup, JournalHead } from '#kernel/journal/events'
import { createAuditRoutes } from '#server/telemetry/audit'
import { matchesJournal } from '#store/audit/journal-facts'
import type { Store } from '#store/collet-store'
import type { JournalVerification } from '#store/verify'

/**
 * `collet journal`, `journal verify`, `journal heads` and `collet audit`. They print and verify the journal in the
 * store, and list refused requests. Invariant: the journal is read by one position per writer chain, so late commits
 * are never missed (rule 16).
 */

const journalVerify = defineCommand<'head' | 'explain' | 'store' | 'config'>({
  name: 'journal verify',
  summary: 'Checks, without a server, that no recorded event, approval, key or pin was tampered with.',
  details: [
    'Exit code 1 means that the journal, or a row of approvals, keys or pins, is not intact; the first bad group and every bad row are printed.',
  ],
  options: {
    head: {
      value: 'H',
      many: true,
      help: 'A head kept elsewhere (collet journal heads), to detect a truncated end as well.',
    },
    explain: { help: 'Also explain what this check cannot detect, and what can.' },
    ...STORE_OPTIONS,
  },
  examples: ['collet journal verify', 'collet journal verify --head "$(cat heads.txt)"'],
  async run(args, context) {
    const { output, json, services } = context
    const kept = args.texts('head').flatMap(readHeads)
    const access = await storeAccess(args, context)
    const result = await output.during('Checking the journal', services.verifyJournal(access, kept))
    if (json) output.json(verificationJson(result))
    else for (const line of describeVerification(result, args.flag('explain'))) output.data(line)
    return result.ok ? EXIT.ok : EXIT.toolFailed
  },
})

function verificationJson({ badRows, firstBad, cannotSee, ...result }: JournalVerification) {
  return { ...result, bad_rows: badRows, first_bad: firstBad, cannot_see: cannotSee }
}

/** One head, or the whole output of `journal heads`. */
function readHeads(text: string): JournalHead[] {
  const lines = text.split(/\s+/).filter((line) => line !== '')
  return lines.map((line) => {
    const [, writer = '', group = '', link = ''] = /^(.+):(\d{1,15}):([^:\s]+)$/.exec(line) ?? []
    if (writer !== '') return { writer, group: Number(group), link }
    throw new UsageError('--head expects WRITER:GROUP:LINK, as collet journal heads prints it.')
  })
}

function describeVerification(result: JournalVerification, explains: boolean): string[] {
  const { ok, groups, events, chains, firstBad, rows, badRows, cannotSee } = result
  const size = `${events} events in ${groups} groups of ${counted(chains, 'chain')}`
  const limits = explains ? cannotSee.map((limit) => `  This check cannot see: ${limit}.`) : []
  if (ok) {
    const hint = explains ? '' : ' (--explain: what this cannot detect)'
    return [
      `✓ The journal is intact: ${size}, and ${rows} rows of approvals, keys and pins.${hint}`,
      ...limits,
    ]
  }
  const bad = badRows.map(({ row, reason }) => cleanText(`  Row: ${row} ${reason}.`))
  return firstBad === undefined
    ? [
        `✗ The journal is intact (${size}), but ${badRows.length} of the ${rows} rows of approvals, keys and pins are not.`,
        ...bad,
        ...limits,
      ]
    : [
        `✗ The journal is not intact (${size} were checked).`,
        ...bad,
        cleanText(`  First bad group: ${firstBad.group} of writer ${firstBad.writer}: ${firstBad.reason}.`),
        ...limits,
      ]
}

const journalHeads = defineCommand<'store' | 'config'>({
  name: 'journal heads',
  summary: 'Prints the head of each chain, to be kept elsewhere for journal verify --head.',
  details: ['The journal is checked first, because the heads of a damaged journal would be worthless.'],
  options: STORE_OPTIONS,
  examples: ['collet journal heads > heads.txt'],
  async run(args, context) {
    const { output, json, services } = context
    const access = await storeAccess(args, context)
    const { ok, heads } = await output.during('Checking the journal', services.verifyJournal(access, []))
    if (!ok)
      throw new CommandFailure(EXIT.toolFailed, 'The journal is not intact. See: collet journal verify')
    if (json) output.json(heads)
    else for (const { writer, group, link } of heads) output.data(`${writer}:${group}:${link}`)
  },
})

const PAGE = 500
const POLL_MS = 250

type JournalOption =
  | 'person'
  | 'action'
  | 'object'
  | 'tenant'
  | 'since'
  | 'until'
  | 'follow'
  | 'store'
  | 'config'

const journal = defineCommand<JournalOption>({
  name: 'journal',
  summary: 'Prints the journal, oldest event first: one event per line, without inputs and outputs.',
  options: {
    person: { value: 'P', help: 'Only events in which P acted or which concern P, such as key:alice.' },
    action: {
      value: 'TYPE',
      help: 'Only events of this type, or of several separated by commas; approval stands for every approval.… event.',
    },
    object: { value: 'TEXT', help: 'Only events about an object whose name or id contains TEXT.' },
    tenant: { value: 'T', help: 'Only events of this tenant.' },
    since: {
      value: 'TIME',
      help: 'Only events from this time on: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m, 12h, 7d.',
    },
    until: { value: 'TIME', help: 'Only events before this time.' },
    follow: { help: 'Keep printing new events, until Ctrl-C.' },
    ...STORE_OPTIONS,
  },
  examples: [
    'collet journal',
    'collet journal --action approval,call.settled --since 7d',
    'collet journal --object Bank.Pay --person key:alice',
    'collet journal --follow --json | grep call.ambiguous',
  ],
  async run(args, context) {
    const wanted = readFilter(args, context)
    await withStore(args, context, (store) => print(store, { wanted, follow: args.flag('follow') }, context))
  },
})

/** Returns whether an event of a group is to be printed. */
function readFilter(args: Arguments<JournalOption>, { clock }: CommandContext) {
  const [person, object, tenant] = [args.text('person'), args.text('object'), args.text('tenant')]
  const filter = { person, object, tenant, actions: args.text('action')?.split(',') }
  const sinceMs = args.moment('since', clock.nowMs())?.getTime() ?? Number.NEGATIVE_INFINITY
  const untilMs = args.moment('until', clock.nowMs())?.getTime() ?? Number.POSITIVE_INFINITY
  return ({ atMs }: JournalGroup, event: JournalEvent): boolean =>
    atMs >= sinceMs && atMs < untilMs && matchesJournal(event, filter)
}

interface Printed {
  readonly wanted: ReturnType<typeof readFilter>
  readonly follow: boolean
}

async function print(store: Store, { wanted, follow }: Printed, context: CommandContext): Promise<void> {
  /** One position per writer chain: a time or a single number would miss late commits (rule 16). */
  const positions = new Map<string, JournalHead>()
  const stop = new AbortController()
  const endListening = context.onStop(() => stop.abort())
  try {
    while (!stop.signal.aborted) {
      const groups = await store.readJournal([...positions.values()], PAGE)
      for (const group of groups) {
        positions.set(group.writer, { writer: group.writer, group: group.group, link: group.link })
        const events = group.events.filter((event) => wanted(group, event))
        await printGroup(store, { ...group, events }, context)
      }
      if (groups.length > 0) continue
      if (!follow) return
      await sleep(POLL_MS, undefined, stop).catch(() => undefined)
    }
  } finally {
    endListening()
  }
}

async function printGroup(
  store: Store,
  { writer, group, events }: JournalGroup,
  { output, json }: CommandContext,
): Promise<void> {
  for (const event of events) {
    const shown = isCallEvent(event) ? { ...event, ...(await traceOf(store, event.record)) } : event
    if (json) output.json({ writer, group, ...snakeNames(shown) })
    else output.data(journalLine(shown))
  }
}

type CallEvent = Extract<JournalEvent, { readonly record: string; readonly attempt: number }>

function isCallEvent(event: JournalEvent): event is CallEvent {
  return event.type.startsWith('call.')
}

/** Callers choose their trace ids, so the journal has none: they are read from the sealed call (rule 15). */
async function traceOf(store: Store, record: string): Promise<{ readonly traceId?: string }> {
  const traceId = (await store.findByRecord(record))?.traceId ?? ''
  return traceId === '' ? {} : { traceId }
}

/** An event as one line: time, type, then its members as `name=value`. */
function journalLine({ at, type, ...members }: JournalEvent): string {
  const facts = Object.entries(snakeNames(members)).map(([name, value]) => `${name}=${factText(value)}`)
  return [new Date(at).toISOString(), type, ...facts].join(' ')
}

function factText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /[\s"=]/.test(text) && typeof value === 'string' ? cleanText(JSON.stringify(text)) : cleanText(text)
}

const DEFAULT_LIMIT = 100
const MAX_SHOWN = 10_000
const DENIALS_PER_PAGE = 1_000

const COLUMNS: Columns<Refusal> = {
  AT: ({ at }) => at,
  TENANT: ({ tenant }) => tenant,
  PRINCIPAL: ({ principal, principal_id: id }) => id ?? principal,
  ACTION: ({ action }) => action,
  RESOURCE: ({ resource }) => resource,
  REASON: ({ reason }) => reason,
  COUNT: ({ count }) => count,
}

const audit = defineCommand<'principal' | 'since' | 'limit' | AdminOption>({
  name: 'audit',
  summary:
    'Lists refused requests: invalid credentials, and calls, approvals and administration without permission.',
  details: [
    'Reads the store directly, even while a server uses it; with --url it asks the server.',
    'The log contains no names: a caller is prn_…. Callers with a key, and recent ones, are shown by name to callers who may manage keys. --principal finds every caller by its name.',
    'Requests without a valid credential are listed under the caller "unknown", with the kind of the credential only.',
    'Repeated refusals of one caller within a minute are counted in one line.',
  ],
  options: {
    principal: { value: 'P', help: 'Only this caller: key:alice, jwt:<issuer>#<sub> or prn_….' },
    since: {
      value: 'TIME',
      help: 'Only from this time on: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m, 12h, 7d.',
    },
    limit: { value: 'N', help: `Show the newest N. Default ${DEFAULT_LIMIT}.` },
    ...adminOptions('audit:read, and admin:keys for names'),
  },
  examples: ['collet audit --since 7d', 'collet audit --principal key:alice --json'],
  async run(args, context) {
    const { output, clock } = context
    const limit = args.integer('limit', { min: 1, max: MAX_SHOWN }) ?? DEFAULT_LIMIT
    const since = args.moment('since', clock.nowMs())?.toISOString()
    const filter = { principal: args.text('principal'), since }
    const reading = readNewest(filter, limit, auditClient(args, context))
    const found = await output.during('Reading the audit log', reading)
    printRows(found, { columns: COLUMNS, empty: 'No request was refused.' }, context)
  },
})

/** Reads the log from its beginning, page by page, and keeps the newest entries. */
async function readNewest(
  filter: Readonly<Record<string, string | undefined>>,
  limit: number,
  client: AdminClient,
): Promise<readonly Refusal[]> {
  let newest: readonly Refusal[] = []
  for (let after = 0; ; ) {
    const page = await client.ask(READ_AUDIT, { query: { ...filter, after, limit: DENIALS_PER_PAGE } })
    newest = [...newest, ...page.events].slice(-limit)
    // The position did not advance: there are no more pages.
    if (page.next <= after) return newest
    after = page.next
  }
}

function auditClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    onStore: async ({ store, access }) => {
      const { apiKeys = [] } = (await configHere(args, context))?.config.auth ?? {}
      const owners = apiKeys.map(({ tenant, id }) => ({ tenant, name: id }))
      return createAuditRoutes(access, { store, configured: () => owners })
    },
  })
}

export const COMMANDS = [journal, journalVerify, journalHeads, ...RECEIPT_COMMANDS, audit]
