import { schemaRef } from './openapi-schemas.ts'

export const text = { type: 'string' } as const

/** Pieces that several paths of the OpenAPI document share. */
export function json(description: string, schema: object) {
  return { description, content: { 'application/json': { schema } } }
}

export const refusal = (description: string) => json(description, schemaRef('Error'))

export const UNAUTHENTICATED = { 401: refusal('The credential is missing or invalid.') }

export function queryParameter(name: string, schema: object, description: string) {
  return { name, in: 'query', required: false, schema, description }
}

/** Takes a request once, however often it is sent (OWP-92). */
export const KEYED = {
  parameters: [
    {
      name: 'idempotency-key',
      in: 'header',
      required: false,
      schema: { type: 'string', minLength: 1, maxLength: 256 },
      description:
        'Sent again within a day, the same request gets the same answer, with `openwop-Idempotent-Replay: true`.',
    },
  ],
} as const

/** How a key may be refused; what else answers 409 is said before it. */
export const keyRefusal = (others = '') => ({
  409: refusal(
    `${others}The key was used for another request (idempotency_key_mismatch), or the same one is being answered (idempotency_in_flight).`,
  ),
})

export function pathParameter(name: string, description: string) {
  return { name, in: 'path', required: true, schema: text, description }
}
