import type { CallError, Failure } from '#core/call'
import { type ErrorDetails, isToolError, StoreError, type ToolError } from '#core/errors'
import type { Logger } from '#core/runtime'
import type { StoreHealth } from './store-health.ts'

/** What refusing a call takes. */
export interface RefusalNeeds {
  readonly log: Logger
  readonly health: StoreHealth
}

/** What a caller sees of an error before the tool started. Only `ToolError`s carry text meant for it. */
export function refusalOutcome(needs: RefusalNeeds, error: unknown): Failure {
  if (isToolError(error)) return { ok: false, error: callErrorOf(error), durationMs: 0 }
  needs.log.error({ err: error }, 'a call failed before its tool was run')
  if (error instanceof StoreError) {
    needs.health.noteFailure(error)
    return refusal(error.code === 'unreadable' ? UNREADABLE : NOT_RECORDED)
  }
  return refusal(INTERNAL)
}

const UNREADABLE: CallError = {
  code: 'internal',
  message:
    'Something this call needs is stored but cannot be read, so nothing was run. An operator has to look at it.',
  canRetry: false,
}

const NOT_RECORDED: CallError = {
  code: 'not_ready',
  message: 'The tool server could not record the call, so nothing was run. Try again shortly.',
  canRetry: false,
  retryAfterMs: 2_000,
}

const INTERNAL: CallError = {
  code: 'internal',
  message: 'The tool server failed before the tool was called. Nothing was run.',
  canRetry: false,
}

function refusal(error: CallError): Failure {
  return { ok: false, error, durationMs: 0 }
}

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
