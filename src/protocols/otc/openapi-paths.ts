import { RUN_HEADER, SESSION_HEADER } from '#protocols/call-headers'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { OPENAPI_SCHEMAS, type SchemaName, schemaRef, text } from './openapi-schemas.ts'
import { CALL_ID_HEADER, ERROR_CODE_HEADER, IDEMPOTENCY_KEY_HEADER, OXP_VERSION_HEADER } from './wire.ts'

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

const OPEN: readonly object[] = [{}]

function anyOf(names: readonly SchemaName[]) {
  const [only] = names
  return names.length === 1 && only !== undefined ? schemaRef(only) : { anyOf: names.map(schemaRef) }
}

const VERSION_HEADER = { [OXP_VERSION_HEADER]: { schema: { const: '1.0' } } }
const CALL_HEADERS = {
  ...VERSION_HEADER,
  [CALL_ID_HEADER]: {
    description: 'The call id, percent-encoded where it is not visible ASCII.',
    schema: text,
  },
  [ERROR_CODE_HEADER]: { description: 'Why the call has no value.', schema: text },
}
const RAN_HEADERS = {
  ...CALL_HEADERS,
  [RUN_HEADER]: { description: 'The run the call is in: GET /v1/runs/{runId}/events.', schema: text },
}
/** No dialect has a member for them, so they are headers (rule 30). */
const PLACE_PARAMETERS = [
  {
    name: RUN_HEADER,
    in: 'header',
    required: false,
    description: 'Puts the call into a run of yours; the first use makes it. Percent-encoded as in answers.',
    schema: { type: 'string', minLength: 1 },
  },
  {
    name: SESSION_HEADER,
    in: 'header',
    required: false,
    description: 'A session of a tool that keeps state, from POST /v1/sessions.',
    schema: text,
  },
]

function json(description: string, schema: object, headers: object = VERSION_HEADER) {
  return { description, headers, content: { 'application/json': { schema } } }
}

const serverError = (description: string) => json(description, schemaRef('ServerErrorResponse'))
const UNAUTHENTICATED = { 401: serverError('The credential is missing or invalid.') }
const TOO_LARGE = { 413: serverError('The body is larger than the server reads.') }

const versionParameter = {
  name: OXP_VERSION_HEADER,
  in: 'header',
  required: false,
  schema: { enum: ['1.0', '1.0.0'] },
} as const

function callOperation(operationId: string, bodies: readonly SchemaName[], answers: readonly SchemaName[]) {
  return {
    post: {
      operationId,
      summary: 'Run one tool, once per call id.',
      parameters: [
        versionParameter,
        {
          name: IDEMPOTENCY_KEY_HEADER,
          in: 'header',
          required: false,
          description: 'The same as call_id; if both are sent they must be equal.',
          schema: text,
        },
        ...PLACE_PARAMETERS,
      ],
      requestBody: { required: true, content: { 'application/json': { schema: anyOf(bodies) } } },
      responses: {
        200: json('The tool ran: `success` says how it ended.', anyOf(answers), RAN_HEADERS),
        400: json('Nothing ran.', schemaRef('ServerErrorResponse'), {
          ...CALL_HEADERS,
          'retry-after': { description: 'Seconds to wait, when waiting helps.', schema: text },
          'x-should-retry': { schema: text },
        }),
        ...UNAUTHENTICATED,
        ...TOO_LARGE,
        422: json(
          'The input does not fit the tool; nothing ran.',
          schemaRef('ValidationErrorResponse'),
          CALL_HEADERS,
        ),
      },
    },
  }
}

function listOperation(operationId: string, schema: object) {
  return {
    get: {
      operationId,
      summary: 'Every tool and version the caller may see.',
      description: 'A JSON body {"$schema"} is accepted too.',
      parameters: [
        versionParameter,
        {
          name: 'schema',
          in: 'query',
          required: false,
          description: 'The same as $schema in a body.',
          schema: text,
        },
        { name: 'if-none-match', in: 'header', required: false, schema: text },
      ],
      responses: {
        200: json('The catalog.', schema, { ...VERSION_HEADER, etag: { schema: text } }),
        304: { description: 'The catalog has not changed.' },
        400: serverError('The protocol version is not supported, or the request is malformed.'),
        ...UNAUTHENTICATED,
      },
    },
  }
}

function healthOperation(operationId: string) {
  return {
    get: {
      operationId,
      security: OPEN,
      responses: {
        200: json('Calls are taken.', schemaRef('Health')),
        503: json('Calls are not taken.', schemaRef('Health')),
      },
    },
  }
}

const idParameter = { name: 'id', in: 'path', required: true, schema: text } as const

function ownCall(operationId: string, summary: string, answers: object) {
  return {
    operationId,
    summary,
    responses: { ...answers, ...UNAUTHENTICATED, 404: serverError('The caller has no such call.') },
  }
}

const OPENAPI_PATHS = {
  '/health': healthOperation('health'),
  '/tools': listOperation('listTools', schemaRef('ToolList')),
  '/tools/call': callOperation(
    'callTool',
    ['WrappedCall', 'CallToolRequest'],
    ['ResultEnvelope', 'CallToolResponse'],
  ),
  '/call': callOperation(
    'call',
    ['WrappedCall', 'CallToolRequest'],
    ['RfcCallEnvelope', 'ResultEnvelope', 'CallToolResponse'],
  ),
  '/tools/execute': callOperation(
    'executeTool',
    ['WrappedCall', 'ProtoCall'],
    ['ExecuteEnvelope', 'ProtoEnvelope'],
  ),
  '/execute': callOperation('execute', ['WrappedCall', 'ProtoCall'], ['ExecuteEnvelope', 'ProtoEnvelope']),
  '/calls': {
    get: {
      operationId: 'listCalls',
      summary: 'Your own calls, newest first, without their outcomes.',
      parameters: [
        { name: 'cursor', in: 'query', required: false, schema: text },
        {
          name: 'limit',
          in: 'query',
          required: false,
          schema: { type: 'integer', minimum: 1, maximum: 200, default: 50 },
        },
      ],
      responses: {
        200: json('A page of calls.', schemaRef('CallList')),
        400: serverError('The cursor or the limit cannot be read.'),
        ...UNAUTHENTICATED,
      },
    },
  },
  '/calls/{id}': {
    parameters: [idParameter],
    get: ownCall('readCall', 'State and outcome of one of your own calls.', {
      200: json('The call.', schemaRef('Call'), CALL_HEADERS),
    }),
    delete: ownCall('cancelCall', 'Ask that one of your own calls stops.', {
      200: json('The call had already ended.', schemaRef('Call'), CALL_HEADERS),
      202: json('The stop was asked for.', schemaRef('Call'), CALL_HEADERS),
    }),
  },
  '/challenges/{id}': {
    parameters: [idParameter],
    get: {
      operationId: 'showChallenge',
      security: OPEN,
      responses: {
        200: { description: 'What a person reads.', content: { 'text/html': { schema: text } } },
        302: { description: 'To the sign-in, or to the provider.' },
        502: { description: 'No usable answer from there.', content: { 'text/html': { schema: text } } },
        404: { description: 'No such challenge.', content: { 'text/html': { schema: text } } },
      },
    },
  },
  '/challenges/{id}/status': {
    parameters: [idParameter],
    get: {
      operationId: 'checkChallenge',
      security: OPEN,
      responses: {
        200: json('How the challenge stands.', schemaRef('ChallengeStatus')),
        404: serverError('No such challenge.'),
      },
    },
  },
  '/approvals/{id}': {
    parameters: [idParameter],
    get: {
      operationId: 'showApproval',
      security: OPEN,
      responses: {
        200: { description: 'What a person reads.', content: { 'text/html': { schema: text } } },
        404: { description: 'No such approval.', content: { 'text/html': { schema: text } } },
      },
    },
  },
  '/approvals/{id}/status': {
    parameters: [idParameter],
    get: {
      operationId: 'checkApproval',
      security: OPEN,
      responses: {
        200: json('How the approval stands.', schemaRef('ChallengeStatus')),
        404: serverError('No such approval.'),
      },
    },
  },
  '/uts/health': healthOperation('utsHealth'),
  '/uts/info': {
    get: {
      operationId: 'utsInfo',
      security: OPEN,
      responses: { 200: json('About the server.', schemaRef('Info')) },
    },
  },
  '/uts/tools': listOperation('utsListTools', { type: 'array', items: schemaRef('ToolDefinition') }),
  '/uts/tools/call': callOperation('utsCallTool', ['WrappedCall', 'CallToolRequest'], ['UtsResponse']),
  '/openapi.json': {
    get: {
      operationId: 'openApi',
      security: OPEN,
      responses: { 200: json('This document.', { type: 'object' }) },
    },
  },
} as const
