import { REQUIREMENT_OPTIONS, readRequirements } from '#cli/call-requirements'
import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { readAll } from '#cli/read-all'
import { exitOfFailure, reportFailure } from '#cli/report-call-failure'
import { readServerAddress, SERVER_OPTIONS } from '#cli/server-address'
import { UsageError } from '#cli/usage-error'
import { CallFailure, type CallOptions, type ColletClient, type TriedCall } from '#client/index'
import { cleanJson, isJsonObject, type JsonObject, type JsonValue } from '#core/json'

export const call = defineCommand<'url' | 'key' | 'call-id' | 'secret' | 'token' | 'user'>({
  name: 'call',
  summary: 'Calls one tool on a running server and prints its value as JSON.',
  details: [
    'The call id makes the call safe to repeat: the same id and input give the recorded outcome, the tool does not run again.',
  ],
  positionals: [
    {
      name: 'TOOL',
      help: 'Any name of it: Toolkit.Name, Toolkit.Name@1.2.3, Toolkit_Name, openwop:Toolkit.Name (collet tools).',
    },
    { name: 'JSON|-', optional: true, help: 'The input, a JSON object; - reads it from stdin. Default {}.' },
  ],
  options: {
    ...SERVER_OPTIONS,
    'call-id': { value: 'ID', help: 'Your own id for the call. Default: a new one, shown on stderr.' },
    ...REQUIREMENT_OPTIONS,
  },
  examples: [
    `collet call Calculator.Add '{"a":1,"b":2}'`,
    `echo '{"doorbell_id":"doorbell42"}' | collet call Doorbell.Ring - --call-id ring-1`,
    `collet call SMS.Send '{"to":"+15550100","message":"Hi"}' --secret TWILIO_API_KEY=- < key.txt`,
  ],
  async run(args, context) {
    const { output, json, services } = context
    const [tool = '', text] = args.positionals
    const { url, apiKey } = readServerAddress(args, context)
    const requirements = await readRequirements(args, context.stdin)
    const input = await readInput(text, context)
    const options = { callId: args.text('call-id'), userId: args.text('user') }
    const tried = await services
      .connect(url, { apiKey, requirements })
      .then((client) => output.during(`Calling ${tool}`, tryCall(client, tool, input, options)), asFailure)
    if (tried.ok) {
      if (json) output.json({ ok: true, value: tried.value, callId: tried.callId, runId: tried.runId })
      else output.data(cleanJson(tried.value, 2))
    } else if (json) {
      output.json({ ok: false, error: tried.error })
    } else {
      reportFailure(tried.error, output)
    }
    const shown = tried.ok ? tried.callId : tried.error.callId
    if (!json && shown !== undefined) output.note(`Call id ${shown}`)
    if (tried.ok) return EXIT.ok
    return tried.isUnknownTool ? EXIT.usage : exitOfFailure(tried.error)
  },
})

interface Failed {
  readonly ok: false
  readonly error: CallFailure
  /** The name is wrong, not the server: a mistake of whoever typed it. */
  readonly isUnknownTool: boolean
}

async function tryCall(
  client: Pick<ColletClient, 'get' | 'tryCall'>,
  tool: string,
  input: JsonObject,
  options: CallOptions,
): Promise<Extract<TriedCall, { readonly ok: true }> | Failed> {
  const tried = await client.tryCall(tool, input, options)
  if (tried.ok) return tried
  return { ...tried, isUnknownTool: await isUnknownTool(tool, tried.error, client) }
}

/** On the wire all refusals look alike (OTC-63); servers that give no code are asked for their list. */
async function isUnknownTool(
  tool: string,
  { class: kind, code }: CallFailure,
  client: Pick<ColletClient, 'get'>,
): Promise<boolean> {
  if (kind !== 'server' || code !== undefined) return code === 'tool_not_found'
  try {
    return (await client.get(tool)) === undefined
  } catch (error) {
    if (error instanceof CallFailure) return false
    throw error
  }
}

function asFailure(error: unknown): Failed {
  if (error instanceof CallFailure) return { ok: false, error, isUnknownTool: false }
  throw error
}

async function readInput(text: string | undefined, { stdin }: CommandContext): Promise<JsonObject> {
  if (text === undefined) return {}
  const source = text === '-' ? await readAll(stdin) : text
  const input = parseJson(source)
  if (isJsonObject(input)) return input
  throw new UsageError(
    input === undefined
      ? `The input is not JSON. Write an object in quotes: '{"a":1}', or - for stdin.`
      : `The input must be a JSON object, for example '{"a":1}'.`,
  )
}

function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
