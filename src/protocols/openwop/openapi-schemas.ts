import { FORBIDDEN } from './codec-compact-schema.ts'
import { RUN_SCHEMAS } from './openapi-run-schemas.ts'
import { SOURCE_KINDS } from './wire.ts'

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

function closed(required: readonly string[], properties: object) {
  return { type: 'object', additionalProperties: false, required, properties } as const
}

const TOOL_DESCRIPTOR = {
  ...closed(['toolId', 'source', 'safetyTier'], {
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
  ...closed(['toolId', 'source', 'safetyTier'], {
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

const ERROR = closed(['error', 'message'], { error: text, message: text, details: { type: 'object' } })

const DISCOVERY = {
  type: 'object',
  required: ['protocolVersion', 'supportedEnvelopes', 'schemaVersions', 'limits'],
  properties: {
    protocolVersion: { ...text, pattern: '^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$' },
    supportedEnvelopes: { type: 'array', items: text },
    schemaVersions: { type: 'object', additionalProperties: count },
    limits: closed(['clarificationRounds', 'schemaRounds', 'envelopesPerTurn'], {
      clarificationRounds: count,
      schemaRounds: count,
      envelopesPerTurn: count,
    }),
    implementation: { type: 'object' },
    toolCatalog: closed(['supported'], {
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
