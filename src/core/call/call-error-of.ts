import type { ErrorDetails, ToolError } from '#core/errors'
import type { CallError } from '#core/outcome'

/** Error texts are for reading; a dump belongs in a log. */
const LONGEST_TEXT = 16_384
const NO_MESSAGE = 'The tool failed without saying why.'

/** An error as it is recorded and sent. A JavaScript tool may have put anything into it: only what fits stays (OTC-84). */
export function callErrorOf(error: ToolError): CallError {
  const { retryAfterMs, errorNumber, details } = error
  const developerMessage = textOf(error.developerMessage)
  const additionalPromptContent = textOf(error.additionalPromptContent)
  return {
    code: error.code,
    message: textOf(error.message) ?? NO_MESSAGE,
    canRetry: error.canRetry === true,
    ...(developerMessage === undefined ? {} : { developerMessage }),
    ...(isDuration(retryAfterMs) ? { retryAfterMs } : {}),
    ...(additionalPromptContent === undefined ? {} : { additionalPromptContent }),
    ...(isInteger(errorNumber) ? { errorNumber } : {}),
    ...(hasDetails(details) ? { details } : {}),
  }
}

function hasDetails(details: ErrorDetails | undefined): details is ErrorDetails {
  if (details === undefined) return false
  const { issues, missing, scope, nextStep } = details
  return [issues, missing, scope, nextStep].some((fact) => fact !== undefined)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, LONGEST_TEXT) : undefined
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
