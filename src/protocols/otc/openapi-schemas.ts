import { ERROR_SCHEMAS } from './openapi-error-schemas.ts'
import { REQUEST_SCHEMAS } from './openapi-request-schemas.ts'
import { RESULT_SCHEMAS } from './openapi-result-schemas.ts'
import { TOOL_SCHEMAS } from './openapi-tool-schemas.ts'

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
