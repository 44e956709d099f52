import { describeIssue, type ErrorCode, type ErrorDetails, type InputIssue } from '#core/errors'
import { toChallenges, toMissing, toParameterErrors } from '#protocols/error-data'
import { OPENTOOL_CODES } from './errors.ts'
import type { WireError, WireErrorData } from './wire.ts'

/** The part of a recorded `CallError` or a `ToolError` that this wire shows. Developer texts stay inside. */
export interface ShownError {
  readonly code: ErrorCode
  readonly message: string
  readonly canRetry: boolean
  readonly retryAfterMs?: number | undefined
  readonly additionalPromptContent?: string | undefined
  readonly errorNumber?: number | undefined
  readonly effect?: 'unknown' | undefined
  readonly details?: ErrorDetails | undefined
}

const MOST_ISSUES = 5

/** A failed call as `error` (OTS-39, OTS-40): plain text, no stack, no paths. */
export function toWireError(
  error: ShownError,
  call: { readonly method: string; readonly callId: string },
): WireError {
  return {
    // A tool may set its own number; a refusal is ours to number.
    code: error.code === 'tool_failed' ? (error.errorNumber ?? 500) : OPENTOOL_CODES[error.code],
    message: messageOf(error, call.method),
    data: toData(error, call.callId),
  }
}

function messageOf({ code, message, details = {} }: ShownError, method: string): string {
  switch (code) {
    case 'tool_not_found':
      return [`Function Not Supported: ${method}`, details.nextStep ?? []].flat().join('. ')
    case 'input_invalid':
      return `Invalid Arguments: ${details.issues === undefined ? message : listIssues(details.issues)}`
    case 'key_conflict':
      return 'This Idempotency-Key was already used for a different request. Use a new key for a new call.'
    default: {
      // SDK clients show nothing but the message, so the address has to stand in it.
      const { authorization = [], approval } = details.missing ?? {}
      const urls = [...authorization, ...(approval === undefined ? [] : [approval])].map(({ url }) => url)
      return urls.length === 0 ? message : `${message} Open ${urls.join(' and ')} and then call again.`
    }
  }
}

function listIssues(issues: readonly InputIssue[]): string {
  const said = issues
    .slice(0, MOST_ISSUES)
    .map((issue) =>
      issue.parameter === undefined ? describeIssue(issue) : `${issue.parameter}: ${describeIssue(issue)}`,
    )
  return issues.length > said.length
    ? `${said.join('; ')} (and ${issues.length - said.length} more)`
    : said.join('; ')
}

function toData(error: ShownError, callId: string): WireErrorData {
  const { retryAfterMs, additionalPromptContent } = error
  const { issues = [], missing } = error.details ?? {}
  const parameterErrors = toParameterErrors(issues)
  const challenges = missing === undefined ? undefined : toChallenges(missing)
  return {
    code: error.code,
    call_id: callId,
    ...(missing === undefined ? {} : { missing_requirements: toMissing(missing) }),
    ...(challenges === undefined ? {} : { challenges }),
    ...(parameterErrors === undefined ? {} : { parameter_errors: parameterErrors }),
    ...(error.canRetry ? { can_retry: true } : {}),
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: Math.max(0, Math.ceil(retryAfterMs)) }),
    ...(additionalPromptContent === undefined ? {} : { additional_prompt_content: additionalPromptContent }),
    ...(error.effect === undefined ? {} : { effect: error.effect }),
  }
}
