import { ARCADE_SCHEMA_ID, DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, PROTOCOL_VERSION } from './wire.ts'

/** Pieces that several schemas of the OpenAPI document share. */
export const text = { type: 'string' } as const
const object = { type: 'object' } as const
const callId = { type: 'string', minLength: 1, maxLength: 256 } as const
const jsonSchema = {
  type: 'object',
  description: 'JSON Schema 2020-12 without $ref and definitions.',
} as const
const schemaId = {
  type: 'string',
  format: 'uri',
  description: 'Protocol version; answers repeat the spelling of their request.',
  examples: [DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, ARCADE_SCHEMA_ID],
} as const

/** Refusals, challenges and the small answers. */
const ERROR_SCHEMAS = {
  ServerErrorResponse: {
    ...object,
    required: ['message'],
    properties: {
      $schema: schemaId,
      message: { type: 'string', minLength: 1 },
      developer_message: text,
      missing_requirements: {
        ...object,
        properties: {
          authorization: { type: 'array', items: { $ref: '#/components/schemas/Challenge' } },
          secrets: { type: 'array', items: { ...object, required: ['id'], properties: { id: text } } },
          user_id: { type: 'boolean' },
          approval: { $ref: '#/components/schemas/Challenge' },
        },
      },
      challenges: {
        ...object,
        description: 'What each challenge of `authorization` is about, by its id.',
        additionalProperties: {
          ...object,
          required: ['provider', 'scopes'],
          properties: { provider: text, scopes: { type: 'array', items: text } },
        },
      },
      call_id: callId,
    },
  },
  ValidationErrorResponse: {
    ...object,
    required: ['message'],
    properties: {
      $schema: schemaId,
      message: { type: 'string', minLength: 1 },
      developer_message: text,
      parameter_errors: { ...object, additionalProperties: text },
    },
  },
  Challenge: {
    ...object,
    required: ['id', 'url'],
    properties: {
      id: text,
      url: { type: 'string', format: 'uri' },
      check_url: { type: 'string', format: 'uri' },
    },
    additionalProperties: false,
  },
  ChallengeStatus: {
    ...object,
    required: ['status'],
    properties: { status: { enum: ['pending', 'completed', 'failed'] } },
    additionalProperties: false,
  },
  Health: { ...object, required: ['status'], properties: { status: text, message: text } },
  Info: { ...object, required: ['version'], properties: { version: text } },
} as const

const context = {
  type: 'object',
  properties: {
    authorization: {
      description: 'Tokens by provider; the object form is the draft of 4 March 2025.',
      anyOf: [
        {
          type: 'array',
          items: { type: 'object', required: ['id', 'token'], properties: { id: text, token: text } },
        },
        { type: 'object', required: ['token'], properties: { id: text, token: text } },
      ],
    },
    secrets: {
      anyOf: [
        {
          type: 'array',
          items: { type: 'object', required: ['id', 'value'], properties: { id: text, value: text } },
        },
        { type: 'object', additionalProperties: text },
      ],
    },
    user_id: text,
  },
} as const

/** What a call sends, in every dialect. */
const REQUEST_SCHEMAS = {
  CallToolRequest: {
    ...object,
    required: ['tool_id'],
    properties: {
      tool_id: {
        type: 'string',
        description: 'Toolkit.Tool, Toolkit.Tool@1 (exactly 1.0.0) or Toolkit.Tool@1.2.3.',
        examples: ['Calculator.Add@1.0.0'],
      },
      call_id: { ...callId, description: 'Idempotency key: one key, one run.' },
      execution_id: { ...callId, description: 'Older name of call_id.' },
      trace_id: text,
      input: { description: 'The parameters, an object.' },
      inputs: { description: 'Older name of input.' },
      context,
    },
  },
  WrappedCall: {
    ...object,
    required: ['request'],
    properties: { $schema: schemaId, request: { $ref: '#/components/schemas/CallToolRequest' } },
  },
  ProtoCall: {
    ...object,
    required: ['tool'],
    properties: {
      $schema: schemaId,
      run_id: text,
      execution_id: callId,
      created_at: text,
      tool: {
        ...object,
        required: ['name', 'toolkit'],
        properties: { name: text, toolkit: text, version: text },
      },
      inputs: {},
      context,
    },
  },
} as const

const duration = { type: 'number', minimum: 0, description: 'Run time in milliseconds.' } as const
const success = { type: 'boolean' } as const
/** `value` exactly when it succeeded, `error` exactly when it failed (OTC-92). */
function eitherEnding(error: object) {
  return {
    oneOf: [
      { properties: { success: { const: true }, value: true }, required: ['value'] },
      { properties: { success: { const: false }, error }, required: ['error'] },
    ],
  }
}

/** Closed by `unevaluatedProperties`: the published schema's `additionalProperties` rejects every result (C-20). */
function closedResult(properties: object, required: readonly string[], error: object) {
  return { ...object, properties, required, ...eitherEnding(error), unevaluatedProperties: false }
}

const toolErrorRef = { $ref: '#/components/schemas/ToolError' }
const outputRef = { $ref: '#/components/schemas/Output' }

/** What a call that ran answers, in every dialect. */
const RESULT_SCHEMAS = {
  ToolError: {
    ...object,
    required: ['message'],
    properties: {
      message: { type: 'string', minLength: 1, description: 'For the user and the model.' },
      developer_message: { type: 'string', description: 'For logs; never for the user or the model.' },
      can_retry: { type: 'boolean', default: false },
      additional_prompt_content: text,
      retry_after_ms: { type: 'integer', minimum: 0 },
    },
    additionalProperties: false,
  },
  CallToolResponse: closedResult(
    { call_id: callId, duration, success },
    ['call_id', 'success'],
    toolErrorRef,
  ),
  UtsResponse: closedResult({ call_id: callId, success }, ['call_id', 'success'], toolErrorRef),
  ResultEnvelope: {
    ...object,
    required: ['$schema', 'result'],
    properties: { $schema: schemaId, result: { $ref: '#/components/schemas/CallToolResponse' } },
    additionalProperties: false,
  },
  Output: {
    ...object,
    properties: { value: {}, error: toolErrorRef },
    minProperties: 1,
    maxProperties: 1,
    additionalProperties: false,
  },
  RfcCallEnvelope: {
    ...object,
    required: ['$schema', 'call_id', 'success', 'result'],
    properties: {
      $schema: schemaId,
      call_id: callId,
      duration,
      success,
      output: outputRef,
      result: { $ref: '#/components/schemas/CallToolResponse' },
    },
    additionalProperties: false,
  },
  ExecuteEnvelope: {
    ...object,
    required: ['$schema', 'execution_id', 'success', 'response'],
    properties: {
      $schema: schemaId,
      execution_id: callId,
      duration,
      success,
      output: outputRef,
      response: {
        ...object,
        required: ['execution_id', 'success'],
        properties: { execution_id: callId, duration, success, output: outputRef },
        additionalProperties: false,
      },
    },
    additionalProperties: false,
  },
  ProtoEnvelope: {
    ...object,
    required: ['$schema', 'execution_id', 'finished_at', 'success', 'output'],
    properties: {
      $schema: schemaId,
      execution_id: callId,
      duration,
      finished_at: { type: 'string', format: 'date-time' },
      success,
      output: outputRef,
    },
    additionalProperties: false,
  },
  Call: {
    ...object,
    required: ['call_id', 'record', 'run_id', 'tool_id', 'state', 'attempt', 'created_at', 'expired'],
    properties: {
      $schema: schemaId,
      call_id: callId,
      record: { type: 'string', description: 'Name of the call for the operator.' },
      run_id: { type: 'string', description: 'The run it is in: GET /v1/runs/{runId}/events.' },
      trace_id: { type: 'string', description: 'As the caller named it, or of its request.' },
      protocol: { enum: ['otc', 'opentool', 'openwop', 'mcp'], description: 'What it was asked over.' },
      user_id: { type: 'string', description: 'Whom its caller named, proven or not.' },
      tool_id: text,
      state: { enum: ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] },
      attempt: { type: 'integer', minimum: 0 },
      created_at: { type: 'string', format: 'date-time' },
      finished_at: { type: 'string', format: 'date-time' },
      expired: {
        type: 'boolean',
        description: 'The result was removed by retention; the key is still taken.',
      },
      result: { $ref: '#/components/schemas/CallToolResponse' },
    },
    additionalProperties: false,
  },
  CallList: {
    ...object,
    required: ['calls'],
    properties: {
      $schema: schemaId,
      calls: { type: 'array', items: { $ref: '#/components/schemas/Call' } },
      next_cursor: {
        type: 'string',
        description: 'Where to go on. A page may be short, or empty, and still have one.',
      },
    },
    additionalProperties: false,
  },
} as const

/** Definitions and lists. */
const TOOL_SCHEMAS = {
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

export const OPENAPI_SCHEMAS = {
  ...TOOL_SCHEMAS,
  ...REQUEST_SCHEMAS,
  ...RESULT_SCHEMAS,
  ...ERROR_SCHEMAS,
} as const

export type SchemaName = keyof typeof OPENAPI_SCHEMAS

export function schemaRef(name: SchemaName) {
  return { $ref: `#/components/schemas/${name}` } as const
}
