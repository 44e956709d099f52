import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { StatefulContext } from '#kernel/tool/tool'

/** The context of a call without a server: no elicitation, no credentials. */
export function callContext(
  changes: Partial<StatefulContext<unknown>> & { readonly tokens?: Record<string, string> } = {},
): StatefulContext<unknown> {
  const { tokens = {}, ...rest } = changes
  const given = (id: string): Secret => {
    const text = tokens[id]
    if (text === undefined) throw new Error(`the call has no ${id}`)
    return new Secret(text)
  }
  return {
    callId: 'call_1',
    traceId: 'trace_1',
    signal: AbortSignal.timeout(30_000),
    principal: { id: 'key:alice', tenant: 'default', scopes: [] },
    userId: undefined,
    claimedUserId: undefined,
    userInfo: undefined,
    token: given,
    secret: given,
    fetch,
    log: SILENT_LOGGER,
    progress: () => undefined,
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: () => 'effect-key',
    session: undefined,
    ...rest,
  }
}
