/*
 * The causes for which requests are rejected, in words. The overview and the lists of calls use it.
 */

/** Labels of error codes; other codes are shown unchanged. */
const CAUSES: Readonly<Record<string, string>> = {
  tool_not_found: 'unknown tool',
  input_invalid: 'invalid input',
  requirement_missing: 'missing credential',
  not_authorized: 'not allowed',
  budget_exceeded: 'budget used up',
  rate_limited: 'rate limit',
  overloaded: 'overloaded',
  not_ready: 'not ready',
  key_conflict: 'call ID already used',
  approval_rejected: 'approval rejected',
}

/** The cause that an error code stands for. */
export function causeOf(code: string): string {
  return CAUSES[code] ?? code
}
