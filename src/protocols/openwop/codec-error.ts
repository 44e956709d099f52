import type { LimitScope } from '#core/errors'
import type { WireError } from './wire.ts'

export interface ShownError extends Pick<WireError, 'error' | 'message'> {
  /** Beside `Retry-After`, which carries whole seconds (OWP-96). */
  readonly retryAfterMs?: number | undefined
  /** Which limit refused (C6). */
  readonly scope?: LimitScope | undefined
  /** What a caller quotes to the operator, on 5xx only (OWP-95). */
  readonly correlationId?: string | undefined
}

/** The flat envelope: no key but these three, everything else inside `details`. */
export function encodeError({ error, message, retryAfterMs, scope, correlationId }: ShownError): string {
  const details = {
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(scope === undefined ? {} : { scope }),
    ...(correlationId === undefined ? {} : { correlationId }),
  }
  const body: WireError = { error, message, ...(Object.keys(details).length === 0 ? {} : { details }) }
  return JSON.stringify(body)
}
