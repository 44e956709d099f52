import { fault, type ToolError } from '#core/errors'

/** Why a token is not taken. Holds nothing of the token, and so no cause: what `jose` throws carries its claims. */
export function refusedToken(message: string): ToolError {
  return fault('unauthenticated', message)
}

/** How far clocks may differ (T-15). */
export const SKEW_SECONDS = 60
