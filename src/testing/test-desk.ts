import { randomUUID } from 'node:crypto'
import { DEFAULT_APPROVAL_RULES } from '#core/approvals/approval-rules'
import { type CallDesk, type CallDeskOptions, openCallDesk } from '#core/call/call-desk'
import { type CallReply, type CallRequest, NO_SECRETS } from '#core/call/call-request'
import { type DefinedTool, isDefinedTool } from '#core/define-tool'
import type { Outcome } from '#core/outcome'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { SILENT_LOGGER } from '#core/ports/logger'
import type { Principal } from '#core/principal'
import { Registry } from '#core/registry'
import { requireTools } from '#core/require-tools'
import type { Tool } from '#core/tool'
import { parseToolName } from '#core/tool-id'
import { MemoryStore } from '#store/memory'

/** A caller without scopes. */
export const ALICE: Principal = { id: 'key:alice', tenant: 'default', scopes: [] }

/**
 * A gateway in this process, on the memory store unless another is given. Takes what `tool()` made, and throws
 * every finding about it, as the server does.
 */
export function openTestDesk(
  tools: readonly (Tool | DefinedTool)[],
  changes: Partial<CallDeskOptions> = {},
): CallDesk {
  const ready = tools.flatMap((tool) => (isDefinedTool(tool) ? [] : [tool]))
  return openCallDesk({
    registry: new Registry([...ready, ...requireTools(tools.filter(isDefinedTool))]),
    store: new MemoryStore(),
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
    fetch,
    hooks: {},
    approvalRules: DEFAULT_APPROVAL_RULES,
    newCallId: randomUUID,
    newChallengeId: randomUUID,
    newSessionId: randomUUID,
    publicUrl: () => 'http://127.0.0.1:4100',
    maxResultBytes: 1_000_000,
    ...changes,
  })
}

/** A call with an empty input and no key, apart from these changes. */
export function callRequest(tool: string, changes: Partial<CallRequest> = {}): CallRequest {
  const ref = parseToolName(tool)
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

/** The error of a call that is expected to fail. */
export function errorOf(reply: CallReply) {
  if (reply.outcome.ok) throw new Error(`the call succeeded with ${reply.outcome.valueJson}`)
  return reply.outcome.error
}
