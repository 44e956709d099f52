import { fault, type ToolError } from '#kernel/base/errors'
import { withDeadline } from '#kernel/base/waiting'
import type { CallError } from '#kernel/call/call'
import type { SessionContext, Tool } from '#kernel/tool/tool'

/**
 * The end of sessions: the errors that callers get, and closing a tool's state. The ladder, recovery and the session stage use
 * it. A caller cannot tell whether a session is closed, unknown or someone else's (rule 30).
 */

export function sessionEnded(): ToolError {
  return fault(
    'session_not_found',
    'There is no such session, or it has ended. Open another: POST /v1/sessions.',
  )
}

/** The error for the session's own principal: the code of an unknown session, with the reason. */
export function sessionLost(): ToolError {
  return fault(
    'session_not_found',
    'This session has failed: the server that held its state stopped, and the state was lost. Open another: POST /v1/sessions.',
  )
}

export function heldElsewhere(): ToolError {
  const message =
    'Another replica of this server holds this session and cannot be reached. Try again shortly.'
  return fault('not_ready', message, { retryAfterMs: 1_000 })
}

const CLOSE_LIMIT_MS = 10_000

/** Closes a tool's state. Errors are only logged, because they do not change the outcomes of calls. */
export async function closeState(tool: Tool, state: unknown, context: SessionContext): Promise<void> {
  try {
    await withDeadline(CLOSE_LIMIT_MS, () => tool.session?.close(state, context))
  } catch (error) {
    context.log.error({ err: error }, 'the state of a session could not be closed')
  }
}

/** Rule 30: a call that was interrupted by a crash inside a session is never run again, because its state is lost. */
export function sessionLostError(tool: string, hasEffects: boolean): CallError {
  const lost = `The server stopped while ${tool} was running, and its session was lost with it. Open another session and start again.`
  if (!hasEffects) return { code: 'session_lost', message: lost, canRetry: false }
  const message = `${lost} The call may have taken effect: check before repeating it.`
  return { code: 'session_lost', message, canRetry: false, effect: 'unknown' }
}
