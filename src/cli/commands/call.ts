import {
  type Arguments,
  type CommandContext,
  defineCommand,
  EXIT,
  type ExitCode,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { readAll } from '#cli/input'
import type { CliIo } from '#cli/io'
import { type Output, snakeNames } from '#cli/output'
import {
  callerKey,
  connectionAdvice,
  fetchFrom,
  findServer,
  NO_SERVER_THERE,
  SERVER_OPTIONS,
  type ServerAddress,
} from '#cli/server-address'
import { hiddenReason } from '#cli/tools/read-tools'
import {
  CallFailure,
  type CallOptions,
  type ColletClient,
  type FailureClass,
  type RequirementResolvers,
  type TriedCall,
} from '#client/index'
import { cleanJson, cleanText, isJsonObject, type JsonObject, parseJson } from '#kernel/base/json'

/**
 * `collet call`: calls one tool on a running server and prints its value. Each class of failure has an exit code and
 * a next step. Invariant: values of `--secret` and `--token` never appear in a message.
 */

/** Options for what a tool needs beyond its input. */
const REQUIREMENT_OPTIONS = {
  secret: {
    value: 'ID=VALUE',
    many: true,
    help: 'A secret the tool needs; ID=- reads it from stdin, so that other users of this machine cannot see it.',
  },
  token: {
    value: 'ID=VALUE',
    many: true,
    help: 'A token for an authorization the tool needs; ID=- reads it from stdin.',
  },
  user: { value: 'ID', help: 'The user that the call is for.' },
} as const satisfies OptionSpecs

const FROM_STDIN = '-'

/** Reads `--secret` and `--token`. Messages name the option and never repeat its text, which may be the secret. */
async function readRequirements(
  args: Arguments<'secret' | 'token'>,
  stdin: CliIo['stdin'],
): Promise<RequirementResolvers> {
  const secrets = readPairs(args, 'secret')
  const tokens = readPairs(args, 'token')
  const input = args.positionals[1]
  const texts = [...secrets.values(), ...tokens.values(), input]
  const readers = texts.filter((text) => text === FROM_STDIN).length
  if (readers > 1) throw new UsageError('Only one of the input, --secret and --token can come from stdin.')
  const isFromStdin = input !== FROM_STDIN && readers === 1
  const piped = isFromStdin ? (await readAll(stdin)).replace(/\r?\n$/, '') : ''
  const resolveValue = (text: string | undefined): string | undefined => (text === FROM_STDIN ? piped : text)
  return {
    secrets: (id) => resolveValue(secrets.get(id)),
    authorization: (id) => resolveValue(tokens.get(id)),
  }
}

function readPairs(
  args: Arguments<'secret' | 'token'>,
  name: 'secret' | 'token',
): ReadonlyMap<string, string> {
  return new Map(
    args.texts(name).map((text) => {
      const at = text.indexOf('=')
      if (at > 0 && at < text.length - 1) return [text.slice(0, at), text.slice(at + 1)]
      throw new UsageError(`--${name} expects ID=VALUE, or ID=- to read the value from stdin.`)
    }),
  )
}

const EXIT_OF = {
  tool: EXIT.toolFailed,
  validation: EXIT.usage,
  requirements: EXIT.usage,
  config: EXIT.usage,
  server: EXIT.server,
  unauthenticated: EXIT.server,
  authorization_required: EXIT.server,
  approval_required: EXIT.server,
  transport: EXIT.server,
} as const satisfies Record<FailureClass, ExitCode>

const ADVICE = {
  tool: undefined,
  validation: 'collet tools show TOOL shows its input.',
  requirements:
    'Supply what the tool needs with --secret ID=VALUE or --user ID; an operator can store secrets with collet secrets set.',
  config: undefined,
  server: undefined,
  unauthenticated: 'Pass the API key with --key, or set COLLET_API_KEY.',
  authorization_required:
    'Open the address, then repeat the call with the same --call-id; or supply a token with --token ID=VALUE.',
  approval_required:
    'Open the address and decide there, or use collet approvals approve. Then repeat the call with the same --call-id.',
  transport: NO_SERVER_THERE,
} as const satisfies Record<FailureClass, string | undefined>

/** Prints a failed call for a person: what happened, what is wrong, and the next step. */
function reportFailure(failure: CallFailure, server: ServerAddress, output: Output): void {
  output.error(cleanText(failure.message))
  for (const [parameter, problem] of Object.entries(failure.parameterErrors))
    output.note(`  ${cleanText(parameter)}: ${cleanText(problem)}`)
  const { additionalPromptContent: more, developerMessage: detail } = failure
  if (more !== undefined) output.note(`  ${cleanText(more)}`)
  if (detail !== undefined) output.note(`  For developers: ${cleanText(detail)}`)
  for (const { url } of failure.challenges) output.note(`  ${cleanText(url)}`)
  const advice = connectionAdvice(failure.cause) ?? ADVICE[failure.class]
  if (failure.class === 'transport') output.note(`  Address: ${server.url} (from ${server.from})`)
  if (advice !== undefined) output.note(`  ${advice}`)
  if (failure.canRetry) output.note('  Nothing took effect: the call may be repeated.')
}

const call = defineCommand<keyof typeof SERVER_OPTIONS | 'call-id' | 'secret' | 'token' | 'user'>({
  name: 'call',
  summary: 'Calls one tool on a running server and prints its value as JSON.',
  details: [
    'The call id makes the call safe to repeat: the same id and input return the recorded outcome, and the tool does not run again.',
  ],
  positionals: [
    {
      name: 'TOOL',
      help: 'Any of its names: Toolkit.Name, Toolkit.Name@1.2.3, Toolkit_Name, openwop:Toolkit.Name (collet tools).',
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
    const server = await findServer(args, context)
    const requirements = await readRequirements(args, context.stdin)
    const input = await readInput(text, context)
    const options = { callId: args.text('call-id'), userId: args.text('user') }
    const tried = await services
      .connect(server.url, {
        apiKey: callerKey(args, context),
        requirements,
        fetch: fetchFrom(server, services),
      })
      .then((client) => output.during(`Calling ${tool}`, tryCall(client, tool, input, options)), asFailure)
    if (tried.ok) {
      if (json) output.json({ ok: true, value: tried.value, call_id: tried.callId, run_id: tried.runId })
      else output.data(cleanJson(tried.value, 2))
    } else if (json) {
      output.json({ ok: false, error: failureJson(tried.error) })
    } else {
      reportFailure(tried.error, server, output)
      const reason = tried.isUnknownTool ? await hiddenReason(tool, server, args, context) : undefined
      if (reason !== undefined) output.warn(cleanText(reason))
    }
    const callId = tried.ok ? tried.callId : tried.error.callId
    if (!json && callId !== undefined) output.note(`Call id ${callId}`)
    if (tried.ok) return EXIT.ok
    return tried.isUnknownTool ? EXIT.usage : EXIT_OF[tried.error.class]
  },
})

function failureJson(failure: CallFailure): Readonly<Record<string, unknown>> {
  const { missing, challenges } = failure
  const spell = (waiting: typeof challenges) => waiting.map(snakeNames)
  return {
    ...snakeNames(failure.toJSON()),
    challenges: spell(challenges),
    missing: missing && {
      ...snakeNames(missing),
      ...(missing.authorization && { authorization: spell(missing.authorization) }),
      ...(missing.approval && { approval: spell(missing.approval) }),
    },
  }
}

interface FailedCall {
  readonly ok: false
  readonly error: CallFailure
  /** The tool's name is wrong, which is a usage error and not a failure of the server. */
  readonly isUnknownTool: boolean
}

async function tryCall(
  client: Pick<ColletClient, 'get' | 'tryCall'>,
  tool: string,
  input: JsonObject,
  options: CallOptions,
): Promise<Extract<TriedCall, { readonly ok: true }> | FailedCall> {
  const tried = await client.tryCall(tool, input, options)
  if (tried.ok) return tried
  return { ...tried, isUnknownTool: await isUnknownTool(tool, tried.error, client) }
}

/** In OTC all refusals look alike (OTC-63). If the server sent no code, its list shows whether it has the tool. */
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

function asFailure(error: unknown): FailedCall {
  if (error instanceof CallFailure) return { ok: false, error, isUnknownTool: false }
  throw error
}

async function readInput(text: string | undefined, { stdin }: CommandContext): Promise<JsonObject> {
  if (text === undefined) return {}
  const input = parseJson(text === FROM_STDIN ? await readAll(stdin) : text)
  if (isJsonObject(input)) return input
  throw new UsageError(
    input === undefined
      ? `The input is not JSON. Write an object in quotes: '{"a":1}', or - for stdin.`
      : `The input must be a JSON object, for example '{"a":1}'.`,
  )
}

export const COMMANDS = [call]
