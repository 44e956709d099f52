import { z } from 'zod'
import {
  actAtStore,
  askAsOperator,
  asksServer,
  readServerAddress,
  requestJson,
  SERVER_OPTIONS,
  STORE_OPTIONS,
  withStore,
} from '#cli/admin-access'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { renderTable } from '#cli/output'
import { loadProjectConfig } from '#cli/project'
import { ConfigError } from '#config/load'
import { loadTools } from '#config/load-tools'
import { ToolError } from '#core/errors'
import { ownRunId } from '#core/ids'
import { cleanText, type JsonObject, type JsonValue } from '#core/json'
import type { CallFilter, CallRecord, CallState, Settlement, SettleResult, Store } from '#core/ports/store'
import { readSettlement } from '#server/admin/calls'

type SettleOption = 'as' | 'value' | 'why' | 'force' | 'store' | 'config' | 'url' | 'key'

const ENDINGS = ['succeeded', 'failed', 'not-run'] as const satisfies readonly Settlement['as'][]

export const callsSettle = defineCommand<SettleOption>({
  name: 'calls settle',
  summary: 'Ends an ambiguous call: says what really happened.',
  details: [
    'A crash cut the call, so nobody knows whether it took effect. Check at the service it went to, then settle it.',
    'Only not-run frees the call id for another try. Who and why are journaled.',
    'A value is checked against the output schema of the tool, if the config here knows it and --url is not given.',
  ],
  positionals: [{ name: 'RECORD', help: 'The call, as collet calls --state ambiguous shows it.' }],
  options: {
    as: { value: 'ENDING', required: true, help: 'succeeded, failed or not-run.' },
    value: { value: 'JSON', help: 'With succeeded: the value the tool is known to have given.' },
    why: { value: 'TEXT', required: true, help: 'How you know.' },
    force: { help: 'Take a value that does not fit the output schema of the tool.' },
    ...STORE_OPTIONS,
    url: { value: 'U', help: 'Settle through this server instead; so does --key.' },
    key: {
      value: 'K',
      help: 'API key with the scope calls:settle. Default: COLLET_API_KEY, else the start token of a server here.',
    },
  },
  examples: [
    'collet calls settle 4f1c --as not-run --why "The mail is not in the sent folder."',
    `collet calls settle 4f1c --as succeeded --value '{"status":"sent"}' --why "Twilio shows it."`,
  ],
  async run(args, context) {
    const [record = ''] = args.positionals
    const body = readBody(args)
    if (!asksServer(args)) await settleInStore(record, body, args, context)
    else await settleThroughServer(record, body, args, context)
    if (context.json) context.output.json({ record, settledAs: body.as })
    else context.output.data(`${record} is settled as ${body.as}.`)
    return EXIT.ok
  },
})

interface SettleBody extends JsonObject {
  readonly as: Settlement['as']
  readonly why: string
}

function readBody(args: Arguments<SettleOption>): SettleBody {
  const as = args.oneOf('as', ENDINGS)
  if (as === undefined) throw new UsageError(`Say how it ended: --as ${ENDINGS.join(', --as ')}.`)
  const why = args.text('why')
  if (why === undefined) throw new UsageError('Say how you know: --why TEXT. It goes into the journal.')
  const value = args.text('value')
  if (value === undefined) return { as, why }
  if (as !== 'succeeded') throw new UsageError('--value goes only with --as succeeded.')
  return { as, why, value: parseValue(value) }
}

function parseValue(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(`--value is not JSON. Text needs quotes inside quotes: --value '"sent"'.`)
  }
}

async function settleInStore(
  record: string,
  body: SettleBody,
  args: Arguments<SettleOption>,
  context: CommandContext,
): Promise<void> {
  const who = actAtStore(context)
  const settlement = checked(() => readSettlement(body, { record, who, atMs: context.clock.nowMs() }))
  const refused = await withStore(args, context, async (store) => {
    const call = await store.findByRecord(record)
    if (call === undefined) return REFUSALS.not_found
    if (call.state !== 'ambiguous') return await whyNotAmbiguous(call, store)
    if (body.value !== undefined) await refuseUnfit({ tool: call.tool, value: body.value }, args, context)
    return REFUSALS[await store.settle(settlement)]
  })
  if (refused !== undefined) throw new CommandFailure(EXIT.usage, refused)
}

/** A call whose server died is only told from a running one when the next server recovers it (rule 8). */
async function whyNotAmbiguous({ state, writer }: CallRecord, store: Store): Promise<string> {
  if (state !== 'running') return REFUSALS.not_ambiguous
  return (await store.isWriterAlive(writer))
    ? 'The call is still running. collet calls cancel asks its server to stop it.'
    : 'The process that ran the call is gone. Start the server once, which recovers it; then settle it if it is ambiguous.'
}

async function refuseUnfit(
  settled: { readonly tool: string; readonly value: JsonValue },
  args: Arguments<SettleOption>,
  context: CommandContext,
): Promise<void> {
  const problems = await checkSettledValue(settled, args, context)
  for (const problem of problems) context.output.warn(`--value: ${cleanText(problem)}`)
  if (problems.length === 0 || args.flag('force')) return
  throw new UsageError(
    `The value does not fit what ${settled.tool} gives. Put it right, or settle it all the same with --force.`,
  )
}

const REFUSALS = {
  settled: undefined,
  not_found: 'There is no call with this record. collet calls --state ambiguous lists them.',
  not_ambiguous: 'Only an ambiguous call can be settled, and this one is not ambiguous (any more).',
} as const satisfies Record<SettleResult, string | undefined>

function checked(read: () => Settlement): Settlement {
  try {
    return read()
  } catch (error) {
    if (error instanceof ToolError) throw new UsageError(error.message)
    throw error
  }
}

async function settleThroughServer(
  record: string,
  body: SettleBody,
  args: Arguments<SettleOption>,
  context: CommandContext,
): Promise<void> {
  const path = `/admin/calls/${encodeURIComponent(record)}/settle`
  await askAsOperator({ method: 'POST', path, body }, args, context)
}

/** What is wrong with a value that a tool is said to have given; nothing when no config here knows the tool. */
async function checkSettledValue(
  settled: { readonly tool: string; readonly value: JsonValue },
  args: Arguments<'config'>,
  context: CommandContext,
): Promise<readonly string[]> {
  try {
    const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
    return tools.find(({ id }) => id === settled.tool)?.checkOutput(settled.value) ?? []
  } catch (error) {
    if (error instanceof ConfigError && args.text('config') === undefined) return []
    throw error
  }
}

export const callsCancel = defineCommand<'url' | 'key'>({
  name: 'calls cancel',
  summary: 'Asks a server to stop a running call of yours.',
  details: ['A call that already ended stays as it is. A write that had begun may have taken effect.'],
  positionals: [{ name: 'CALL_ID', help: 'The id the call was made with.' }],
  options: SERVER_OPTIONS,
  examples: ['collet calls cancel ring-1', 'collet calls cancel ring-1 --url https://tools.example.com'],
  async run(args, context) {
    const { output, json, services } = context
    const [callId = ''] = args.positionals
    const { url, apiKey } = readServerAddress(args, context)
    const path = `${url}/calls/${encodeURIComponent(callId)}`
    const view = await requestJson({ method: 'DELETE', url: path, credential: apiKey }, services.fetch)
    if (json) output.json(view)
    else
      output.data(`${callId} is ${typeof view.state === 'string' ? cleanText(view.state) : 'asked to stop'}.`)
    return EXIT.ok
  },
})

const MOST_CALLS = 1_000
const DEFAULT_LIMIT = 100

const STATE_NAMES = [
  'parked',
  'running',
  'succeeded',
  'failed',
  'released',
  'ambiguous',
] as const satisfies readonly CallState[]

type CallsOption = 'state' | 'limit' | 'store' | 'config' | 'url' | 'key'

export const calls = defineCommand<CallsOption>({
  name: 'calls',
  summary: 'Lists calls, newest first.',
  details: ['Reads the store itself, also while a server uses it. With --url it asks the server.'],
  positionals: [],
  options: {
    state: { value: 'S', help: `Only calls in this state: ${STATE_NAMES.join(', ')}.` },
    limit: { value: 'N', help: `At most so many. Default ${DEFAULT_LIMIT}.` },
    ...STORE_OPTIONS,
    url: { value: 'U', help: 'Ask this server instead.' },
    key: {
      value: 'K',
      help: 'API key with the scope admin:calls. Default: COLLET_API_KEY, else the start token of a server here.',
    },
  },
  examples: ['collet calls --state ambiguous', 'collet calls --limit 20 --json'],
  async run(args, context) {
    const { output, json } = context
    const state = args.oneOf('state', STATE_NAMES)
    const limit = args.integer('limit', { least: 1, most: MOST_CALLS }) ?? DEFAULT_LIMIT
    const filter: CallFilter = { limit, ...(state === undefined ? {} : { state }) }
    const rows = !asksServer(args)
      ? await withStore(args, context, async (store) => (await store.list(filter)).map(rowOfRecord))
      : await askServer(filter, args, context)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no such calls.')
    // Never cut: an id that is not whole is worth nothing, and the terminal wraps long lines by itself.
    else for (const line of renderTable(CALL_HEADINGS, rows.map(callCells))) output.data(line)
    return EXIT.ok
  },
})

async function askServer(
  filter: CallFilter,
  args: Arguments<CallsOption>,
  context: CommandContext,
): Promise<readonly CallRow[]> {
  const query = new URLSearchParams({
    limit: String(filter.limit),
    ...(filter.state === undefined ? {} : { state: filter.state }),
  })
  const answer = await askAsOperator({ method: 'GET', path: `/admin/calls?${query}` }, args, context)
  const rows = rowsOfAnswer(answer)
  if (rows !== undefined) return rows
  throw new CommandFailure(
    EXIT.server,
    'The server gave no list of calls. Is it a Collet server of this version?',
  )
}

/** A call as operators see it: what happened, without input and output. */
interface CallRow {
  readonly record: string
  readonly callId: string
  readonly runId: string
  readonly traceId: string
  readonly protocol: string | null
  readonly userId: string | null
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly tier: string
  readonly state: string
  readonly attempt: number
  readonly createdAt: string
  readonly finishedAt: string | null
  readonly errorCode: string | null
}

const CALL_HEADINGS = ['RECORD', 'STATE', 'TOOL', 'PRINCIPAL', 'CREATED', 'ERROR', 'CALL ID'] as const

function callCells(row: CallRow): readonly string[] {
  const { record, state, tool, principal, createdAt, errorCode, callId } = row
  return [record, state, tool, principal, createdAt, errorCode ?? '', callId]
}

function rowOfRecord(call: CallRecord): CallRow {
  const { record, callId, tenant, principal, tool, tier, state, attempt, outcome, finishedAtMs } = call
  return {
    record,
    callId,
    runId: call.runId ?? ownRunId(record),
    traceId: call.traceId,
    protocol: call.protocol ?? null,
    userId: call.userId ?? null,
    tenant,
    principal,
    tool,
    tier,
    state,
    attempt,
    createdAt: new Date(call.createdAtMs).toISOString(),
    finishedAt: finishedAtMs === undefined ? null : new Date(finishedAtMs).toISOString(),
    errorCode: outcome === undefined || outcome.ok ? null : outcome.error.code,
  }
}

const WIRE_LIST = z.object({
  calls: z.array(
    z.object({
      record: z.string(),
      call_id: z.string(),
      run_id: z.string(),
      trace_id: z.string(),
      protocol: z.string().nullable(),
      user_id: z.string().nullable(),
      tenant: z.string(),
      principal: z.string(),
      tool: z.string(),
      safety_tier: z.string(),
      state: z.string(),
      attempt: z.number(),
      created_at: z.string(),
      finished_at: z.string().nullable(),
      error_code: z.string().nullable(),
    }),
  ),
})

/** The answer of `GET /admin/calls`; `undefined` when it is something else. */
function rowsOfAnswer(answer: JsonObject): readonly CallRow[] | undefined {
  const parsed = WIRE_LIST.safeParse(answer)
  return parsed.data?.calls.map((call) => ({
    record: call.record,
    callId: call.call_id,
    runId: call.run_id,
    traceId: call.trace_id,
    protocol: call.protocol,
    userId: call.user_id,
    tenant: call.tenant,
    principal: call.principal,
    tool: call.tool,
    tier: call.safety_tier,
    state: call.state,
    attempt: call.attempt,
    createdAt: call.created_at,
    finishedAt: call.finished_at,
    errorCode: call.error_code,
  }))
}
