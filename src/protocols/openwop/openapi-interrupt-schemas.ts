import { closed } from './openapi-closed.ts'

const text = { type: 'string' } as const
const time = { ...text, format: 'date-time' } as const
const count = { type: 'integer', minimum: 0 } as const
const progress = closed(['granted', 'required'], { granted: count, required: count })
const approval = { const: 'approval' } as const

function data(artifactData: object) {
  return closed(
    ['gateId', 'requiredScope', 'quorum', 'artifactId', 'artifactType', 'title', 'artifactData', 'actions'],
    {
      gateId: text,
      requiredScope: text,
      quorum: { type: 'integer', minimum: 1 },
      artifactId: text,
      artifactType: { const: 'tool-call' },
      title: text,
      artifactData,
      actions: { type: 'array', items: { enum: ['accept', 'reject'] } },
    },
  )
}

const artifact = { toolId: text, argsHash: text, safetyTier: { enum: ['pure', 'read', 'write', 'exec'] } }
const asked = ['runId', 'nodeId', 'interruptId', 'kind', 'key', 'timeoutMs', 'requestedAt', 'data'] as const
const question = {
  runId: text,
  nodeId: text,
  interruptId: text,
  kind: approval,
  key: text,
  timeoutMs: count,
  requestedAt: time,
}
const decision = { gateId: text, principal: { ...text, description: 'Opaque.' }, reason: text }

/** What only a person at the provider can resolve, on our own page (OWP-78). */
const consent = closed(
  ['gateId', 'reason', 'provider', 'scopes', 'url', 'artifactId', 'artifactType', 'title'],
  {
    gateId: text,
    reason: { const: 'authorization-required' },
    provider: text,
    scopes: { type: 'array', items: text },
    url: text,
    artifactId: text,
    artifactType: { const: 'tool-call' },
    title: text,
  },
)

/** What a run tells of a call that waits for a yes (OWP-64 to OWP-72, §6.5). */
export const INTERRUPT_PAYLOADS = {
  'interrupt.requested': closed(asked, {
    ...question,
    data: { oneOf: [data(closed(Object.keys(artifact), artifact)), consent] },
  }),
  'node.suspended': closed(['nodeId', 'interruptId', 'kind', 'key'], {
    nodeId: text,
    interruptId: text,
    kind: approval,
    key: text,
  }),
  'approval.granted': closed(['gateId', 'principal'], { ...decision, quorumProgress: progress }),
  'approval.rejected': closed(['gateId', 'principal'], decision),
  'approval.overridden': closed(['gateId', 'principal', 'reason'], decision),
  'interrupt.resolved': closed(
    ['runId', 'nodeId', 'interruptId', 'kind', 'resumeValue', 'outcome', 'resolvedAt'],
    {
      runId: text,
      nodeId: text,
      interruptId: text,
      kind: approval,
      resumeValue: closed(['action', 'decidedAt'], {
        action: { enum: ['accept', 'reject'] },
        decidedBy: text,
        decidedAt: time,
      }),
      outcome: { enum: ['granted', 'rejected', 'cancelled'] },
      reason: text,
      resolvedAt: time,
      resolvedBy: text,
    },
  ),
  'connector.authorized': closed(['provider', 'credentialRef', 'scopes'], {
    provider: text,
    credentialRef: { ...text, description: 'A reference; nothing of the credential.' },
    scopes: { type: 'array', items: text },
  }),
  'connector.auth_expired': closed(['provider'], { provider: text }),
} as const

export const INTERRUPT_SCHEMAS = {
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
          ...count,
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
        reason: { ...text, maxLength: 1_000 },
        acceptHidden: { type: 'boolean', description: 'Says yes although some of the input is hidden.' },
      },
    },
  }),
  Resumed: closed(['runId', 'nodeId', 'status', 'quorumProgress'], {
    runId: text,
    nodeId: text,
    status: { enum: ['suspended', 'rejected', 'resumed'] },
    quorumProgress: progress,
  }),
} as const
