import { callId, object, schemaId, text } from './openapi-parts.ts'

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
export const RESULT_SCHEMAS = {
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
