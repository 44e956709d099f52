import { fault, type ToolError } from '#core/errors'
import type { Store } from '#core/ports/store'
import type { Principal } from '#core/principal'

/** Whether a living process other than this one holds the state of the principal's session. */
export async function isHeldElsewhere(
  store: Store,
  { tenant, id }: Principal,
  sessionId: string,
): Promise<boolean> {
  const found = await store.findSession({ tenant, sessionId })
  if (found?.state !== 'open' || found.principal !== id || found.writer === store.writer) return false
  return await store.isWriterAlive(found.writer)
}

export function heldElsewhere(): ToolError {
  return fault('not_ready', 'This session is held by another process of this server. Try again there.', {
    retryAfterMs: 1_000,
  })
}
