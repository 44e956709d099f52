import { fault } from '#core/errors'
import { API_KEY_HEADERS, type HttpRoute } from '#protocols/http-exchange'
import { PreparedBytes, replyPrepared } from '#protocols/prepared-bytes'
import { PUBLIC_HEADERS } from './discovery.ts'
import { openGet } from './open-get.ts'
import { INTERRUPT_PATHS } from './openapi-interrupt-paths.ts'
import { catalogPaths, DOCUMENT_PATHS } from './openapi-paths.ts'
import { RUN_PATHS } from './openapi-run-paths.ts'
import { OPENAPI_SCHEMAS, type SchemaName } from './openapi-schemas.ts'
import { SESSION_PATHS } from './openapi-session-paths.ts'
import type { OpenwopSettings } from './options.ts'
import { refuse } from './refuse.ts'
import { OPENAPI_PATH, SCHEMA_PATH, SCHEMAS_PATH } from './wire.ts'

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

/** Documents of this protocol, by the file names its own schemas have. */
const SCHEMA_FILES = {
  'tool-descriptor.schema.json': 'ToolDescriptor',
  'compact-tool-descriptor.schema.json': 'CompactToolDescriptor',
  'run-event.schema.json': 'RunEvent',
  'run-events.schema.json': 'RunEvents',
  'session-request.schema.json': 'SessionRequest',
  'session.schema.json': 'Session',
  'discovery.schema.json': 'Discovery',
  'error.schema.json': 'Error',
} as const satisfies Record<string, SchemaName>

/** Each as a JSON Schema that stands by itself, said once: in the OpenAPI document. */
export function schemaDocuments(): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(SCHEMA_FILES).map(([file, name]) => {
      const used = JSON.stringify(OPENAPI_SCHEMAS[name]).matchAll(/#\/components\/schemas\/(\w+)/g)
      const names = new Set([...used].map(([, each]) => each))
      const parts = Object.entries(OPENAPI_SCHEMAS).filter(([each]) => names.has(each))
      const schema = JSON.stringify({
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $id: `${SCHEMAS_PATH}/${file}`,
        title: name,
        ...OPENAPI_SCHEMAS[name],
        ...(parts.length === 0 ? {} : { $defs: Object.fromEntries(parts) }),
      })
      return [file, schema.replaceAll('#/components/schemas/', '#/$defs/')]
    }),
  )
}

/** `GET /v1/schemas` names them, `GET /v1/schemas/{name}` gives one. */
export function schemaRoutes(): readonly HttpRoute[] {
  const documents = new Map([...schemaDocuments()].map(([file, schema]) => [file, new PreparedBytes(schema)]))
  const names = [...documents.keys()].map((file) => `${SCHEMAS_PATH}/${file}`)
  const list = new PreparedBytes(JSON.stringify({ schemas: names }))
  return [
    openGet(SCHEMAS_PATH, (request) => replyPrepared(request, list, PUBLIC_HEADERS)),
    openGet(SCHEMA_PATH, (request) => {
      const document = documents.get(request.params.name ?? '')
      if (document !== undefined) return replyPrepared(request, document, PUBLIC_HEADERS)
      const message = `There is no such schema. There are: ${names.join(', ')}.`
      return refuse(request, fault('request_invalid', message), 404)
    }),
  ]
}
