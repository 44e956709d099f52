import { isToolError } from '#core/errors'
import type { Failure } from '#core/outcome'
import { StoreError } from '#core/store-error'
import { callErrorOf } from './call-error-of.ts'
import type { CallServices } from './call-services.ts'

/** What a caller sees of an error before the tool started. Only `ToolError`s carry text meant for it. */
export function refusalOutcome(services: CallServices, error: unknown): Failure {
  if (isToolError(error)) return { ok: false, error: callErrorOf(error), durationMs: 0 }
  if (error instanceof StoreError) {
    services.readiness.noteStoreFailure(error)
    services.log.error({ err: error }, 'store error before a run')
    return {
      ok: false,
      error: {
        code: 'not_ready',
        message: 'The tool server could not record the call, so nothing was run. Try again shortly.',
        canRetry: false,
        retryAfterMs: 2_000,
      },
      durationMs: 0,
    }
  }
  services.log.error({ err: error }, 'unexpected error before a run')
  return {
    ok: false,
    error: {
      code: 'internal',
      message: 'The tool server failed before the tool was called. Nothing was run.',
      canRetry: false,
    },
    durationMs: 0,
  }
}
