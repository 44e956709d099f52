import { randomUUID } from 'node:crypto'
import { DEFAULT_APPROVAL_RULES } from '#core/approvals/approvals'
import { type CallReply, type CallRequest, NO_SECRETS, type Outcome } from '#core/call'
import { type CallDesk, type CallDeskOptions, openCallDesk } from '#core/calls/gateway'
import { parseToolName } from '#core/ids'
import type { Principal } from '#core/principal'
import { SILENT_LOGGER, SYSTEM_CLOCK } from '#core/runtime'
import type { Tool } from '#core/tool'
import { Registry } from '#core/tools/catalog'
import { type DefinedTool, isDefinedTool } from '#core/tools/define'
import { requireTools } from '#core/tools/prepare-tools'
import { MemoryStore } from '#store/memory/memory'

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
