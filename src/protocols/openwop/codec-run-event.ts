import type { ErrorCode } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { RunEvent, ToolReturned } from '#core/runs/run-event'
import type { RunPage } from '#core/runs/run-view'
import type { WireRunEvent } from './wire.ts'

/** Calls here come from no agent this server knows (OWP-50). */
const AGENT_ID = 'core.system'

const TYPES = {
  called: 'agent.toolCalled',
  returned: 'agent.toolReturned',
  'session.opened': 'tool.session.opened',
  'session.closed': 'tool.session.closed',
} as const satisfies Record<RunEvent['type'], WireRunEvent['type']>

/** The events of a page as they leave: ids and ends, nothing a caller or a tool said (OWP-43, OWP-52). */
export function encodeRunEvents(page: RunPage, runId: string): readonly WireRunEvent[] {
  return page.events.map((event) => ({
    eventId: `evt_${page.key}_${event.sequence}`,
    runId,
    type: TYPES[event.type],
    sequence: event.sequence,
    timestamp: new Date(event.atMs).toISOString(),
    ...('record' in event ? { nodeId: event.record } : {}),
    payload: payloadOf(event, page),
  }))
}

function payloadOf(event: RunEvent, { principal }: RunPage): JsonObject {
  if (event.type === 'session.opened') return { sessionId: event.sessionId, toolId: event.toolId }
  if (event.type === 'session.closed') {
    return { sessionId: event.sessionId, toolId: event.toolId, outcome: event.outcome }
  }
  const { callId, toolId, argsHash, transport } = event.call
  const names = { agentId: AGENT_ID, toolName: toolId, callId }
  const session = event.sessionId === undefined ? {} : { sessionId: event.sessionId }
  if (event.type === 'called') return { ...names, argsHash, principal, transport, ...session }
  return { ...names, ...endOf(event), ...session }
}

/** C10: what a limit refused, by whatever name it has here. */
const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

/** OWP-53 and OWP-54: how it ended, in a code and never in the tool's words. */
function endOf({ code, durationMs }: ToolReturned): JsonObject {
  const took = durationMs === undefined ? {} : { durationMs }
  if (code === undefined) return { status: 'ok', ...took }
  return {
    status: LIMITED.has(code) ? 'rate_limited' : 'error',
    ...took,
    error: { code, message: `The call ended with ${code}.` },
  }
}
