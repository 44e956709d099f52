import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { StatefulContext } from '#kernel/tool/tool'
import { ALICE } from '#testing/test-gateway'

/** The context that a call passes to a pack, without a server. */
export function contextFor(changes: Partial<StatefulContext<unknown>> = {}): StatefulContext<unknown> {
  return {
    callId: 'call-1',
    traceId: 'trace-1',
    signal: new AbortController().signal,
    principal: ALICE,
    userId: 'ann',
    claimedUserId: 'ann',
    userInfo: undefined,
    session: undefined,
    token: (id) => new Secret(`token of ${id}`),
    secret: (id) => new Secret(`secret of ${id}`),
    fetch: () => Promise.reject(new Error('no fetch here')),
    log: SILENT_LOGGER,
    progress: () => undefined,
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: (ordinal = 0) => `key-${ordinal}`,
    ...changes,
  }
}
