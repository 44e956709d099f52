import type { ErrorCode, ErrorDetails } from '#core/errors'
import { toChallenges, toMissing, toParameterErrors } from '#protocols/error-data'
import type { AnswerForm } from './codec-answer-form.ts'
import type { WireErrorBody, WireToolError } from './wire.ts'

/** The part of `ToolError` and of a recorded `CallError` that this wire shows. */
export interface ShownError {
  readonly code: ErrorCode
  readonly message: string
  readonly developerMessage?: string | undefined
  readonly canRetry: boolean
  readonly retryAfterMs?: number | undefined
  readonly additionalPromptContent?: string | undefined
  readonly details?: ErrorDetails | undefined
}

export interface EncodeOptions {
  /** Keeps `developer_message` off the wire (T-20). */
  readonly hideDeveloperMessages: boolean
}

/** Body of a refusal, the same members in every dialect (§3.1). */
export function encodeRefusal(form: AnswerForm, error: ShownError, options: EncodeOptions): string {
  const { issues, missing } = error.details ?? {}
  const parameterErrors = issues === undefined ? undefined : toParameterErrors(issues)
  const challenges = missing === undefined ? undefined : toChallenges(missing)
  const body: WireErrorBody = {
    ...(form.schemaId === undefined ? {} : { $schema: form.schemaId }),
    message: error.message,
    ...developerMessage(error, options),
    ...(parameterErrors === undefined ? {} : { parameter_errors: parameterErrors }),
    ...(missing === undefined ? {} : { missing_requirements: toMissing(missing) }),
    ...(challenges === undefined ? {} : { challenges }),
    ...(error.code === 'approval_required' && form.callId !== undefined ? { call_id: form.callId } : {}),
  }
  return JSON.stringify(body)
}

/** The `error` of a 200: `can_retry` only when it is true, because absent means false (OTC-93). */
export function encodeToolError(error: ShownError, options: EncodeOptions): string {
  const { additionalPromptContent, retryAfterMs } = error
  const shown: WireToolError = {
    message: error.message,
    ...developerMessage(error, options),
    ...(error.canRetry ? { can_retry: true } : {}),
    ...(additionalPromptContent === undefined ? {} : { additional_prompt_content: additionalPromptContent }),
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: toWholeMs(retryAfterMs) }),
  }
  return JSON.stringify(shown)
}

/** A non-negative integer on this wire (C-30). */
export function toWholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : 0
}

function developerMessage(error: ShownError, options: EncodeOptions): { developer_message?: string } {
  if (options.hideDeveloperMessages || error.developerMessage === undefined) return {}
  return { developer_message: error.developerMessage }
}
