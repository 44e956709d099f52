import { type ErrorCode, isRefusal, REFUSAL_CODES } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallPlan } from './differential-calls.ts'
import type { Observation } from './differential-observation.ts'
import type { ToolPlan } from './differential-tools.ts'

/** The inputs of a difference besides the answer of the core. */
export interface Circumstances {
  readonly call: CallPlan
  /** The tool that the lane calls, if it is visible to the caller. */
  readonly tool: ToolPlan | undefined
  readonly functionName: string
}

interface Difference {
  readonly protocol: 'otc' | 'opentool' | 'mcp' | 'createGateway'
  /** The ledger row or rule that requires the difference. */
  readonly row: string
  readonly what: string
  /** The exact observation over this protocol. */
  readonly shows: (reported: Observation, around: Circumstances) => Observation
}

const WORDS_OF_OTHERS: ReadonlySet<string> = new Set(['tool_failed', 'upstream_failed'])

export type Protocol = Difference['protocol']

/** Every allowed difference between a protocol and an in-process call. Everything else must be equal. */
const DIFFERENCES: readonly Difference[] = [
  {
    protocol: 'otc',
    row: 'OTC-63, OTC-81, OTC-83',
    what: 'three classes as statuses: refused before the call, bad input, ended by the tool',
    shows: (reported) => ({ ...reported, sort: reported.code === 'ok' ? '200' : otcStatus(reported.code) }),
  },
  {
    protocol: 'otc',
    row: 'OTC-84',
    what: 'an error has no number of its own and no `effect`; its message says what is unknown (rule 10)',
    shows: (reported) => withError(reported, ({ errorNumber: _number, effect: _effect, ...error }) => error),
  },
  {
    protocol: 'otc',
    row: 'OTC-82',
    what: 'issues are listed by parameter, and all of them are in the message',
    shows: (reported) => withError(reported, ({ issues: _issues, ...error }) => error),
  },
  { protocol: 'otc', row: 'C-30', what: 'waits are whole milliseconds', shows: wholeWait },
  {
    protocol: 'opentool',
    row: 'OTS-39, OTS-40',
    what: 'HTTP 200 and a number: 405 unknown, 400 bad request or arguments, else 500 or the tool’s own',
    shows: (reported) => ({
      ...reported,
      sort: reported.code === 'ok' ? '200' : `200/${opentoolNumber(reported)}`,
    }),
  },
  {
    protocol: 'opentool',
    row: 'OTS-36, OTS-41',
    what: 'a request that is not a call is HTTP 400 with a JSON-RPC code',
    shows: (reported, { call }) => {
      if (reported.isUnread !== true) return reported
      const isParams = call.input !== undefined && call.input !== null && !isJsonObject(call.input)
      return { ...reported, sort: isParams ? '400/-32602' : '400/-32600' }
    },
  },
  {
    protocol: 'opentool',
    row: 'OTS-38',
    what: 'a value is sent under the return’s name, and null is left out',
    shows: (reported, { tool }) =>
      reported.value === undefined ? reported : { ...reported, value: underName(tool, reported.value) },
  },
  {
    protocol: 'opentool',
    row: 'OTS-39',
    what: 'the message is plain text, and texts for developers are not sent',
    shows: (reported) =>
      withError(reported, ({ developerMessage: _text, errorNumber: _number, ...error }) => error),
  },
  {
    protocol: 'opentool',
    row: 'OTS-40',
    what: 'the messages of unknown functions and bad arguments begin as the SDKs’ do; keys and addresses are named',
    shows: (reported, { functionName }) =>
      withError(reported, ({ issues, ...error }) => ({
        ...error,
        message: opentoolMessage(reported.code, { ...error, issues: issues ?? null }, functionName),
      })),
  },
  { protocol: 'opentool', row: 'C-30', what: 'waits are whole milliseconds', shows: wholeWait },
  {
    protocol: 'mcp',
    row: 'MCP-69',
    what: 'results that a model reads, JSON-RPC errors for calls that could not begin, and 429 or 503 for temporary refusals',
    shows: (reported) => ({ ...reported, sort: reported.code === 'ok' ? '200' : mcpSort(reported.code) }),
  },
  {
    protocol: 'mcp',
    row: 'MCP-62',
    what: 'the server’s own texts about a call name the function that the model called, not the id of the tool',
    shows: (reported, { tool, functionName }) =>
      tool === undefined || WORDS_OF_OTHERS.has(reported.code)
        ? reported
        : withError(reported, (error) => ({
            ...error,
            message: `${error.message}`.replaceAll(`${tool.base}@${tool.version}`, functionName),
          })),
  },
  {
    protocol: 'mcp',
    row: 'MCP-62',
    what: 'a client that sent no call id gets no advice about one',
    shows: (reported, { call }) =>
      call.key !== undefined
        ? reported
        : withError(reported, (error) => ({
            ...error,
            message: `${error.message}`.replace(/, and with the same call id if you sent one(?=\.)/, ''),
          })),
  },
  {
    protocol: 'mcp',
    row: 'MCP-61, MCP-62, MCP-63',
    what: 'an error is a text: the problem, what is missing and what may help, on separate lines',
    shows: (reported, { functionName }) =>
      withError(reported, (error) => ({ message: mcpMessage(reported, error, functionName) })),
  },
  {
    protocol: 'createGateway',
    row: 'docs/embedding.md',
    what: 'code gets the outcome alone: no call id, no run',
    shows: ({ callId: _callId, runId: _runId, ...reported }) => reported,
  },
  {
    protocol: 'createGateway',
    row: 'OTC-43',
    what: 'an invalid id has its own message',
    shows: (reported, { call }) =>
      reported.isUnread === true && `${reported.error?.message}`.includes('is not the name of a tool')
        ? withError(reported, (error) => ({
            ...error,
            message: `'${call.base}${call.suffix}' is not the name of a tool. Write Toolkit.Name, Toolkit.Name@x.y.z or another name of the tool.`,
          }))
        : reported,
  },
]

/** The observation that a protocol must give for an answer of the core. */
export function shownBy(protocol: Protocol, reported: Observation, around: Circumstances): Observation {
  const { isUnread: _isUnread, ...shown } = DIFFERENCES.filter(
    (difference) => difference.protocol === protocol,
  ).reduce((before, { shows }) => shows(before, around), reported)
  return shown
}

function otcStatus(code: string): string {
  if (code === 'input_invalid') return '422'
  return isRefusal(codeOf(code)) ? '400' : '200'
}

function codeOf(code: string): ErrorCode {
  return REFUSAL_CODES.find((known) => known === code) ?? 'tool_failed'
}

const BAD_REQUESTS = ['request_invalid', 'key_conflict', 'session_not_found', 'input_invalid']

function opentoolNumber({ code, error }: Observation): string {
  if (code === 'tool_not_found') return '405'
  if (BAD_REQUESTS.includes(code)) return '400'
  return `${code === 'tool_failed' ? (error?.errorNumber ?? 500) : 500}`
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/

function underName(tool: ToolPlan | undefined, value: JsonValue): JsonObject {
  if (value === null) return {}
  const title = tool?.act.output?.title
  const name = typeof title === 'string' && NAME.test(title) ? title : 'result'
  return Object.fromEntries([[name, value]])
}

const MCP_SORTS: Readonly<Record<string, string>> = {
  request_invalid: '200/-32602',
  key_conflict: '200/-32602',
  tool_not_found: '200/-32602',
  session_not_found: '200/-32602',
  run_not_found: '200/-32602',
  rate_limited: '429/429',
  budget_exceeded: '429/429',
  overloaded: '503/503',
  not_ready: '503/503',
}

function mcpSort(code: string): string {
  return MCP_SORTS[code] ?? '200/isError'
}

function mcpMessage({ code }: Observation, error: JsonObject, functionName: string): string {
  const { message, issues, missing, challenges, additionalPromptContent } = error
  if (code === 'tool_not_found') return `Unknown tool: ${functionName}`
  if (mcpSort(code) !== '200/isError') return `${message}`
  const { authorization = [], approval, secrets = [], user_id: user } = isJsonObject(missing) ? missing : {}
  const urlOf = (challenge: JsonValue) => (isJsonObject(challenge) ? challenge.url : '')
  const pages = [
    ...(approval === undefined ? [] : [`Approval needed: ${urlOf(approval)}`]),
    ...(Array.isArray(authorization) ? authorization : []).map(
      (one) => `Authorization needed from ${subjectOf(one, challenges)}: ${urlOf(one)}`,
    ),
  ]
  return [
    message,
    ...furtherIssues(`${message}`, issues),
    ...pages,
    ...(Array.isArray(secrets) ? secrets : []).map(
      (one) => `Missing secret: ${isJsonObject(one) ? one.id : ''}`,
    ),
    ...(user === true ? ['Missing: the user of the call.'] : []),
    ...(pages.length === 0
      ? []
      : [`Ask the user to open the address.${approval === undefined ? ' Then call the tool again.' : ''}`]),
    ...(additionalPromptContent === undefined ? [] : [additionalPromptContent]),
  ].join('\n')
}

/** MCP-62: issues that are not in the message. */
function furtherIssues(message: string, issues: JsonValue | undefined): readonly string[] {
  const phrases = (Array.isArray(issues) ? issues : []).map((issue) => `${issue}`.replace(/\.$/, ''))
  return phrases.filter((phrase) => !message.includes(phrase))
}

const MAX_ISSUES = 5

/** The provider of a challenge, and its scopes. */
function subjectOf(challenge: JsonValue, challenges: JsonValue | undefined): string {
  const id = isJsonObject(challenge) && typeof challenge.id === 'string' ? challenge.id : ''
  const subject = isJsonObject(challenges) ? challenges[id] : undefined
  if (!isJsonObject(subject) || !Array.isArray(subject.scopes)) return ''
  return `${subject.provider}${subject.scopes.length === 0 ? '' : ` (${subject.scopes.join(' ')})`}`
}

function opentoolMessage(code: string, error: JsonObject, functionName: string): JsonValue {
  const { message = null, issues, missing } = error
  if (code === 'tool_not_found') return `Function Not Supported: ${functionName}`
  if (code === 'key_conflict')
    return 'This Idempotency-Key was already used for a different request. Use a new key for a new call.'
  if (code === 'input_invalid') {
    if (!Array.isArray(issues)) return `Invalid Arguments: ${message}`
    const more = issues.length > MAX_ISSUES ? ` (and ${issues.length - MAX_ISSUES} more)` : ''
    return `Invalid Arguments: ${issues.slice(0, MAX_ISSUES).join('; ')}${more}`
  }
  const { authorization, approval } = isJsonObject(missing) ? missing : {}
  const challenges = [
    ...(Array.isArray(authorization) ? authorization : []),
    ...(approval === undefined ? [] : [approval]),
  ]
  const urls = challenges.map((challenge) => (isJsonObject(challenge) ? challenge.url : ''))
  if (urls.length === 0) return message
  return `${message} Open ${urls.join(' and ')}${approval === undefined ? ' and then call again' : ''}.`
}

function wholeWait(reported: Observation): Observation {
  return withError(reported, (error) =>
    typeof error.retryAfterMs === 'number'
      ? { ...error, retryAfterMs: Math.ceil(error.retryAfterMs) }
      : error,
  )
}

function withError(reported: Observation, change: (error: JsonObject) => JsonObject): Observation {
  return reported.error === undefined ? reported : { ...reported, error: change(reported.error) }
}
