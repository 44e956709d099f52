import type { ChangedCall, ListedCall, RejectedRequest } from '#admin-api/calls'
import { loadTools } from '#config/load-tools'
import { cleanText } from '#kernel/base/json'
import { CALL_STATES } from '#kernel/call/call'
import { NO_TOOLSETS, selectorProblem, selects } from '#kernel/tool/toolsets'
import { createCallEventRoutes } from '#server/admin/call-events'
import { CallFeed } from '#server/admin/call-feed'
import { REJECTED, STATE_WORDS } from '#server/admin/call-filter'
import { createCallRoutes } from '#server/admin/calls'
import { findKnownTools } from '#server/known-tools'
import { createRejectionRoutes } from '#server/overview/rejected-requests'
import { spelledTool } from '#store/call-filter'
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
import { renderTable } from './output.ts'
import { hasStore, isStoreAlone, lacksConfig, loadProjectConfig, withStore } from './store-access.ts'

/**
 * `collet calls`: lists calls with filters, follows them live, and lists rejected requests. `commands/calls.ts`
 * registers it beside the other commands on calls. Invariant: ids are never cut in a table, because operators copy
 * them.
 */

const MAX_CALLS = 1_000
const DEFAULT_LIMIT = 100

const MILLISECONDS = { min: 0, max: Number.MAX_SAFE_INTEGER } as const

const HEADINGS = [
  ...['RECORD', 'STATE', 'TOOL', 'TENANT', 'PRINCIPAL', 'CREATED', 'RUN TIME', 'ERROR', 'CALL ID'],
] as const

const FILTER_OPTIONS = {
  tool: {
    value: 'NAME',
    help: 'Only calls of this tool, in any spelling; Name@1.0.0 for one version, Gmail.* for all that begin so.',
  },
  principal: { value: 'P', help: 'Only calls of this principal, like key:alice.' },
  tenant: { value: 'T', help: 'Only calls of this tenant.' },
  since: {
    value: 'TIME',
    help: 'Only calls since then: 2026-01-31, 2026-01-31T10:00:00Z, or ago: 30m, 12h, 7d.',
  },
  until: { value: 'TIME', help: 'Only calls before then.' },
} as const satisfies OptionSpecs

type ListOption = keyof typeof FILTER_OPTIONS | 'state' | 'slow' | 'quick' | 'limit' | 'follow' | AdminOption

export const calls = defineCommand<ListOption>({
  name: 'calls',
  summary: 'Lists calls, newest first, with how long their tools ran; or prints them as they change.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  positionals: [],
  options: {
    ...FILTER_OPTIONS,
    state: {
      value: 'S',
      help: `Only calls in this state, or in several with commas: ${CALL_STATES.join(', ')}; error is failed, released and ambiguous; rejected lists requests that were turned down before a call was recorded.`,
    },
    slow: {
      value: 'MS',
      help: 'Only calls whose tool ran for at least MS milliseconds, or has been running for so long.',
    },
    quick: {
      value: 'MS',
      help: 'Only calls whose tool ran for less than MS milliseconds, or has been running for less.',
    },
    limit: { value: 'N', help: `List at most N. Default ${DEFAULT_LIMIT}.` },
    follow: { help: 'Print calls as they begin, wait, end and are settled, until Ctrl-C.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet calls --state ambiguous',
    'collet calls --tenant team1 --tool Crm.Find --since 12h',
    'collet calls --slow 2000 --since 7d --json',
    "collet calls --follow --state error --tool 'Gmail.*'",
  ],
  async run(args, context) {
    const { output, json } = context
    if (args.flag('follow')) return await followCalls(args, context)
    const limit = args.integer('limit', { min: 1, max: MAX_CALLS }) ?? DEFAULT_LIMIT
    const filter = await readFilter(args, context)
    if (filter.state === REJECTED) return await listRejected(filter, limit, args, context)
    const found = await output.during('Looking at calls', findCalls(filter, limit, args, context))
    const rows = found.map(rowOf)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('No call matches.')
    // Ids are never cut; the terminal wraps long lines.
    else for (const line of renderTable(HEADINGS, rows.map(cellsOf))) output.data(line)
    return EXIT.ok
  },
})

async function readFilter(
  args: Arguments<ListOption>,
  context: CommandContext,
): Promise<Readonly<Record<string, string>>> {
  const { clock } = context
  const [since, until] = [args.moment('since', clock.nowMs()), args.moment('until', clock.nowMs())]
  if (since !== undefined && until !== undefined && since >= until)
    throw new UsageError('--since must be before --until.')
  const asked = {
    state: readStates(args.text('state')),
    tool: await resolveToolName(args, context),
    principal: args.text('principal'),
    tenant: args.text('tenant'),
    since: since?.toISOString(),
    until: until?.toISOString(),
    slow: args.integer('slow', MILLISECONDS)?.toString(),
    quick: args.integer('quick', MILLISECONDS)?.toString(),
  }
  return Object.fromEntries(
    Object.entries(asked).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])),
  )
}

/**
 * Resolves another name of a tool to `Toolkit.Name`, under which calls are recorded. A server knows all names of its
 * tools; without one, the config and the pins do.
 */
async function resolveToolName(
  args: Arguments<ListOption>,
  context: CommandContext,
): Promise<string | undefined> {
  const text = args.text('tool')
  if (text === undefined || isServerNamed(args) || isStoreAlone(args) || lacksConfig(args, context))
    return text
  const loaded = await loadProjectConfig(args.text('config'), context)
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
  const isSpelled = tools.some(({ parts }) => spelledTool(parts.base) === spelledTool(text))
  if (problem !== undefined && !isSpelled) context.output.warn(`--tool: ${cleanText(problem)}`)
  return text
}

/** Refuses unknown states here, like every other invalid choice. */
function readStates(asked: string | undefined): string | undefined {
  const stranger = asked?.split(',').find((word) => !STATE_WORDS.has(word))
  if (stranger === undefined) return asked
  throw new UsageError(
    `--state expects one or several of ${[...STATE_WORDS.keys()].join(', ')}, with commas; got "${stranger}".`,
  )
}

export interface ListedCalls {
  readonly calls: readonly ListedCall[]
  readonly next?: number | null
}

/** Reads page after page: a page is bounded by the calls examined, not by the matches. */
async function findCalls(
  filter: Readonly<Record<string, string>>,
  limit: number,
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<readonly ListedCall[]> {
  const client = clientOf(args, context)
  const found: ListedCall[] = []
  let before: number | null = null
  do {
    const query: URLSearchParams = new URLSearchParams({
      ...filter,
      limit: String(limit - found.length),
      ...(before === null ? {} : { before: String(before) }),
    })
    const page: ListedCalls = await client.request<ListedCalls>(
      { method: 'GET', path: `/admin/calls?${query}` },
      'calls',
    )
    found.push(...page.calls)
    // A missing or repeated position means that there are no more pages.
    before = page.next == null || (before !== null && page.next >= before) ? null : page.next
  } while (before !== null && found.length < limit)
  return found
}

const REJECTED_HEADINGS = ['LAST AT', 'REQUESTS', 'CODE', 'TOOL', 'TENANT', 'PRINCIPAL', 'MESSAGE'] as const

/** Rejected requests have no record, so they are grouped by minute, caller, tool and code. */
async function listRejected(
  { state: _rejected, ...filter }: Readonly<Record<string, string>>,
  limit: number,
  args: Arguments<ListOption>,
  context: CommandContext,
): Promise<typeof EXIT.ok> {
  const { output, json } = context
  const query = new URLSearchParams({ ...filter, limit: String(limit) })
  const { rejected } = await clientOf(args, context).request<{
    readonly rejected: readonly RejectedRequest[]
  }>({ method: 'GET', path: `/admin/calls/rejected?${query}` }, 'rejected')
  const rows = rejected.map(({ no: _no, ...row }) => row)
  if (json) output.json(rows)
  else if (rows.length === 0) output.note('No request was rejected.')
  else {
    const cells = rows.map(({ last_at: lastAt, requests, code, tool, tenant, principal, message }) => [
      ...[lastAt, String(requests), code, tool ?? '-', tenant, principal, cleanText(message)],
    ])
    for (const line of renderTable(REJECTED_HEADINGS, cells)) output.data(line)
  }
  return EXIT.ok
}

export function clientOf(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  const { clock } = context
  return new AdminClient(args, context, {
    onStore: ({ store, access }) => [
      ...createRejectionRoutes({ rejections: store.rejections, clock }, access),
      ...createCallRoutes({ calls: store, clock }, access),
      ...createCallEventRoutes({ feed: new CallFeed({ store, clock }), clock }, access),
    ],
  })
}

/** A call in `--json`: without input and output. */
function rowOf(call: ListedCall) {
  return {
    record: call.record,
    call_id: call.call_id,
    run_id: call.run_id,
    trace_id: call.trace_id,
    protocol: call.protocol,
    user_id: call.user_id,
    tenant: call.tenant,
    principal: call.principal,
    by: call.by,
    tool: call.tool,
    tier: call.safety_tier,
    state: call.state,
    attempt: call.attempt,
    created_at: call.created_at,
    finished_at: call.finished_at,
    took_ms: call.took_ms,
    ran_ms: call.ran_ms,
    error_code: call.error_code,
  }
}

function cellsOf(row: ReturnType<typeof rowOf>): readonly string[] {
  const { record, state, tool, tenant, principal } = row
  return [
    ...[record, state, tool, tenant, principal, row.created_at, durationText(row.ran_ms)],
    ...[row.error_code ?? '', row.call_id],
  ]
}

export function durationText(ms: number | null): string {
  if (ms === null) return ''
  return ms < 10_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`
}

/** Runs until Ctrl-C. A stream that the server ends is a failure with its reason. */
async function followCalls(args: Arguments<ListOption>, context: CommandContext): Promise<typeof EXIT.ok> {
  if (args.text('limit') !== undefined)
    throw new UsageError('--limit is for the list; --follow goes on until Ctrl-C.')
  const { output, json } = context
  const stop = new AbortController()
  const endListening = context.onStop(() => stop.abort())
  const query = new URLSearchParams(await readFilter(args, context))
  try {
    await clientOf(args, context).follow(`/admin/calls/events?${query}`, stop.signal, ({ event, data }) => {
      if (event === 'end') throw new CommandFailure(EXIT.server, readEnd(data))
      if (event !== 'calls') return
      const page: { readonly calls: readonly ChangedCall[] } = JSON.parse(data)
      for (const change of page.calls) {
        if (json) output.json(changeRow(change))
        else output.data(changeLine(change))
      }
    })
  } finally {
    endListening()
  }
  if (!stop.signal.aborted)
    throw new CommandFailure(EXIT.server, 'The server ended the stream. Run the command again to go on.')
  return EXIT.ok
}

function readEnd(data: string): string {
  const { message }: { readonly message?: unknown } = JSON.parse(data)
  return typeof message === 'string' ? cleanText(message) : 'The server ended the stream.'
}

/** A change of a call in `--json --follow`, one per line. */
function changeRow(change: ChangedCall) {
  return {
    record: change.record,
    tenant: change.tenant,
    principal: change.principal,
    tool: change.tool,
    tier: change.safety_tier,
    state: change.state,
    attempt: change.attempt,
    created_at: change.created_at,
    finished_at: change.finished_at,
    took_ms: change.took_ms,
    ran_ms: change.ran_ms,
    error_code: change.error_code,
    events: change.events,
  }
}

function changeLine(change: ChangedCall): string {
  const { created_at: at, state, tool, tenant, principal, ran_ms: ms, error_code: code, record } = change
  const facts = [
    at,
    state.padEnd(MAX_STATE_LENGTH),
    tool,
    tenant,
    principal,
    durationText(ms),
    code ?? '',
    record,
  ]
  return facts
    .filter((fact) => fact !== '')
    .map(cleanText)
    .join(' ')
}

const MAX_STATE_LENGTH = Math.max(...CALL_STATES.map(({ length }) => length))
