import { fault, type ToolError } from '#core/errors'

const MESSAGE = 'The MCP server behind the tool cannot be reached right now; nothing was sent to it.'

/** Nothing was sent: the one case in which a call may be repeated (rule 9). */
export function unreachable(
  options: {
    readonly developerMessage?: string
    readonly retryAfterMs?: number
    readonly cause?: unknown
  } = {},
): ToolError {
  return fault('upstream_failed', MESSAGE, { ...options, canRetry: true })
}
