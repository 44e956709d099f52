import type { CallError } from '#core/outcome'

/** Rule 30: a call cut inside a session is never run again, because what it stood on is gone. */
export function sessionLostError(tool: string, hasEffects: boolean): CallError {
  const error = {
    code: 'session_lost',
    message: `The server stopped while ${tool} was running, and its session was lost with it. Open another session and begin again.`,
    canRetry: false,
  } as const
  if (!hasEffects) return error
  return {
    ...error,
    message: `${error.message} The call may have taken effect: check before repeating it.`,
    effect: 'unknown',
  }
}
