import type { Failure } from '#core/outcome'
import { sessionLostError } from '#core/sessions/session-lost'

/** Why a parked call will never run. */
export type ParkedEnd = 'rejected' | 'expired' | 'unused' | 'cancelled' | 'session'

/** How a parked call ends that nobody ran: final, and nothing took effect (OWP-73). */
export function refusedOutcome(why: ParkedEnd, tool: string, reason?: string): Failure {
  return { ok: false, error: errorOf(why, tool, reason), durationMs: 0, neverStarted: true }
}

function errorOf(why: ParkedEnd, tool: string, reason: string | undefined): Failure['error'] {
  if (why === 'session') return sessionLostError(tool, false)
  if (why === 'cancelled') {
    const message = `The call of ${tool} was cancelled while it waited for an approval. Nothing was run.`
    return { code: 'cancelled', message, canRetry: false }
  }
  const said = reason === undefined || reason === '' ? '.' : `: ${reason}.`
  const message = {
    rejected: `The call of ${tool} was not approved${said} Nothing was run.`,
    expired: `Nobody approved the call of ${tool} in time, so it was refused. Nothing was run.`,
    unused: `The approval of the call of ${tool} ran out before it was used. Nothing was run.`,
  }[why]
  return { code: 'approval_rejected', message, canRetry: false }
}
