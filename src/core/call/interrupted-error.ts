import type { CallError } from '#core/outcome'
import { hasEffects, type Tool } from '#core/tool'
import type { Interruption } from './running-calls.ts'

const CODES = {
  timeout: 'tool_timeout',
  cancel: 'cancelled',
  shutdown: 'cancelled',
} as const satisfies Record<Interruption, string>

/** Rule 10: a started write that was cut short has an unknown effect, is not retryable, and says to check first. */
export function interruptedError(tool: Tool, why: Interruption): CallError {
  const what = {
    timeout: `${tool.name} did not finish within ${tool.policy.timeoutMs} ms.`,
    cancel: `The call of ${tool.name} was cancelled.`,
    shutdown: `The server shut down while ${tool.name} was running.`,
  }[why]
  if (!hasEffects(tool.policy)) return { code: CODES[why], message: what, canRetry: false }
  return {
    code: CODES[why],
    message: `${what} It may have taken effect: check before repeating it.`,
    canRetry: false,
    effect: 'unknown',
  }
}

/** Ended between its claim and its start: nothing took effect, so a call cut by shutdown may run again. */
export function notStartedError(tool: Tool, why: Interruption): CallError {
  return {
    code: CODES[why],
    message: `The call of ${tool.name} was ended before it started. Nothing was run.`,
    canRetry: why === 'shutdown',
  }
}
