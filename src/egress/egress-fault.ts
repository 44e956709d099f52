import { fault, type ToolError } from '#core/errors'

/** A refusal by policy. Callers learn nothing of what was found where; that is for developers. */
export function denied(developerMessage: string): ToolError {
  return fault(
    'egress_denied',
    'The tool wanted to reach an address that this server does not let it reach.',
    {
      developerMessage,
    },
  )
}

export interface UpstreamFailure {
  readonly developerMessage: string
  readonly cause?: unknown
  /** Only when nothing can have been processed (rule 9). */
  readonly canRetry?: boolean
}

export function upstreamFailed(failure: UpstreamFailure): ToolError {
  const message =
    failure.canRetry === true
      ? 'The service behind the tool cannot be reached right now.'
      : 'The service behind the tool gave no usable answer.'
  return fault('upstream_failed', message, failure)
}

/** The connection was never made, so that nothing was sent. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected'

  constructor(cause: unknown) {
    super('not connected', { cause })
  }
}

/** Short and without contents: the code of a system error, or its class. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown reason'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}
