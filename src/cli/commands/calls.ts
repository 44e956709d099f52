import {
  AdminClient,
  type AdminOption,
  adminOptions,
  readServerAddress,
  requestJson,
  SERVER_OPTIONS,
} from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { renderTable } from '#cli/output'
import { loadProjectConfig } from '#cli/store-access'
import { ConfigError } from '#config/load'
import { loadTools } from '#config/load-tools'
import { CALL_STATES } from '#core/call'
import { cleanText, type JsonObject, type JsonValue } from '#core/json'
import type { Settlement } from '#core/ports/store'
import { createCallRoutes, type RenderedCall } from '#server/admin/calls'

const MOST_CALLS = 1_000
const DEFAULT_LIMIT = 100

const HEADINGS = ['RECORD', 'STATE', 'TOOL', 'PRINCIPAL', 'CREATED', 'ERROR', 'CALL ID'] as const

const calls = defineCommand<'state' | 'limit' | AdminOption>({
  name: 'calls',
  summary: 'Lists calls, newest first.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  positionals: [],
  options: {
    state: { value: 'S', help: `Only calls in this state: ${CALL_STATES.join(', ')}.` },
    limit: { value: 'N', help: `List at most N. Default ${DEFAULT_LIMIT}.` },
    ...adminOptions('admin:calls'),
  },
  examples: ['collet calls --state ambiguous', 'collet calls --limit 20 --json'],
  async run(args, context) {
    const { output, json, clock } = context
    const state = args.oneOf('state', CALL_STATES)
    const limit = args.integer('limit', { least: 1, most: MOST_CALLS }) ?? DEFAULT_LIMIT
    const query = new URLSearchParams({ limit: String(limit), ...(state === undefined ? {} : { state }) })
    const client = new AdminClient(args, context, {
      onStore: ({ store, access }) => createCallRoutes({ calls: store, clock }, access),
    })
    const { calls: found } = await client.request<{ readonly calls: readonly RenderedCall[] }>(
      { method: 'GET', path: `/admin/calls?${query}` },
      'calls',
    )
    const rows = found.map(rowOf)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no such calls.')
    // Never cut: an id that is not whole is worth nothing, and the terminal wraps long lines by itself.
    else for (const line of renderTable(HEADINGS, rows.map(cellsOf))) output.data(line)
    return EXIT.ok
  },
})

/** A call as `--json` shows it: what happened, without input and output. */
function rowOf(call: RenderedCall) {
  return {
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
  }
}

function cellsOf(row: ReturnType<typeof rowOf>): readonly string[] {
  const { record, state, tool, principal, createdAt, errorCode, callId } = row
  return [record, state, tool, principal, createdAt, errorCode ?? '', callId]
}

type SettleOption = 'as' | 'value' | 'why' | 'force' | AdminOption

const ENDINGS = ['succeeded', 'failed', 'not-run'] as const satisfies readonly Settlement['as'][]

const callsSettle = defineCommand<SettleOption>({
  name: 'calls settle',
  summary: 'Settles an ambiguous call: records what really happened.',
  details: [
    'A crash interrupted the call, so it is not known whether it took effect. Check with the service it went to, then settle it.',
    'Only not-run frees the call id for another try. Who settled the call, and why, goes into the journal.',
    'A value is checked against the output schema of the tool if the config here has the tool and --url is not given.',
  ],
  positionals: [{ name: 'RECORD', help: 'The call, as collet calls --state ambiguous shows it.' }],
  options: {
    as: { value: 'ENDING', required: true, help: 'succeeded, failed or not-run.' },
    value: { value: 'JSON', help: 'With succeeded: the value that the tool is known to have returned.' },
    why: { value: 'TEXT', required: true, help: 'How you know.' },
    force: { help: 'Accept a value that does not fit the output schema of the tool.' },
    ...adminOptions('calls:settle'),
  },
  examples: [
    'collet calls settle 4f1c --as not-run --why "The mail is not in the sent folder."',
    `collet calls settle 4f1c --as succeeded --value '{"status":"sent"}' --why "Twilio shows it."`,
  ],
  async run(args, context) {
    const [record = ''] = args.positionals
    const body = readSettlement(args)
    const client = new AdminClient(args, context, {
      onStore: ({ store, access }) =>
        createCallRoutes(
          {
            calls: store,
            clock: context.clock,
            checkValue: (tool, value) => refuseUnfit({ tool, value }, args, context),
          },
          access,
        ),
    })
    const path = `/admin/calls/${encodeURIComponent(record)}/settle`
    await client.request<{ readonly settled_as: string }>({ method: 'POST', path, body }, 'settled_as')
    if (context.json) context.output.json({ record, settledAs: body.as })
    else context.output.data(`${record} is settled as ${body.as}.`)
    return EXIT.ok
  },
})

function readSettlement(args: Arguments<SettleOption>): JsonObject & Pick<Settlement, 'as' | 'why'> {
  const as = args.oneOf('as', ENDINGS)
  if (as === undefined) throw new UsageError(`Say how it ended: --as ${ENDINGS.join(', --as ')}.`)
  const why = args.text('why')
  if (why === undefined) throw new UsageError('Say how you know: --why TEXT. It goes into the journal.')
  const value = args.text('value')
  if (value === undefined) return { as, why }
  if (as !== 'succeeded') throw new UsageError('--value can only be used with --as succeeded.')
  return { as, why, value: parseValue(value) }
}

function parseValue(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(`--value is not JSON. Text needs quotes inside quotes: --value '"sent"'.`)
  }
}

interface SettledValue {
  readonly tool: string
  readonly value: JsonValue
}

async function refuseUnfit(
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

/** What is wrong with a value that a tool is said to have given; nothing when no config here knows the tool. */
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

const callsCancel = defineCommand<'url' | 'key'>({
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

export const COMMANDS: readonly Command[] = [calls, callsSettle, callsCancel]
