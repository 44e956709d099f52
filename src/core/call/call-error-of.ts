import type { ToolError } from '#core/errors'
import type { CallError } from '#core/outcome'

export function callErrorOf(error: ToolError): CallError {
  const { developerMessage, retryAfterMs, additionalPromptContent, errorNumber, details } = error
  return {
    code: error.code,
    message: error.message,
    canRetry: error.canRetry,
    ...(developerMessage === undefined ? {} : { developerMessage }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(additionalPromptContent === undefined ? {} : { additionalPromptContent }),
    ...(errorNumber === undefined ? {} : { errorNumber }),
    ...(details.issues === undefined && details.missing === undefined ? {} : { details }),
  }
}
