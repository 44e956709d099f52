import { randomUUID } from 'node:crypto'
import { type CallDesk, type CallDeskOptions, openCallDesk } from '#core/call/call-desk'
import { type CallReply, type CallRequest, NO_SECRETS } from '#core/call/call-request'
import type { Outcome } from '#core/outcome'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { SILENT_LOGGER } from '#core/ports/logger'
import type { Principal } from '#core/principal'
import { Registry } from '#core/registry'
import type { Tool } from '#core/tool'
import { parseToolRef } from '#core/tool-id'
import { MemoryStore } from '#store/memory'

export const ALICE: Principal = { id: 'key:alice', tenant: 'default', scopes: [] }

/** A gateway in this process, on the memory store unless another is given. */
export function openTestDesk(tools: readonly Tool[], changes: Partial<CallDeskOptions> = {}): CallDesk {
  return openCallDesk({
    registry: new Registry(tools),
    store: new MemoryStore(),
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
    fetch,
    hooks: {},
    newCallId: randomUUID,
    newChallengeId: randomUUID,
    publicUrl: () => 'http://127.0.0.1:4100',
    maxResultBytes: 1_000_000,
    ...changes,
  })
}

export function callRequest(tool: string, changes: Partial<CallRequest> = {}): CallRequest {
  const ref = parseToolRef(tool)
  if (ref === undefined) throw new Error(`'${tool}' is not a tool reference`)
  return {
    tool: ref,
    input: {},
    key: undefined,
    traceId: undefined,
    userId: undefined,
    tokens: NO_SECRETS,
    secrets: NO_SECRETS,
    ...changes,
  }
}

/** `ok <value>` or the error's code: the short form tests compare. */
export function gist({ outcome }: { readonly outcome: Outcome }): string {
  return outcome.ok ? `ok ${outcome.valueJson}` : outcome.error.code
}

export function errorOf(reply: CallReply) {
  if (reply.outcome.ok) throw new Error(`the call succeeded with ${reply.outcome.valueJson}`)
  return reply.outcome.error
}
