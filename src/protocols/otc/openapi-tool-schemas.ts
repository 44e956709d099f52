import { jsonSchema, object, schemaId, text } from './openapi-parts.ts'
import { PROTOCOL_VERSION } from './wire.ts'

/** Definitions and lists. */
export const TOOL_SCHEMAS = {
  ToolDefinition: {
    ...object,
    required: ['id', 'name', 'description', 'version', 'input_schema', 'output_schema'],
    properties: {
      id: { type: 'string', pattern: '^[A-Za-z0-9_]+\\.[A-Za-z0-9_]+@[0-9]+\\.[0-9]+\\.[0-9]+$' },
      name: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
      description: text,
      version: { type: 'string', pattern: '^[0-9]+\\.[0-9]+\\.[0-9]+$' },
      input_schema: jsonSchema,
      output_schema: { anyOf: [jsonSchema, { type: 'null' }] },
      requirements: { $ref: '#/components/schemas/Requirements' },
    },
    additionalProperties: false,
  },
  WrappedToolDefinition: {
    description:
      'As ToolDefinition, with the input schema under `parameters`; `toolkit`, `input` and `output` only for the RFC.',
    ...object,
    required: ['id', 'name', 'description', 'version', 'input_schema', 'output_schema'],
    properties: {
      id: text,
      name: text,
      description: text,
      version: text,
      input_schema: {
        ...object,
        required: ['parameters'],
        properties: { parameters: jsonSchema },
        additionalProperties: false,
      },
      output_schema: { anyOf: [jsonSchema, { type: 'null' }] },
      requirements: { $ref: '#/components/schemas/Requirements' },
      toolkit: {
        ...object,
        required: ['name', 'description'],
        properties: { name: text, description: text, version: text },
      },
      input: { ...object, required: ['parameters'], properties: { parameters: jsonSchema } },
      output: { ...object, required: ['available_modes'] },
    },
    additionalProperties: false,
  },
  Requirements: {
    ...object,
    properties: {
      authorization: {
        type: 'array',
        items: {
          ...object,
          required: ['id'],
          properties: {
            id: text,
            oauth2: { ...object, properties: { scopes: { type: 'array', items: text } } },
          },
        },
      },
      secrets: { type: 'array', items: { ...object, required: ['id'], properties: { id: text } } },
      user_id: { type: 'boolean' },
      approval: {
        enum: ['conditional', 'always'],
        description: 'Somebody has to say yes first, to some calls or to each; absent: never.',
      },
    },
  },
  ToolFacts: {
    description:
      'What is known of a tool beyond its definition. Absent: a tool of the host itself, non-deterministic, no approval, no scopes, no credential.',
    ...object,
    required: ['catalog_id', 'safety_tier'],
    properties: {
      catalog_id: { ...text, description: 'Its id in GET /v1/tools.' },
      safety_tier: { enum: ['pure', 'read', 'write', 'exec'] },
      replay_policy: { enum: ['deterministic', 'idempotent', 'non-deterministic'] },
      source: { enum: ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension'] },
      approval: { enum: ['never', 'conditional', 'always'] },
      egress: { enum: ['none', 'safe-fetch', 'host-mediated', 'host-owned'] },
      scopes: { type: 'array', items: text },
      credential: { type: 'boolean', description: 'It, or a step of it, uses a token or a secret.' },
      cost_hint: { enum: ['low', 'medium', 'high'] },
      latency_hint: { enum: ['low', 'medium', 'high'] },
    },
  },
  ToolList: {
    ...object,
    description: `With the header OXP-Version: ${PROTOCOL_VERSION} only \`items\`; for otc ids only \`tools\`; else both.`,
    properties: {
      $schema: schemaId,
      tools: { type: 'array', items: { $ref: '#/components/schemas/WrappedToolDefinition' } },
      items: { type: 'array', items: { $ref: '#/components/schemas/ToolDefinition' } },
      tool_facts: {
        ...object,
        description: 'By tool id.',
        additionalProperties: { $ref: '#/components/schemas/ToolFacts' },
      },
    },
    anyOf: [{ required: ['tools'] }, { required: ['items'] }],
    additionalProperties: false,
  },
} as const
