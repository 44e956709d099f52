import type { JsonValue } from '#core/json'
import type { WireContext } from '#protocols/otc/codec-client'
import type { CallSession, CallTarget } from './call-target.ts'

export interface CallOptions {
  /**
   * Your own idempotency key. Repeating a call with the same key and input returns the recorded outcome
   * instead of running the tool again, also from another process. Default: a new UUID for each call.
   */
  readonly callId?: string | undefined
  /** Joins several calls in the server's logs and traces. */
  readonly traceId?: string | undefined
  /** The run to belong to, on servers of this package: its events tell of all its calls. */
  readonly runId?: string | undefined
  /** The session whose state to use, as `POST /v1/sessions` gave it. */
  readonly sessionId?: string | undefined
  /** Whom the call is for. */
  readonly userId?: string | undefined
  /** What the tool may want to know of that user (`context.user_info`). OTC only: OpenTool has no place for it. */
  readonly userInfo?: JsonValue | undefined
  /** Stops waiting. The server may still finish the call. */
  readonly signal?: AbortSignal | undefined
  /** Limit of one HTTP exchange of this call. */
  readonly timeoutMs?: number | undefined
}

/** One call on its way: what stays the same, and what changes between attempts. */
export interface CallRun {
  readonly session: CallSession
  readonly target: CallTarget
  readonly input: JsonValue
  readonly options: CallOptions
  readonly signal: AbortSignal | undefined
  /** Requests resent after transport failures. */
  readonly progress: { resent: number }
  context: WireContext | undefined
  callId: string
  /** Calls resent because the tool said `can_retry`. */
  toolRetries: number
  askedUser: boolean
}

/** What every failure of a run says about it. */
export function factsOf({ target, callId, progress, toolRetries }: CallRun) {
  return { toolId: target.toolId, callId, retries: progress.resent + toolRetries }
}

/** Universal tool servers ignore call ids: the same request twice is two runs (C-04). */
export function isDeduplicated({ target }: CallRun): boolean {
  return target.wire.dialect !== 'uts'
}

/** What to do when nobody knows whether the tool ran. */
export function doubtOf(run: CallRun): string {
  return isDeduplicated(run)
    ? `Whether the call ran is not known; repeat it with call id ${run.callId} to get its outcome.`
    : 'Whether the call ran is not known; check before you repeat it.'
}
