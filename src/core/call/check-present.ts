import { fault } from '#core/errors'
import type { IdentifiedCall } from './identified-call.ts'

/** Nothing begins for a caller whose leaving cancels (MCP-83): the call stays what it was. */
export function checkPresent({ request }: IdentifiedCall): void {
  if (request.leaving?.left?.aborted !== true) return
  throw fault('not_ready', 'The caller left before the tool was called. Nothing was run.', {
    retryAfterMs: 1_000,
  })
}
