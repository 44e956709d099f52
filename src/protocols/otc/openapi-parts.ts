import { ARCADE_SCHEMA_ID, DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID } from './wire.ts'

/** Pieces that several schemas of the OpenAPI document share. */
export const text = { type: 'string' } as const
export const object = { type: 'object' } as const
export const callId = { type: 'string', minLength: 1, maxLength: 256 } as const
export const jsonSchema = {
  type: 'object',
  description: 'JSON Schema 2020-12 without $ref and definitions.',
} as const
export const schemaId = {
  type: 'string',
  format: 'uri',
  description: 'Protocol version; answers repeat the spelling of their request.',
  examples: [DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, ARCADE_SCHEMA_ID],
} as const
