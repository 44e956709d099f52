import type { Failure } from '#core/outcome'

/** How a workflow ends that was put away and will not go on: its finished steps stay what they are. */
export function putAwayEnd(tool: string, why: 'cancelled' | 'expired'): Failure {
  const what = {
    cancelled: `The call of ${tool} was cancelled while one of its steps waited.`,
    expired: `Nobody went on with the call of ${tool} in time, so it was ended.`,
  }[why]
  const message = `${what} Steps that had finished keep their effects: check before repeating it.`
  return { ok: false, error: { code: 'cancelled', message, canRetry: false } }
}
