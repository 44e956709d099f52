import type { Arguments } from '#cli/arguments'
import { checkSettledValue } from '#cli/check-settled-value'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { actAtStore, askAsOperator, asksServer } from '#cli/operator-credential'
import { STORE_OPTIONS, withStore } from '#cli/operator-store'
import { UsageError } from '#cli/usage-error'
import { ToolError } from '#core/errors'
import { cleanText, type JsonObject, type JsonValue } from '#core/json'
import type { CallRecord, Settlement, SettleResult, Store } from '#core/ports/store'
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
