import type { Logger } from '#core/ports/logger'
import type { Principal } from '#core/principal'

/** What opening and closing a session's state get. */
export interface SessionContext {
  readonly sessionId: string
  readonly principal: Principal
  /** Proven, as in a call (T-27). */
  readonly userId: string | undefined
  /** Whom the caller says it acts for, proven or not. */
  readonly claimedUserId: string | undefined
  readonly log: Logger
}

/** How a stateful tool makes and ends what its calls share. State lives in the process that made it. */
export interface SessionHooks<State = unknown> {
  open(context: SessionContext): State | Promise<State>
  /** Called once, when every call has ended; one that was cut short may still hold the state. */
  close(state: State, context: SessionContext): void | Promise<void>
  /** How long a session without calls stays open. */
  readonly idleMs: number
  /** Whether calls outside of a session run without state. */
  readonly isOptional?: boolean
}
