/**
 * The OpenAPI 3.1 document of the admin API, made from the declared operations when it is first requested. Schemas with a name become
 * components. The document contains every operation that a module of this folder exports.
 */
import { z } from 'zod'
import * as approvals from './approvals.ts'
import * as callViews from './call-views.ts'
import * as calls from './calls.ts'
import * as exports from './exports.ts'
import * as journal from './journal.ts'
import * as keys from './keys.ts'
import { type ErrorStatus, type Operation, UNDECLARED } from './operation.ts'
import * as overview from './overview.ts'
import * as pins from './pins.ts'
import * as receipts from './receipts.ts'
import * as rules from './rules.ts'
import * as secrets from './secrets.ts'
import * as server from './server.ts'
import * as sources from './sources.ts'
import * as tools from './tools.ts'
import * as usage from './usage.ts'

const MODULES = [
  approvals,
  calls,
  callViews,
  exports,
  journal,
  keys,
  overview,
  pins,
  rules,
  receipts,
  secrets,
  server,
  sources,
  tools,
  usage,
]

type Part = Readonly<Record<string, unknown>>

/** Component name and description of the error answer with each status; all of them have the same body. */
const REFUSALS = {
  400: ['AdminInvalid', 'The request is invalid; the message states why.'],
  401: ['AdminUnauthenticated', 'The credential is missing or not valid.'],
  403: ['AdminForbidden', 'The credential does not permit this operation.'],
  404: ['AdminNotFound', 'Nothing has this id.'],
  409: [
    'AdminConflict',
    'The item was already decided, has changed, or already exists; the message states which.',
  ],
  410: ['AdminExpired', 'The approval has expired.'],
  422: ['AdminCancelled', 'The call was cancelled.'],
  429: ['AdminTooMany', 'Too many requests of this kind are open.'],
  503: ['AdminUnavailable', 'The store is unavailable.'],
} as const satisfies Record<400 | 401 | 403 | 503 | ErrorStatus, readonly [string, string]>

export function createAdminDocument(version: string): Part {
  const schemas: Record<string, unknown> = {
    AdminMessage: {
      type: 'object',
      description: 'Why the request was refused, and what to do.',
      required: ['message'],
      properties: { message: { type: 'string' } },
    },
  }
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [name, operation] of MODULES.flatMap((module) => Object.entries(module))) {
    if (!isOperation(operation)) continue
    const path = operation.path.replace(/:(\w+)/, '{$1}')
    const operationId = name.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
    const described = { operationId, ...describe(operation, schemas) }
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: described }
  }
  const message = { 'application/json': { schema: { $ref: '#/components/schemas/AdminMessage' } } }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Collet admin API',
      version,
      summary: 'Operates a server: keys, approvals, sources, calls and the journal.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas,
      responses: Object.fromEntries(
        Object.values(REFUSALS).map(([name, description]) => [name, { description, content: message }]),
      ),
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The start token of the server, an API key or a JWT.',
        },
        'x-api-key': { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  }
}

function isOperation(exported: unknown): exported is Operation {
  return typeof exported === 'object' && exported !== null && 'route' in exported
}

function describe(operation: Operation, schemas: Record<string, unknown>): Part {
  const {
    path,
    summary,
    access,
    parameter,
    query,
    body,
    answer,
    media,
    status = 200,
    errors = [],
  } = operation
  const refusals = access === 'open' ? [] : ([400, 401, 403, ...errors, 503] as const)
  const [, name] = /:(\w+)/.exec(path) ?? []
  const inQuery = query() === UNDECLARED() ? {} : toJsonSchema(query(), 'input', schemas)
  const parameters = [
    ...(name === undefined
      ? []
      : [{ name, in: 'path', required: true, description: parameter, schema: { type: 'string' } }]),
    ...Object.entries(asPart(inQuery.properties)).map(([member, schema]) => {
      const { description, ...rest } = asPart(schema)
      return { name: member, in: 'query', description, schema: rest }
    }),
    ...Object.entries(operation.headers ?? {}).map(([header, description]) => {
      return { name: header, in: 'header', description, schema: { type: 'string' } }
    }),
  ]
  const credentials = [{ bearer: [] }, { 'x-api-key': [] }]
  const content =
    answer === undefined
      ? Object.fromEntries(
          (media ?? ['text/event-stream']).map((type) => [type, { schema: { type: 'string' } }]),
        )
      : { 'application/json': { schema: toJsonSchema(answer(), 'output', schemas) } }
  return {
    tags: ['admin'],
    summary,
    description: descriptionOf(operation),
    security: access === 'open' ? [{}] : access === 'callers' ? [...credentials, {}] : credentials,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body() === UNDECLARED()
      ? {}
      : {
          requestBody: {
            required: !body().safeParse(undefined).success,
            content: { 'application/json': { schema: toJsonSchema(body(), 'input', schemas) } },
          },
        }),
    responses: {
      [status]: { description: 'Done.', content },
      ...(operation.isTagged === true
        ? { 304: { description: 'The answer that `If-None-Match` names is still current.' } }
        : {}),
      ...Object.fromEntries(
        refusals.map((code) => [code, { $ref: `#/components/responses/${REFUSALS[code][0]}` }]),
      ),
    },
  }
}

/** The access rule comes first, then the operation's own description. */
function descriptionOf(operation: Operation): string | undefined {
  const { serverScope, scope = serverScope, access, description } = operation
  const whose = serverScope === undefined ? 'a credential' : 'a credential of the default tenant'
  if (scope !== undefined)
    return `Needs the start token of the server, or ${whose} with the scope \`${scope}\`. ${description ?? ''}`.trimEnd()
  if (access !== 'callers') return description
  return description ?? 'Open to every caller. It needs a credential only if calling tools does.'
}

/** Puts named schemas among the components, and refers to them. */
function toJsonSchema(schema: z.ZodType, io: 'input' | 'output', schemas: Record<string, unknown>): Part {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ jsonSchema }) {
      // These keywords are implied by the type of the member, or by JSON itself.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern
      delete jsonSchema.propertyNames
    },
  })
  const text = JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/')
  const { $schema: _dialect, $defs = {}, id: _id, ...rest } = asPart(JSON.parse(text))
  for (const [name, definition] of Object.entries(asPart($defs))) {
    const { id: _name, ...described } = asPart(definition)
    schemas[name] = described
  }
  return rest
}

function asPart(value: unknown): Part {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
