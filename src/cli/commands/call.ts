import { cleanJson } from '#cli/clean-text'
import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { exitOfFailure, reportFailure } from '#cli/report-call-failure'
import { readServerAddress, SERVER_OPTIONS } from '#cli/server-address'
import { UsageError } from '#cli/usage-error'
import { CallFailure } from '#client/index'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

const LARGEST_INPUT_BYTES = 64 * 1024 * 1024

export const call = defineCommand<'url' | 'key' | 'call-id'>({
  name: 'call',
  summary: 'Calls one tool on a running server and prints its value as JSON.',
  details: [
    'The call id makes the call safe to repeat: the same id and input give the recorded outcome, the tool does not run again.',
  ],
  positionals: [
    { name: 'TOOL', help: 'Toolkit.Name, Toolkit.Name@1 or Toolkit.Name@1.2.3.' },
    { name: 'JSON|-', optional: true, help: 'The input, a JSON object; - reads it from stdin. Default {}.' },
  ],
  options: {
    ...SERVER_OPTIONS,
    'call-id': { value: 'ID', help: 'Your own id for the call. Default: a new one, shown on stderr.' },
  },
  examples: [
    `collet call Calculator.Add '{"a":1,"b":2}'`,
    `echo '{"doorbell_id":"doorbell42"}' | collet call Doorbell.Ring - --call-id ring-1`,
  ],
  async run(args, context) {
    const { output, json, services } = context
    const [tool = '', text] = args.positionals
    const { url, apiKey } = readServerAddress(args, context)
    const input = await readInput(text, context)
    const callId = args.text('call-id')
    const tried = await services
      .connect(url, { apiKey })
      .then(
        (client) =>
          output.during(
            `Calling ${tool}`,
            client.tryCall(tool, input, callId === undefined ? {} : { callId }),
          ),
        asFailure,
      )
    if (tried.ok) {
      if (json) output.json({ ok: true, value: tried.value, callId: tried.callId })
      else output.data(cleanJson(tried.value, 2))
    } else if (json) {
      output.json({ ok: false, error: tried.error })
    } else {
      reportFailure(tried.error, output)
    }
    const shown = tried.ok ? tried.callId : tried.error.callId
    if (!json && shown !== undefined) output.note(`Call id ${shown}`)
    return tried.ok ? EXIT.ok : exitOfFailure(tried.error)
  },
})

function asFailure(error: unknown): { readonly ok: false; readonly error: CallFailure } {
  if (error instanceof CallFailure) return { ok: false, error }
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

async function readAll(stdin: CommandContext['stdin']): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    size += bytes.length
    if (size > LARGEST_INPUT_BYTES) throw new UsageError('The input on stdin is too large.')
    chunks.push(bytes)
  }
  return Buffer.concat(chunks).toString('utf8')
}
