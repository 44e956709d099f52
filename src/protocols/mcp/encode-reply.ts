import type { CallError, CallReply, Success } from '#core/call'
import type { ErrorCode } from '#core/errors'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import { callReplyHeaders } from '#protocols/call-headers'
import type { JsonRpcId } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './answer.ts'
import { encodeShownFailure, encodeValue } from './codec-result.ts'
import { MCP_ANSWERS } from './errors.ts'
import { describeFailure } from './failure-text.ts'
import type { ResultFrame } from './result-frame.ts'
import type { Revision } from './wire.ts'

/** Failures whose text is ours, though they name a tool. */
const OUR_WORDS: ReadonlySet<ErrorCode> = new Set([
  'input_invalid',
  'request_invalid',
  'ambiguous',
  'outcome_unknown',
])

/** How an outcome reaches its caller, once it needs no person any more. */
export interface ReplyTarget {
  readonly id: JsonRpcId
  readonly name: string
  readonly revision: Revision
  readonly principal: Principal
  readonly frame: ResultFrame
  /** `undefined` for a name that is no tool of this principal. */
  readonly tool: Tool | undefined
  /** Absent on stdio, which cannot refuse by status. */
  readonly hasHttp: boolean
  readonly metadataUrl: string | undefined
}

/** A finished call as a result, or as an error where nothing could be called (MCP-60 to MCP-69). */
export function encodeReply(reply: CallReply, target: ReplyTarget): Answer {
  const { callId, runId, outcome, untrusted } = reply
  const headers = callReplyHeaders(reply)
  if (outcome.ok) return resultAnswer(target.id, valueResult(outcome, reply, target), headers)
  return encodeFailure(outcome.error, { callId, runId, headers, target, untrusted })
}

function valueResult(
  outcome: Success,
  { callId, runId, untrusted }: CallReply,
  { frame, tool, revision }: ReplyTarget,
): string {
  const metaJson = outcome.shown?.metaJson
  return frame.complete(encodeValue(outcome, tool, revision), { callId, runId, untrusted, metaJson })
}

export interface FailedReply {
  readonly callId: string
  readonly runId?: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly target: ReplyTarget
  readonly untrusted?: true | undefined
}

export function encodeFailure(told: CallError, failed: FailedReply): Answer {
  const { callId, headers, target } = failed
  const error = inWordsOfCaller(told, target)
  const { id } = target
  const answer = MCP_ANSWERS[error.code]
  switch (answer.kind) {
    case 'error': {
      // Hidden and unknown tools have the same bytes, and name only what was sent (MCP-61).
      const message = error.code === 'tool_not_found' ? unknownTool(target, error) : error.message
      return errorAnswer(
        id,
        { code: answer.code, message, ...callData(error, callId) },
        { ...answer, headers },
      )
    }
    case 'later': {
      const data = { call_id: callId, code: error.code }
      const said = { code: answer.status, message: error.message, data }
      return errorAnswer(id, said, { status: answer.status, headers: { ...headers, ...retryAfter(error) } })
    }
    case 'forbidden':
      return encodeForbidden(error, failed)
    case 'tool error':
    case 'ask':
      return toolError(error, failed)
  }
}

function unknownTool({ name }: ReplyTarget, { details }: CallError): string {
  const said = `Unknown tool: ${name}`
  return details?.nextStep === undefined ? said : `${said}. ${details.nextStep}`
}

/** The model knows the tool by the name it called; what tools and upstreams say is theirs and stays as it is. */
function inWordsOfCaller(error: CallError, { tool, name }: ReplyTarget): CallError {
  if (tool === undefined || !OUR_WORDS.has(error.code) || !error.message.includes(tool.id)) return error
  return { ...error, message: error.message.replaceAll(tool.id, name) }
}

/** A result that the model reads; no value beside it, unless another MCP server told it so (MCP-63). */
export function toolError(
  error: CallError,
  { callId, runId, headers, target, untrusted }: FailedReply,
): Answer {
  const { code: errorCode, shown } = error
  const members =
    shown === undefined
      ? `"content":[{"type":"text","text":${JSON.stringify(describeFailure(error, callId))}}]`
      : encodeShownFailure(shown, target.revision)
  const of = { callId, runId, errorCode, untrusted, metaJson: shown?.metaJson }
  return resultAnswer(target.id, target.frame.complete(`${members},"isError":true`, of), headers)
}

/** MCP-93: a token may be widened, a key cannot. */
function encodeForbidden(error: CallError, failed: FailedReply): Answer {
  const { target, callId } = failed
  const isToken = target.principal.id.startsWith('jwt:')
  if (!target.hasHttp || !isToken) return toolError(error, failed)
  const challenge = [
    'Bearer error="insufficient_scope"',
    `scope="${(target.tool?.policy.scopes ?? []).join(' ')}"`,
    ...(target.metadataUrl === undefined ? [] : [`resource_metadata="${target.metadataUrl}"`]),
  ].join(', ')
  const said = { code: 403, message: error.message, data: { call_id: callId, code: error.code } }
  return errorAnswer(target.id, said, {
    status: 403,
    headers: { ...failed.headers, 'www-authenticate': challenge },
  })
}

/** What tells two refusals apart must not tell hidden tools from unknown ones. */
function callData({ code }: CallError, callId: string) {
  return code === 'tool_not_found' ? {} : { data: { call_id: callId, code } }
}

function retryAfter({ retryAfterMs = 1_000 }: CallError): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}
