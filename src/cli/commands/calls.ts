import { LIST_CALL_ERRORS, SHOW_CONVERSATION } from '#admin-api/call-views'
import {
  type CallDetails,
  type ListedCall,
  SETTLE_CALL,
  SHOW_CALL,
  type TimelineEntry,
} from '#admin-api/calls'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, UsageError } from '#cli/command'
import { calls, callsClient, durationText, FILTER_OPTIONS, readRange } from '#cli/list-calls'
import { listCommand, operatorCommand } from '#cli/operator-command'
import { labelledLines, renderList, snakeNames } from '#cli/output'
import { callerKey, findServer, requestJson, SERVER_OPTIONS } from '#cli/server-address'
import { loadProjectConfig } from '#cli/store-access'
import { ConfigError } from '#config/load'
import { loadTools } from '#config/load-tools'
import { cleanJson, cleanText, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { Settlement } from '#kernel/call/call-record'
import { createCallRoutes } from '#server/admin/calls'

/**
 * `collet calls errors|conversation|show|result|settle|cancel`; `list-calls.ts` has the list. They read and settle recorded calls on the store
 * or through a server. Invariant: only an ambiguous call can be settled, and a value that does not fit the tool's
 * output schema needs `--force`.
 */

const RECORD = {
  id: 'call',
  name: 'RECORD',
  help: 'The record that collet calls shows, or its first characters.',
} as const

const callsShow = operatorCommand({
  name: 'calls show',
  summary: 'Shows one call: its caller, times, steps, input, outcome and log.',
  details: [
    'Input and outcome need the scope calls:read, and reading them is journaled. Without it the rest is shown.',
    'Credentials are never part of an input. Results that are older than calls.retentionHours are gone.',
  ],
  positionals: [RECORD],
  options: adminOptions('admin:calls, and calls:read for input and outcome'),
  examples: ['collet calls show 4f1c', 'collet calls show 4f1c --json'],
  client: callsClient,
  operation: SHOW_CALL,
  request: () => ({ isJournaled: true }),
  json: ({ call }) => detailsJson(call),
  print({ call }, { output }) {
    for (const line of linesOf(call)) output.data(line)
  },
})

/** Respells members that come from recorded events. */
function detailsJson({ timeline, steps, journal, ...call }: CallDetails) {
  const spellEntry = ({ facts, ...entry }: TimelineEntry) => ({ ...entry, facts: snakeNames(facts) })
  return {
    ...call,
    timeline: timeline.map(spellEntry),
    steps: steps.map((step) => ({ ...step, timeline: step.timeline.map(spellEntry) })),
    journal: journal.map(({ events, ...group }) => ({ ...group, events: events.map(snakeNames) })),
  }
}

function linesOf(call: CallDetails): readonly string[] {
  const facts = labelledLines([
    ['record', call.record],
    ['call id', call.call_id],
    ['state', call.error_code === null ? call.state : `${call.state} (${call.error_code})`],
    ['tool', `${call.tool} (${call.safety_tier})`],
    ['called by', call.by === null ? call.principal : `${call.principal}, run by the ${call.by}`],
    ['for user', call.user_id],
    ['tenant', call.tenant],
    ['protocol', call.protocol],
    ['requested', call.created_at],
    ['ended', call.finished_at],
    ['took', tookText(call)],
    ['tool ran', call.ran_ms === null ? null : durationText(call.ran_ms)],
    ['attempt', String(call.attempt)],
    ['run', call.run_id],
    ['trace', call.trace_id],
    ['session', call.session_id],
    ['parent', call.parent],
    ['waits for', call.waits_for],
    ['definition', call.definition_hash],
  ])
  return [
    ...facts,
    'timeline:',
    ...historyOf(call).map(eventLine),
    ...(call.steps.length === 0 ? [] : ['steps:', ...renderList(call.steps.map(stepCells))]),
    ...contentLines(call),
  ]
}

/** The time until an operator settled the call is not the run time of the tool. */
function tookText({ took_ms: ms, journal }: CallDetails): string | null {
  if (ms === null) return null
  const isSettled = journal.some(({ events }) => events.some(({ type }) => type === 'call.settled'))
  return isSettled ? `${durationText(ms)} until it was settled; its run time is unknown` : durationText(ms)
}

/** Events that only the journal records; the timeline of a call lacks them. */
const JOURNAL_ONLY: ReadonlySet<string> = new Set(['call.settled', 'call.late', 'call.cancel_requested'])

/** The events of the run and those that only the journal has, ordered by time. */
function historyOf({ timeline, journal }: CallDetails): readonly TimelineEntry[] {
  const journaled = journal.flatMap(({ events }) =>
    events.flatMap(({ type, at, ...facts }) =>
      JOURNAL_ONLY.has(type)
        ? [{ at: new Date(at).toISOString(), event: type, facts: withoutCall(facts) }]
        : [],
    ),
  )
  return [...timeline, ...journaled].toSorted((left, right) => left.at.localeCompare(right.at))
}

/** Members of a journal event that identify the call, which `linesOf` has already printed. */
const CALL_MEMBERS: ReadonlySet<string> = new Set(['record', 'tenant', 'principal', 'tool', 'attempt'])

function withoutCall(facts: object): TimelineEntry['facts'] {
  return Object.fromEntries(Object.entries(facts).filter(([name]) => !CALL_MEMBERS.has(name)))
}

function eventLine({ at, event, facts }: TimelineEntry): string {
  const members = Object.entries(facts).map(([name, value]) =>
    cleanText(`${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`),
  )
  return `  ${[at, event, ...members].join(' ')}`
}

function stepCells({ record, state, tool, took_ms: ms, error_code: code }: ListedCall): readonly string[] {
  return [record, state, tool, durationText(ms), code ?? '']
}

const NOT_ENDED = 'There is no outcome yet.'

const NO_OUTCOME = {
  parked: NOT_ENDED,
  running: NOT_ENDED,
  released: NOT_ENDED,
  failed: NOT_ENDED,
  ambiguous: 'The outcome is unknown. "collet calls settle" records it.',
  succeeded: 'The call was settled as succeeded without a value: its result is unknown.',
} as const satisfies Record<CallDetails['state'], string>

function contentLines(call: CallDetails): readonly string[] {
  const { contents, input, outcome, late_outcome: late, log = [] } = call
  if (contents === 'hidden') return ['Input and outcome need a credential with the scope calls:read.']
  if (contents === 'gone') return ['Input and outcome are gone: results are kept for calls.retentionHours.']
  return [
    'input:',
    cleanJson(input ?? null, 2),
    ...(outcome === undefined ? [NO_OUTCOME[call.state]] : ['outcome:', cleanJson(outcome, 2)]),
    ...(late === undefined
      ? []
      : ['late answer from the tool, after the call had ended:', cleanJson(late, 2)]),
    ...(log.length === 0 ? [] : ['log:', ...log.flatMap(logLines)]),
  ]
}

/** Further lines of a text are indented, so that they cannot be taken for lines of the log. */
function logLines({ at, level, text }: NonNullable<CallDetails['log']>[number]): readonly string[] {
  const [first = '', ...more] = text.split('\n').map(cleanText)
  return [`  ${at} ${level} ${first}`, ...more.map((line) => `    ${line}`)]
}

type SettleOption = 'as' | 'value' | 'why' | 'force' | AdminOption

const ENDINGS = ['succeeded', 'failed', 'not-run'] as const satisfies readonly Settlement['as'][]

const callsSettle = operatorCommand({
  name: 'calls settle',
  summary: 'Settles an ambiguous call: records what really happened.',
  details: [
    'A crash interrupted the call, so it is not known whether it took effect. collet calls show prints the request; check with the service that it went to, then settle it.',
    'Only not-run frees the call id for another try. Who settled the call, and why, goes into the journal.',
    'A value is checked against the output schema of the tool if the config here has the tool and --url is not given.',
  ],
  positionals: [RECORD],
  options: {
    as: { value: 'ENDING', required: true, help: 'succeeded, failed or not-run.' },
    value: { value: 'JSON', help: 'With succeeded: the value that the tool is known to have returned.' },
    why: { value: 'TEXT', required: true, help: 'The evidence.' },
    force: { help: 'Accept a value that does not fit the output schema of the tool.' },
    ...adminOptions('calls:settle'),
  },
  examples: [
    'collet calls settle 4f1c --as not-run --why "The mail is not in the sent folder."',
    `collet calls settle 4f1c --as succeeded --value '{"status":"sent"}' --why "Twilio shows it."`,
  ],
  client: (args, context) =>
    new AdminClient(args, context, {
      onStore: ({ store, access }) =>
        createCallRoutes(access, {
          calls: store,
          clock: context.clock,
          checkValue: (tool, value) => refuseInvalidValue({ tool, value }, args, context),
        }),
    }),
  operation: SETTLE_CALL,
  request: (args) => ({ body: readSettlement(args) }),
  print: ({ record, settled_as: ending }, { output }) => output.data(`${record} is settled as ${ending}.`),
})

function readSettlement(args: Arguments<SettleOption>): JsonObject {
  const as = args.oneOf('as', ENDINGS)
  if (as === undefined) throw new UsageError(`Give the outcome: --as ${ENDINGS.join(', --as ')}.`)
  const why = args.text('why')
  if (why === undefined) throw new UsageError('Give the evidence: --why TEXT. It is recorded in the journal.')
  const text = args.text('value')
  if (text === undefined) return { as, why }
  if (as !== 'succeeded') throw new UsageError('--value can only be used with --as succeeded.')
  const value = parseJson(text)
  if (value !== undefined) return { as, why, value }
  throw new UsageError(`--value is not JSON. Text needs quotes inside quotes: --value '"sent"'.`)
}

interface SettledValue {
  readonly tool: string
  readonly value: JsonValue
}

async function refuseInvalidValue(
  settled: SettledValue,
  args: Arguments<SettleOption>,
  context: CommandContext,
): Promise<void> {
  const problems = await checkOutput(settled, args, context)
  for (const problem of problems) context.output.warn(`--value: ${cleanText(problem)}`)
  if (problems.length === 0 || args.flag('force')) return
  throw new UsageError(
    `The value does not fit the output schema of ${settled.tool}. Correct it, or settle the call anyway with --force.`,
  )
}

/** Returns the problems that the tool's output schema finds in a value; none if no config here has the tool. */
async function checkOutput(
  { tool, value }: SettledValue,
  args: Arguments<'config'>,
  context: CommandContext,
): Promise<readonly string[]> {
  try {
    const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
    return tools.find(({ id }) => id === tool)?.checkOutput(value) ?? []
  } catch (error) {
    if (error instanceof ConfigError && args.text('config') === undefined) return []
    throw error
  }
}

const callsCancel = defineCommand<keyof typeof SERVER_OPTIONS>({
  name: 'calls cancel',
  summary: 'Asks a server to cancel one of your running calls.',
  details: ['A call that already ended stays as it is. A write that had begun may have taken effect.'],
  positionals: [{ name: 'CALL_ID', help: 'The id the call was made with.' }],
  options: SERVER_OPTIONS,
  examples: ['collet calls cancel ring-1', 'collet calls cancel ring-1 --url https://tools.example.com'],
  async run(args, context) {
    const { output, json, services } = context
    const [callId = ''] = args.positionals
    const server = await findServer(args, context)
    const path = `/calls/${encodeURIComponent(callId)}`
    const credential = callerKey(args, context)
    const view = await requestJson({ method: 'DELETE', server, path, credential }, services)
    if (json) output.json(view)
    else
      output.data(`${callId} is ${typeof view.state === 'string' ? cleanText(view.state) : 'asked to stop'}.`)
  },
})

const callsResult = defineCommand<
  'path' | 'offset' | 'limit' | 'where' | 'select' | 'format' | 'max-bytes' | keyof typeof SERVER_OPTIONS
>({
  name: 'calls result',
  summary: 'Reads the result of one of your calls, whole or in parts.',
  details: [
    'A result that is larger than --max-bytes is shortened; what was left out is listed on stderr. Read it by its path and range.',
    'Results are kept for calls.retentionHours.',
  ],
  positionals: [{ name: 'CALL_ID', help: 'The id the call was made with.' }],
  options: {
    path: { value: 'PATH', help: 'Part to read: /items/3/name or items[3].name. Default the whole result.' },
    offset: { value: 'N', help: 'First item, member or character to read.' },
    limit: { value: 'N', help: 'Maximum number of items, members or characters.' },
    where: { value: 'FILTER', help: 'Items of an array: member=value, or member~text.' },
    select: { value: 'NAMES', help: 'Members to show, separated by commas.' },
    format: {
      value: 'FORMAT',
      help: 'json: read a string that contains JSON as JSON. text: read JSON as text, by characters.',
    },
    'max-bytes': { value: 'N', help: 'Maximum number of bytes to show. Default 32000; 0 = all.' },
    ...SERVER_OPTIONS,
  },
  examples: [
    'collet calls result 8f41 --path /items --limit 5',
    'collet calls result 8f41 --path items --where state=open --select id,title',
  ],
  async run(args, context) {
    const { output, json, services } = context
    const [callId = ''] = args.positionals
    const server = await findServer(args, context)
    const names = ['path', 'offset', 'limit', 'where', 'select', 'format'] as const
    const query = new URLSearchParams({ max_bytes: args.text('max-bytes') ?? '32000' })
    for (const name of names) {
      const text = args.text(name)
      if (text !== undefined) query.set(name, text)
    }
    const path = `/calls/${encodeURIComponent(callId)}/result?${query}`
    const part = await requestJson(
      { method: 'GET', server, path, credential: callerKey(args, context) },
      services,
    )
    if (json) {
      output.json(part)
      return
    }
    const { value = null, next_offset: next, left_out: leftOut } = part
    output.data(typeof value === 'string' ? cleanJson(value) : cleanJson(value, 2))
    if (next !== undefined) output.warn(`There is more: --offset ${String(next)}`)
    for (const place of Array.isArray(leftOut) ? leftOut : []) output.warn(`shortened: ${cleanJson(place)}`)
  },
})

const callsErrors = listCommand({
  name: 'calls errors',
  summary: 'Groups failed calls and rejected requests by tool, error code and message.',
  details: [
    'The most frequent first; of the last 24 hours without --since. … stands for ids, numbers and quoted values, in which equal failures differ.',
    "List the calls of a group with collet calls --tool TOOL --code CODE --error MESSAGE; those of the code's rejected requests with --state rejected.",
  ],
  options: {
    ...FILTER_OPTIONS,
    code: { value: 'CODE', help: 'Only this error code.' },
    error: { value: 'TEXT', help: 'Only messages that contain TEXT; leaves out rejected requests.' },
    ...adminOptions('admin:calls'),
  },
  examples: ['collet calls errors --since 1h', 'collet calls errors --tenant acme --tool Crm.Find --json'],
  client: callsClient,
  operation: LIST_CALL_ERRORS,
  waiting: 'Reading errors',
  async request(args, context) {
    const range = await readRange(args, context)
    return { query: { ...range, code: args.text('code'), error: args.text('error') } }
  },
  rows: ({ errors }) => errors,
  columns: {
    COUNT: ({ count }) => count,
    CALLERS: ({ principals }) => principals,
    FIRST: ({ first_at: at }) => at,
    LAST: ({ last_at: at }) => at,
    KIND: ({ kind }) => kind,
    CODE: ({ code }) => code,
    TOOL: ({ tool }) => tool,
    MESSAGE: ({ message }) => message,
  },
  fitsTerminal: true,
  empty: 'No errors.',
  note({ whole }, { output }) {
    if (!whole)
      output.warn('There are more errors; older ones were not counted. Narrow the range with --since.')
  },
})

const callsConversation = listCommand({
  name: 'calls conversation',
  summary: 'Lists the calls of one run, session or trace with their steps and waits, oldest first.',
  options: {
    run: { value: 'ID', help: 'The calls of this run.' },
    session: { value: 'ID', help: 'The calls of this session.' },
    trace: { value: 'ID', help: 'The calls of this trace: its id, or a traceparent.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet calls conversation --run order-1042',
    'collet calls conversation --trace 4bf92f3577b34da6a3ce929d0e0e4736',
  ],
  client: callsClient,
  operation: SHOW_CONVERSATION,
  waiting: 'Reading calls',
  request(args) {
    const query = { run: args.text('run'), session: args.text('session'), trace: args.text('trace') }
    if (Object.values(query).every((value) => value === undefined))
      throw new UsageError('Name the conversation: --run, --session or --trace.')
    return { query }
  },
  rows: ({ calls: found }) => found,
  columns: {
    CREATED: ({ created_at: at }) => at,
    STATE: ({ state }) => state,
    TOOL: ({ tool, parent }) => (parent === null ? tool : `- ${tool}`),
    PRINCIPAL: ({ principal }) => principal,
    WAITED: ({ waits }) => waitText(waits),
    'RUN TIME': ({ ran_ms: ms }) => durationText(ms),
    ERROR: ({ error_code: code }) => code ?? '',
    RECORD: ({ record }) => record,
  },
  empty: 'No call matches.',
  note({ whole }, { output }) {
    if (!whole) output.warn('There are more calls; older ones were left out.')
  },
})

function waitText(waits: readonly { readonly from: string; readonly until: string | null }[]): string {
  if (waits.some(({ until }) => until === null)) return 'waiting'
  const ms = waits.reduce((sum, { from, until }) => sum + Date.parse(until ?? from) - Date.parse(from), 0)
  return waits.length === 0 ? '' : durationText(ms)
}

export const COMMANDS = [
  calls,
  callsErrors,
  callsConversation,
  callsShow,
  callsResult,
  callsSettle,
  callsCancel,
]
