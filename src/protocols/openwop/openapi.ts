import { API_KEY_HEADERS, type HttpRoute } from '#protocols/http-exchange'
import { PreparedBytes, replyPrepared } from '#protocols/prepared-bytes'
import { PUBLIC_HEADERS } from './discovery.ts'
import { openGet } from './open-get.ts'
import { INTERRUPT_PATHS } from './openapi-interrupt-paths.ts'
import { catalogPaths, DOCUMENT_PATHS } from './openapi-paths.ts'
import { RUN_PATHS } from './openapi-run-paths.ts'
import { OPENAPI_SCHEMAS } from './openapi-schemas.ts'
import { SESSION_PATHS } from './openapi-session-paths.ts'
import type { OpenwopSettings } from './options.ts'
import { OPENAPI_PATH } from './wire.ts'

/** OpenAPI 3.1 of the routes that are really there (OWP-07). */
export function openwopOpenApi(settings: OpenwopSettings) {
  const { toolCatalog, sessionLifecycle } = settings.capabilities
  return {
    openapi: '3.1.0',
    info: {
      title: 'Collet: openwop tool catalog',
      version: settings.serverVersion,
      summary:
        'Which tools there are, what they need and how dangerous they are; runs and sessions of their calls.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{}, { bearer: [] }, ...API_KEY_HEADERS.map((name) => ({ [name]: [] }))],
    paths: {
      ...DOCUMENT_PATHS,
      ...RUN_PATHS,
      ...INTERRUPT_PATHS,
      ...(toolCatalog && sessionLifecycle ? SESSION_PATHS : {}),
      ...(toolCatalog ? catalogPaths(settings) : {}),
    },
    components: {
      schemas: OPENAPI_SCHEMAS,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An HS256 JWT with `exp`, or an API key.' },
        ...Object.fromEntries(API_KEY_HEADERS.map((name) => [name, { type: 'apiKey', in: 'header', name }])),
      },
    },
  }
}

export function openApiRoute(settings: OpenwopSettings): HttpRoute {
  const prepared = new PreparedBytes(JSON.stringify(openwopOpenApi(settings)))
  return openGet(OPENAPI_PATH, (request) => replyPrepared(request, prepared, PUBLIC_HEADERS))
}
