import { isToolError } from '#core/errors'
import type { CallError, Failure } from '#core/outcome'
import { StoreError } from '#core/store-error'
import { callErrorOf } from './call-error-of.ts'
import type { CallServices } from './call-services.ts'

/** What a caller sees of an error before the tool started. Only `ToolError`s carry text meant for it. */
export function refusalOutcome(services: CallServices, error: unknown): Failure {
  if (isToolError(error)) return { ok: false, error: callErrorOf(error), durationMs: 0 }
  services.log.error({ err: error }, 'a call failed before its tool was run')
  if (error instanceof StoreError) {
    services.readiness.noteStoreFailure(error)
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
