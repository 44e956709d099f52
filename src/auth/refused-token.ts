import { fault, type ToolError } from '#core/errors'

/** Why a token is not taken. Never holds the token or anything in it. */
export function refusedToken(message: string, cause?: unknown): ToolError {
  return fault('unauthenticated', message, cause === undefined ? {} : { cause })
}

/** How far clocks may differ (T-15). */
export const SKEW_SECONDS = 60
