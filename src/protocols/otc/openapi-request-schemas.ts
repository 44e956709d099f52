import { callId, object, schemaId, text } from './openapi-parts.ts'

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
export const REQUEST_SCHEMAS = {
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
