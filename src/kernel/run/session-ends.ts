import { fault, type ToolError } from '#kernel/base/errors'
import { withDeadline } from '#kernel/base/waiting'
import type { CallError } from '#kernel/call/call'
import type { SessionContext, Tool } from '#kernel/tool/tool'

/**
 * How sessions end for the calls in them: the errors that callers get, and closing the state of a tool. The ladder, recovery and
 * the session stage use it. A caller cannot tell a closed session from an unknown one or from someone else's (rule 30).
 */

export function sessionEnded(): ToolError {
  return fault(
    'session_not_found',
    'There is no such session, or it has ended. Open another: POST /v1/sessions.',
  )
}

/** Has the code of an unknown session, with the reason for its own principal. */
export function sessionLost(): ToolError {
  return fault(
    'session_not_found',
    'This session has failed: the server that held its state is gone, and the state with it. Open another: POST /v1/sessions.',
  )
}

export function heldElsewhere(): ToolError {
  const message =
    'Another replica of this server holds this session and cannot be reached. Try again shortly.'
  return fault('not_ready', message, { retryAfterMs: 1_000 })
}

const CLOSE_LIMIT_MS = 10_000

/** Closes the state of a tool. Errors are only logged: they undo nothing that was done with the state. */
export async function closeState(tool: Tool, state: unknown, context: SessionContext): Promise<void> {
  try {
    await withDeadline(CLOSE_LIMIT_MS, () => tool.session?.close(state, context))
  } catch (error) {
    context.log.error({ err: error }, 'the state of a session could not be closed')
  }
}

/** Rule 30: a call cut inside a session is never run again, because its state is gone. */
export function sessionLostError(tool: string, hasEffects: boolean): CallError {
  const lost = `The server stopped while ${tool} was running, and its session was lost with it. Open another session and start again.`
  if (!hasEffects) return { code: 'session_lost', message: lost, canRetry: false }
  const message = `${lost} The call may have taken effect: check before repeating it.`
  return { code: 'session_lost', message, canRetry: false, effect: 'unknown' }
}
