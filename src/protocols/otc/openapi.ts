import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { OPENAPI_PATHS } from './openapi-paths.ts'
import { OPENAPI_SCHEMAS } from './openapi-schemas.ts'

/** OpenAPI 3.1 of every route of this protocol; our own responses validate against it. */
export function otcOpenApi(serverVersion: string) {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Collet: Open Tool Calling 1.0 and Open eXecution Protocol 1.0',
      version: serverVersion,
      summary: 'List tools, call them durably, and ask about a call.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{}, { bearer: [] }, ...API_KEY_HEADERS.map((name) => ({ [name]: [] }))],
    paths: OPENAPI_PATHS,
    components: {
      schemas: OPENAPI_SCHEMAS,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An HS256 JWT with `exp`, or an API key.' },
        ...Object.fromEntries(API_KEY_HEADERS.map((name) => [name, { type: 'apiKey', in: 'header', name }])),
      },
    },
  }
}
