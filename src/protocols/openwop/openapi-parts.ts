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

export function pathParameter(name: string, description: string) {
  return { name, in: 'path', required: true, schema: text, description }
}
