import { AsyncLocalStorage } from 'node:async_hooks'
import type { ToolContext } from '#core/tool'

/** One call on its way, for what happens below the client: credentials, questions, the end of its exchange. */
export interface CallScope {
  readonly context: ToolContext
  /** Headers with the caller's credentials. */
  readonly credentials: Readonly<Record<string, string>>
  /** Aborted when the call is over, so that no exchange outlives it. */
  readonly over: AbortSignal
  /** What the upstream said about when to come back. */
  retryAfterMs: number | undefined
}

/** Follows a call through the client into its exchange, and back from its stream to the questions it carries. */
export const CALL_SCOPE = new AsyncLocalStorage<CallScope>()
