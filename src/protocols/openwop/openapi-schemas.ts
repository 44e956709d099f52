import { FORBIDDEN } from './codec-catalog.ts'
import { SOURCE_KINDS, type WireRunEvent } from './wire.ts'

/** An object with these members and no other. */
function closed(required: readonly string[], properties: object) {
  return { type: 'object', additionalProperties: false, required, properties } as const
}

const textInOpenapiInterruptSchemas = { type: 'string' } as const
const time = { ...textInOpenapiInterruptSchemas, format: 'date-time' } as const
const countInOpenapiInterruptSchemas = { type: 'integer', minimum: 0 } as const
const progress = closed(['granted', 'required'], {
  granted: countInOpenapiInterruptSchemas,
  required: countInOpenapiInterruptSchemas,
})
const approval = { const: 'approval' } as const

function data(artifactData: object) {
  return closed(
    ['gateId', 'requiredScope', 'quorum', 'artifactId', 'artifactType', 'title', 'artifactData', 'actions'],
    {
      gateId: textInOpenapiInterruptSchemas,
      requiredScope: textInOpenapiInterruptSchemas,
      quorum: { type: 'integer', minimum: 1 },
      artifactId: textInOpenapiInterruptSchemas,
      artifactType: { const: 'tool-call' },
      title: textInOpenapiInterruptSchemas,
      artifactData,
      actions: { type: 'array', items: { enum: ['accept', 'reject'] } },
    },
  )
}

const artifact = {
  toolId: textInOpenapiInterruptSchemas,
  argsHash: textInOpenapiInterruptSchemas,
  safetyTier: { enum: ['pure', 'read', 'write', 'exec'] },
}
const asked = ['runId', 'nodeId', 'interruptId', 'kind', 'key', 'timeoutMs', 'requestedAt', 'data'] as const
const question = {
  runId: textInOpenapiInterruptSchemas,
  nodeId: textInOpenapiInterruptSchemas,
  interruptId: textInOpenapiInterruptSchemas,
  kind: approval,
  key: textInOpenapiInterruptSchemas,
  timeoutMs: countInOpenapiInterruptSchemas,
  requestedAt: time,
}
const decision = {
  gateId: textInOpenapiInterruptSchemas,
  principal: { ...textInOpenapiInterruptSchemas, description: 'Opaque.' },
  reason: textInOpenapiInterruptSchemas,
}

/** What only a person at the provider can resolve, on our own page (OWP-78). */
const consent = closed(
  ['gateId', 'reason', 'provider', 'scopes', 'url', 'artifactId', 'artifactType', 'title'],
  {
    gateId: textInOpenapiInterruptSchemas,
    reason: { const: 'authorization-required' },
    provider: textInOpenapiInterruptSchemas,
    scopes: { type: 'array', items: textInOpenapiInterruptSchemas },
    url: textInOpenapiInterruptSchemas,
    artifactId: textInOpenapiInterruptSchemas,
    artifactType: { const: 'tool-call' },
    title: textInOpenapiInterruptSchemas,
  },
)

/** What a run tells of a call that waits for a yes (OWP-64 to OWP-72, §6.5). */
const INTERRUPT_PAYLOADS = {
  'interrupt.requested': closed(asked, {
    ...question,
    data: { oneOf: [data(closed(Object.keys(artifact), artifact)), consent] },
  }),
  'node.suspended': closed(['nodeId', 'interruptId', 'kind', 'key'], {
    nodeId: textInOpenapiInterruptSchemas,
    interruptId: textInOpenapiInterruptSchemas,
    kind: approval,
    key: textInOpenapiInterruptSchemas,
  }),
  'approval.granted': closed(['gateId', 'principal'], { ...decision, quorumProgress: progress }),
  'approval.rejected': closed(['gateId', 'principal'], decision),
  'approval.overridden': closed(['gateId', 'principal', 'reason'], decision),
  'interrupt.resolved': closed(
    ['runId', 'nodeId', 'interruptId', 'kind', 'resumeValue', 'outcome', 'resolvedAt'],
    {
      runId: textInOpenapiInterruptSchemas,
      nodeId: textInOpenapiInterruptSchemas,
      interruptId: textInOpenapiInterruptSchemas,
      kind: approval,
      resumeValue: closed(['action', 'decidedAt'], {
        action: { enum: ['accept', 'reject'] },
        decidedBy: textInOpenapiInterruptSchemas,
        decidedAt: time,
      }),
      outcome: { enum: ['granted', 'rejected', 'cancelled'] },
      reason: textInOpenapiInterruptSchemas,
      resolvedAt: time,
      resolvedBy: textInOpenapiInterruptSchemas,
    },
  ),
  'connector.authorized': closed(['provider', 'credentialRef', 'scopes'], {
    provider: textInOpenapiInterruptSchemas,
    credentialRef: {
      ...textInOpenapiInterruptSchemas,
      description: 'A reference; nothing of the credential.',
    },
    scopes: { type: 'array', items: textInOpenapiInterruptSchemas },
  }),
  'connector.auth_expired': closed(['provider'], { provider: textInOpenapiInterruptSchemas }),
} as const

const INTERRUPT_SCHEMAS = {
  Interrupt: closed([...asked, 'status', 'expiresAt'], {
    ...question,
    status: { enum: ['pending', 'granted', 'used', 'rejected', 'expired', 'cancelled'] },
    expiresAt: time,
    data: data(
      closed([...Object.keys(artifact), 'input', 'hidden'], {
        ...artifact,
        input: {
          type: 'object',
          description: 'All of the input, but for credentials that the tool declares.',
        },
        hidden: {
          ...countInOpenapiInterruptSchemas,
          description: 'How many values of it are hidden by those; accepting then takes `acceptHidden`.',
        },
      }),
    ),
  }),
  Resume: closed(['resumeValue'], {
    resumeValue: {
      type: 'object',
      properties: {
        action: { enum: ['accept', 'reject', 'override'] },
        decision: { enum: ['granted', 'approved', 'rejected', 'overridden'] },
        reason: { ...textInOpenapiInterruptSchemas, maxLength: 1_000 },
        acceptHidden: { type: 'boolean', description: 'Says yes although some of the input is hidden.' },
      },
    },
  }),
  Resumed: closed(['runId', 'nodeId', 'status', 'quorumProgress'], {
    runId: textInOpenapiInterruptSchemas,
    nodeId: textInOpenapiInterruptSchemas,
    status: { enum: ['suspended', 'rejected', 'resumed'] },
    quorumProgress: progress,
  }),
} as const

const textInOpenapiRunSchemas = { type: 'string' } as const
const id = { ...textInOpenapiRunSchemas, minLength: 1, maxLength: 128 } as const

const session = { sessionId: textInOpenapiRunSchemas, toolId: textInOpenapiRunSchemas } as const
const call = {
  agentId: textInOpenapiRunSchemas,
  toolName: textInOpenapiRunSchemas,
  callId: textInOpenapiRunSchemas,
} as const

/** What each type of event tells: ids and ends (OWP-43, OWP-50 to OWP-54). */
const PAYLOADS = {
  'agent.toolCalled': closed(['agentId', 'toolName', 'callId', 'argsHash', 'principal', 'transport'], {
    ...call,
    argsHash: {
      ...textInOpenapiRunSchemas,
      pattern: '^[0-9a-f]{64}$',
      description: 'SHA-256 of the canonical input.',
    },
    principal: { ...textInOpenapiRunSchemas, description: 'Opaque.' },
    transport: { enum: ['mcp', 'http', 'native'] },
    sessionId: textInOpenapiRunSchemas,
    traceId: { ...textInOpenapiRunSchemas, description: 'As the caller named it, or of its request.' },
  }),
  'agent.toolReturned': closed(['agentId', 'toolName', 'callId', 'status'], {
    ...call,
    status: { enum: ['ok', 'error', 'forbidden', 'rate_limited'] },
    durationMs: { type: 'integer', minimum: 0 },
    error: closed(['code', 'message'], { code: textInOpenapiRunSchemas, message: textInOpenapiRunSchemas }),
    sessionId: textInOpenapiRunSchemas,
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
    timestamp: { ...textInOpenapiRunSchemas, format: 'date-time' },
    nodeId: { ...id, description: 'The record of the call.' },
    payload,
  })
}

const RUN_SCHEMAS = {
  ...INTERRUPT_SCHEMAS,
  RunEvent: { oneOf: Object.entries(PAYLOADS).map(eventOf) },
  RunEvents: closed(['events', 'isComplete'], {
    events: { type: 'array', items: { $ref: '#/components/schemas/RunEvent' } },
    isComplete: { type: 'boolean' },
  }),
  SessionRequest: closed(['toolId'], {
    toolId: textInOpenapiRunSchemas,
    runId: { ...id, description: 'The run to belong to; a new one if absent.' },
    userId: { ...textInOpenapiRunSchemas, description: 'Whom every call of the session is for.' },
  }),
  Session: closed(['sessionId', 'runId'], { sessionId: textInOpenapiRunSchemas, runId: id }),
} as const

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const count = { type: 'integer', minimum: 0 } as const
const hint = { enum: ['low', 'medium', 'high'], ...text } as const
const texts = { type: 'array', items: text, uniqueItems: true } as const
const jsonSchema = { type: 'object', description: 'JSON Schema 2020-12.' } as const

const toolId = { ...text, minLength: 1, description: 'Stable, without a version.' } as const
const source = { ...text, enum: SOURCE_KINDS } as const
const safetyTier = { ...text, enum: ['pure', 'read', 'write', 'exec'] } as const

/** OWP-31: commands are never protocol-tier. */
const EXEC_IS_HOST_EXTENSION = {
  if: { properties: { safetyTier: { const: 'exec' } }, required: ['safetyTier'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { properties: { source: { const: 'host-extension' } }, required: ['source'] },
} as const

function closedInOpenapiSchemas(required: readonly string[], properties: object) {
  return { type: 'object', additionalProperties: false, required, properties } as const
}

const TOOL_DESCRIPTOR = {
  ...closedInOpenapiSchemas(['toolId', 'source', 'safetyTier'], {
    toolId,
    source,
    title: text,
    description: text,
    inputSchema: jsonSchema,
    outputSchema: jsonSchema,
    auth: {
      type: 'object',
      additionalProperties: false,
      properties: { scopes: texts, credentialRef: flag },
    },
    egress: { ...text, enum: ['none', 'safe-fetch', 'host-mediated', 'host-owned'] },
    approval: { ...text, enum: ['never', 'conditional', 'always'] },
    replayPolicy: { ...text, enum: ['deterministic', 'idempotent', 'non-deterministic'] },
    safetyTier,
    costHint: hint,
    latencyHint: hint,
  }),
  allOf: [EXEC_IS_HOST_EXTENSION],
} as const

const COMPACT_TOOL_DESCRIPTOR = {
  ...closedInOpenapiSchemas(['toolId', 'source', 'safetyTier'], {
    toolId,
    source,
    safetyTier,
    title: text,
    description: text,
    inputSchema: {
      type: 'object',
      description: `JSON Schema 2020-12 without ${FORBIDDEN.join(', ')} at any depth.`,
      required: ['type', 'properties'],
      properties: {
        type: { const: 'object' },
        properties: { type: 'object' },
        ...Object.fromEntries(FORBIDDEN.map((keyword) => [keyword, false])),
      },
    },
  }),
  allOf: [EXEC_IS_HOST_EXTENSION],
} as const

const ERROR = closedInOpenapiSchemas(['error', 'message'], {
  error: text,
  message: text,
  details: { type: 'object' },
})

const DISCOVERY = {
  type: 'object',
  required: ['protocolVersion', 'supportedEnvelopes', 'schemaVersions', 'limits'],
  properties: {
    protocolVersion: { ...text, pattern: '^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$' },
    supportedEnvelopes: { type: 'array', items: text },
    schemaVersions: { type: 'object', additionalProperties: count },
    limits: closedInOpenapiSchemas(['clarificationRounds', 'schemaRounds', 'envelopesPerTurn'], {
      clarificationRounds: count,
      schemaRounds: count,
      envelopesPerTurn: count,
    }),
    implementation: { type: 'object' },
    toolCatalog: closedInOpenapiSchemas(['supported'], {
      supported: flag,
      sources: { type: 'array', items: source, uniqueItems: true },
      sessionLifecycle: flag,
      compactView: flag,
    }),
  },
} as const

export const OPENAPI_SCHEMAS = {
  ToolDescriptor: TOOL_DESCRIPTOR,
  CompactToolDescriptor: COMPACT_TOOL_DESCRIPTOR,
  Error: ERROR,
  Discovery: DISCOVERY,
  ...RUN_SCHEMAS,
} as const

export type SchemaName = keyof typeof OPENAPI_SCHEMAS

export function schemaRef(name: SchemaName) {
  return { $ref: `#/components/schemas/${name}` } as const
}
