import {
  type CallChanges,
  type CallPage,
  type ChangedCall,
  FOLLOW_ALL_CALLS,
  LIST_ALL_CALLS,
  LIST_REJECTED_REQUESTS,
  type ListedCall,
  type RejectedRequest,
} from '#admin-api/calls'
import { loadTools } from '#config/load-tools'
import { cleanText, defined } from '#kernel/base/json'
import { CALL_STATES } from '#kernel/call/call'
import { NO_TOOLSETS, selectorProblem, selects } from '#kernel/tool/toolsets'
import { createCallEventRoutes } from '#server/admin/call-events'
import { CallFeed } from '#server/admin/call-feed'
import { REJECTED, STATE_WORDS } from '#server/admin/call-filter'
import { createCallRoutes } from '#server/admin/calls'
import { createConversationRoutes } from '#server/calls/conversation'
import { createErrorRoutes } from '#server/calls/error-groups'
import { findKnownTools } from '#server/known-tools'
import { createRejectionRoutes } from '#server/overview/rejected-requests'
import { normalizeToolName } from '#store/call-filter'
import type { Store } from '#store/collet-store'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from './admin-client.ts'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
  UsageError,
} from './command.ts'
import { type Columns, printRows } from './operator-command.ts'
import { configHere, hasStore, withStore } from './store-access.ts'

/**
 * `collet calls`: lists calls with filters, follows them live, and lists rejected requests. `commands/calls.ts`
 * registers it with the other commands on calls. Invariant: a table never truncates ids, because operators copy
 * them.
 */

const MAX_CALLS = 1_000
const DEFAULT_LIMIT = 100

const MILLISECONDS = { min: 0, max: Number.MAX_SAFE_INTEGER } as const

const COLUMNS: Columns<ListedCall> = {
  RECORD: ({ record }) => record,
  STATE: ({ state }) => state,
  TOOL: ({ tool }) => tool,
  TENANT: ({ tenant }) => tenant,
  PRINCIPAL: ({ principal }) => principal,
  CREATED: ({ created_at: at }) => at,
  'RUN TIME': ({ ran_ms: ms }) => durationText(ms),
  ERROR: ({ error_code: code }) => code ?? '',
  'CALL ID': ({ call_id: id }) => id,
}

/** Columns that only some lists have, as their last ones. */
const MESSAGE: Columns<ListedCall> = { MESSAGE: ({ error_message: message }) => message }
const INPUT: Columns<ListedCall> = { INPUT: ({ input_summary: summary }) => summary ?? null }

export const FILTER_OPTIONS = {
  tool: {
    value: 'NAME',
    help: 'Only calls to this tool, in any spelling; Name@1.0.0 for one version, Gmail.* for all tools that begin with Gmail.',
  },
  principal: { value: 'P', help: 'Only calls from this principal, such as key:alice.' },
  tenant: { value: 'T', help: 'Only calls from this tenant.' },
  since: {
    value: 'TIME',
    help: 'Only calls from this time on: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m, 12h, 7d.',
  },
  until: { value: 'TIME', help: 'Only calls before this time.' },
} as const satisfies OptionSpecs

/** Compared call by call, so that a list that is followed does not have them. */
const SEARCH_OPTIONS = {
  id: {
    value: 'ID',
    help: 'Only calls with this id, whatever it names: the call, its record, run, session, trace, user, workflow or approval.',
  },
  'call-id': { value: 'ID', help: 'Only the calls that callers gave this id.' },
  run: { value: 'ID', help: 'Only calls of this run.' },
  session: { value: 'ID', help: 'Only calls of this session.' },
  user: { value: 'ID', help: 'Only calls for this user.' },
  trace: { value: 'ID', help: 'Only calls of this trace: its id, or a traceparent.' },
  protocol: { value: 'NAME', help: 'Only calls over this protocol: mcp, otc, openwop, opentool.' },
  parent: { value: 'RECORD', help: 'Only the steps of this workflow.' },
  code: { value: 'CODE', help: 'Only calls that failed with this error code, or requests rejected with it.' },
  error: { value: 'TEXT', help: 'Only calls whose error message contains TEXT.' },
} as const satisfies OptionSpecs
type SearchOption = keyof typeof SEARCH_OPTIONS
const SEARCH_NAMES = [
  'id',
  'call-id',
  'run',
  'session',
  'user',
  'trace',
  'protocol',
  'parent',
  'code',
  'error',
] as const satisfies readonly SearchOption[]

type ListOption =
  | keyof typeof FILTER_OPTIONS
  | SearchOption
  | 'inputs'
  | 'state'
  | 'slow'
  | 'quick'
  | 'limit'
  | 'follow'
  | AdminOption

export const calls = defineCommand<ListOption>({
  name: 'calls',
  summary: 'Lists calls, newest first, with how long their tools ran; or prints them as they change.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  options: {
    ...FILTER_OPTIONS,
    state: {
      value: 'S',
      help: `Only calls in this state, or in several separated by commas: ${CALL_STATES.join(', ')}; error stands for failed, released and ambiguous; rejected lists requests that were turned down before a call was recorded.`,
    },
    slow: {
      value: 'MS',
      help: 'Only calls whose tool ran for at least MS milliseconds, or has been running for that long.',
    },
    quick: {
      value: 'MS',
      help: 'Only calls whose tool ran for less than MS milliseconds, or has been running for less.',
    },
    ...SEARCH_OPTIONS,
    inputs: {
      help: 'Show the beginning of each input. Needs the scope calls:read; that you read them is journaled.',
    },
    limit: { value: 'N', help: `List at most N. Default ${DEFAULT_LIMIT}.` },
    follow: { help: 'Print calls as they begin, wait, end and are settled, until Ctrl-C.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet calls --state ambiguous',
    'collet calls --tenant team1 --tool Crm.Find --since 12h',
    'collet calls --slow 2000 --since 7d --json',
    'collet calls --id refund-A-1042',
    "collet calls --code tool_failed --error 'no such label' --since 1d",
    "collet calls --follow --state error --tool 'Gmail.*'",
  ],
  async run(args, context) {
    const { output } = context
    if (args.flag('follow')) return await followCalls(args, context)
    const limit = args.integer('limit', { min: 1, max: MAX_CALLS }) ?? DEFAULT_LIMIT
    const filter = await readFilter(args, context)
    if (filter.state === REJECTED) return await listRejected(filter, limit, args, context)
    const wanted = args.flag('inputs') ? { ...filter, inputs: 'yes' } : filter
    const found = await output.during('Reading calls', findCalls(wanted, limit, args, context))
    const hasMessage = found.some(({ error_message: message }) => message !== null)
    const columns = { ...COLUMNS, ...(hasMessage ? MESSAGE : {}), ...(args.flag('inputs') ? INPUT : {}) }
    // The last column may be cut, so that a long message does not break the table. Ids are never cut.
    const fits = Object.keys(columns).at(-1) === 'CALL ID' ? {} : ({ fitsTerminal: true } as const)
    printRows(found, { columns, empty: 'No call matches.', ...fits }, context)
  },
})

/** The query of the operations on calls; `state` may also be `rejected`. */
type CallFilter = Readonly<Partial<Record<string, string>>>

/** Reads the options that the list, its errors and the stream share. */
export async function readRange(
  args: Arguments<keyof typeof FILTER_OPTIONS | AdminOption>,
  context: CommandContext,
): Promise<CallFilter> {
  const { clock } = context
  const [since, until] = [args.moment('since', clock.nowMs()), args.moment('until', clock.nowMs())]
  if (since !== undefined && until !== undefined && since >= until)
    throw new UsageError('--since must be before --until.')
  return defined({
    tool: await resolveToolName(args, context),
    principal: args.text('principal'),
    tenant: args.text('tenant'),
    since: since?.toISOString(),
    until: until?.toISOString(),
  })
}

async function readFilter(args: Arguments<ListOption>, context: CommandContext): Promise<CallFilter> {
  return defined({
    state: readStates(args.text('state')),
    ...(await readRange(args, context)),
    slow: args.integer('slow', MILLISECONDS)?.toString(),
    quick: args.integer('quick', MILLISECONDS)?.toString(),
    ...Object.fromEntries(SEARCH_NAMES.map((name) => [name.replace('-', '_'), args.text(name)])),
  })
}

/**
 * Resolves another name of a tool to `Toolkit.Name`, under which calls are recorded. A server knows all names of its
 * tools; without one, the config and the pins do.
 */
async function resolveToolName(
  args: Arguments<'tool' | AdminOption>,
  context: CommandContext,
): Promise<string | undefined> {
  const text = args.text('tool')
  const loaded = text === undefined || isServerNamed(args) ? undefined : await configHere(args, context)
  if (text === undefined || loaded === undefined) return text
  // Tools that cannot be loaded must not keep calls from being listed.
  const { tools: own } = await loadTools(loaded)
  const find = (store?: Store) => findKnownTools(loaded.config, own, store)
  const { tools, sources } = (await hasStore(args, context))
    ? await withStore(args, context, find)
    : await find()
  const found = text.includes('*') ? undefined : tools.find((tool) => selects(text, tool))
  const [, version = ''] = /(@[^@]+)$/.exec(text) ?? []
  if (found !== undefined) return found.parts.base + version
  const problem = selectorProblem(text, { tools, sources, toolsets: NO_TOOLSETS })
  const isKnownSpelling = tools.some(({ parts }) => normalizeToolName(parts.base) === normalizeToolName(text))
  if (problem !== undefined && !isKnownSpelling) context.output.warn(`--tool: ${cleanText(problem)}`)
  return text
}

/** Checks the states before anything is sent, as the other options are checked. */
function readStates(text: string | undefined): string | undefined {
  const unknown = text?.split(',').find((word) => !STATE_WORDS.has(word))
  if (unknown === undefined) return text
  throw new UsageError(
    `--state expects one or more of ${[...STATE_WORDS.keys()].join(', ')}, separated by commas; got "${unknown}".`,
  )
}

/** Reads page after page: a page is bounded by the calls examined, not by the matches. */
async function findCalls(
  filter: CallFilter,
  limit: number,
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<readonly ListedCall[]> {
  const client = callsClient(args, context)
  const found: ListedCall[] = []
  let before: number | null = null
  do {
    const query = { ...filter, limit: limit - found.length, before: before ?? undefined }
    const page: CallPage = await client.ask(LIST_ALL_CALLS, { query })
    found.push(...page.calls)
    // A missing or repeated position means that there are no more pages.
    before = page.next !== null && page.next < (before ?? Number.POSITIVE_INFINITY) ? page.next : null
  } while (before !== null && found.length < limit)
  return found
}

const REJECTED_COLUMNS: Columns<Omit<RejectedRequest, 'no'>> = {
  'LAST AT': ({ last_at: at }) => at,
  REQUESTS: ({ requests }) => requests,
  CODE: ({ code }) => code,
  TOOL: ({ tool }) => tool,
  TENANT: ({ tenant }) => tenant,
  PRINCIPAL: ({ principal }) => principal,
  MESSAGE: ({ message }) => message,
}

/** Rejected requests have no record, so they are grouped by minute, caller, tool and code. */
async function listRejected(
  filter: CallFilter,
  limit: number,
  args: Arguments<ListOption>,
  context: CommandContext,
): Promise<undefined> {
  const { rejected } = await callsClient(args, context).ask(LIST_REJECTED_REQUESTS, {
    query: { ...rejectedFilter(filter), limit },
  })
  const rows = rejected.map(({ no: _no, ...row }) => row)
  printRows(rows, { columns: REJECTED_COLUMNS, empty: 'No request was rejected.' }, context)
}

const REJECTED_FILTERS = ['tool', 'principal', 'tenant', 'since', 'until', 'code'] as const

function rejectedFilter(filter: CallFilter): CallFilter {
  const ignored = Object.keys(filter).find(
    (name) => name !== 'state' && !REJECTED_FILTERS.some((known) => known === name),
  )
  if (ignored !== undefined)
    throw new UsageError(
      `--${ignored.replace('_', '-')} cannot be used with --state rejected: rejected requests are counted, not recorded.`,
    )
  return Object.fromEntries(REJECTED_FILTERS.map((name) => [name, filter[name]]))
}

export function callsClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  const { clock } = context
  return new AdminClient(args, context, {
    onStore: ({ store, access }) => [
      ...createRejectionRoutes(access, { rejections: store.rejections, clock }),
      ...createErrorRoutes(access, { store, clock }),
      ...createConversationRoutes(access, { store, clock }),
      ...createCallRoutes(access, { calls: store, clock }),
      ...createCallEventRoutes(access, { feed: new CallFeed({ store, clock }), clock }),
    ],
  })
}

export function durationText(ms: number | null): string {
  if (ms === null) return ''
  return ms < 10_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`
}

/** Runs until Ctrl-C. If the server ends the stream, the command fails with the server's reason. */
async function followCalls(args: Arguments<ListOption>, context: CommandContext): Promise<undefined> {
  if (args.text('limit') !== undefined)
    throw new UsageError('--limit is for the list; --follow runs until Ctrl-C.')
  const search = SEARCH_NAMES.find((name) => args.text(name) !== undefined)
  if (search !== undefined)
    throw new UsageError(`--${search} is for the list and cannot be used with --follow.`)
  const { output, json } = context
  const stop = new AbortController()
  const endListening = context.onStop(() => stop.abort())
  const query = await readFilter(args, context)
  try {
    await callsClient(args, context).follow(FOLLOW_ALL_CALLS, { query }, stop.signal, ({ event, data }) => {
      if (event === 'end') {
        const { message }: { readonly message?: unknown } = JSON.parse(data)
        throw new CommandFailure(EXIT.server, typeof message === 'string' ? message : STREAM_ENDED)
      }
      if (event !== 'calls') return
      const page: CallChanges = JSON.parse(data)
      for (const change of page.calls) {
        if (json) output.json(change)
        else output.data(changeLine(change))
      }
    })
  } finally {
    endListening()
  }
  if (!stop.signal.aborted) throw new CommandFailure(EXIT.server, STREAM_ENDED)
}

const STREAM_ENDED = 'The server ended the stream. Run the command again to continue.'

function changeLine(change: ChangedCall): string {
  const { created_at: at, state, tool, tenant, principal, ran_ms: ms, error_code: code, record } = change
  const padded = state.padEnd(MAX_STATE_LENGTH)
  const facts = [at, padded, tool, tenant, principal, durationText(ms), code ?? '', record]
  return cleanText(facts.filter((fact) => fact !== '').join(' '))
}

const MAX_STATE_LENGTH = Math.max(...CALL_STATES.map(({ length }) => length))
