import { closed } from './openapi-closed.ts'
import { INTERRUPT_PAYLOADS, INTERRUPT_SCHEMAS } from './openapi-interrupt-schemas.ts'
import type { WireRunEvent } from './wire.ts'

const text = { type: 'string' } as const
const id = { ...text, minLength: 1, maxLength: 128 } as const

const session = { sessionId: text, toolId: text } as const
const call = { agentId: text, toolName: text, callId: text } as const

/** What each type of event tells: ids and ends (OWP-43, OWP-50 to OWP-54). */
const PAYLOADS = {
  'agent.toolCalled': closed(['agentId', 'toolName', 'callId', 'argsHash', 'principal', 'transport'], {
    ...call,
    argsHash: { ...text, pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the canonical input.' },
    principal: { ...text, description: 'Opaque.' },
    transport: { enum: ['mcp', 'http', 'native'] },
    sessionId: text,
    traceId: { ...text, description: 'As the caller named it, or of its request.' },
  }),
  'agent.toolReturned': closed(['agentId', 'toolName', 'callId', 'status'], {
    ...call,
    status: { enum: ['ok', 'error', 'forbidden', 'rate_limited'] },
    durationMs: { type: 'integer', minimum: 0 },
    error: closed(['code', 'message'], { code: text, message: text }),
    sessionId: text,
  }),
  'tool.session.opened': closed(['sessionId', 'toolId'], session),
  'tool.session.closed': closed(['sessionId', 'toolId', 'outcome'], {
    ...session,
    outcome: { enum: ['completed', 'failed', 'cancelled'] },
  }),
  ...INTERRUPT_PAYLOADS,
} as const satisfies Record<WireRunEvent['type'], object>

function eventOf([type, payload]: readonly [string, object]) {
  return closed(['eventId', 'runId', 'type', 'sequence', 'timestamp', 'payload'], {
    eventId: id,
    runId: id,
    type: { const: type },
    sequence: { type: 'integer', minimum: 0, description: 'Counts from 0 without gaps.' },
    timestamp: { ...text, format: 'date-time' },
    nodeId: { ...id, description: 'The record of the call.' },
    payload,
  })
}

export const RUN_SCHEMAS = {
  ...INTERRUPT_SCHEMAS,
  RunEvent: { oneOf: Object.entries(PAYLOADS).map(eventOf) },
  RunEvents: closed(['events', 'isComplete'], {
    events: { type: 'array', items: { $ref: '#/components/schemas/RunEvent' } },
    isComplete: { type: 'boolean' },
  }),
  SessionRequest: closed(['toolId'], {
    toolId: text,
    runId: { ...id, description: 'The run to belong to; a new one if absent.' },
    userId: { ...text, description: 'Whom every call of the session is for.' },
  }),
  Session: closed(['sessionId', 'runId'], { sessionId: text, runId: id }),
} as const
