import { callId, object, schemaId, text } from './openapi-parts.ts'

/** Refusals, challenges and the small answers. */
export const ERROR_SCHEMAS = {
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
