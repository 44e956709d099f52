import { schemaRef } from './openapi-schemas.ts'
import type { OpenwopSettings } from './routes.ts'
import { SOURCE_KINDS } from './wire.ts'

const text = { type: 'string' } as const

/** Pieces that several paths of the OpenAPI document share. */
function json(description: string, schema: object) {
  return { description, content: { 'application/json': { schema } } }
}

const refusal = (description: string) => json(description, schemaRef('Error'))

const UNAUTHENTICATED = { 401: refusal('The credential is missing or invalid.') }

function queryParameter(name: string, schema: object, description: string) {
  return { name, in: 'query', required: false, schema, description }
}

/** Takes a request once, however often it is sent (OWP-92). */
const KEYED = {
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
const keyRefusal = (others = '') => ({
  409: refusal(
    `${others}The key was used for another request (idempotency_key_mismatch), or the same one is being answered (idempotency_in_flight).`,
  ),
})

function pathParameter(name: string, description: string) {
  return { name, in: 'path', required: true, schema: text, description }
}

const OPEN: readonly object[] = [{}]
const etag = { description: 'Strong; send it back as If-None-Match.', schema: text } as const

function cached(description: string, schema: object) {
  return {
    200: { ...json(description, schema), headers: { etag } },
    304: { description: 'Nothing has changed.' },
  }
}

const viewParameter = queryParameter(
  'view',
  { enum: ['standard', 'compact'], default: 'standard' },
  'What a model needs, or everything.',
)

/** The catalog's two routes. Without `compactView` the parameter does not exist (OWP-26). */
export function catalogPaths({ capabilities: { compactView } }: OpenwopSettings) {
  const views = compactView ? [viewParameter] : []
  const standard = schemaRef('ToolDescriptor')
  const compact = schemaRef('CompactToolDescriptor')
  const wrapped = (item: object) => ({
    type: 'object',
    additionalProperties: false,
    required: ['tools'],
    properties: { tools: { type: 'array', items: item } },
  })
  return {
    '/v1/tools': {
      get: {
        operationId: 'listTools',
        summary: 'Every tool the caller may use, sorted by toolId.',
        parameters: [
          queryParameter('source', { enum: SOURCE_KINDS }, 'Only tools of this source.'),
          ...views,
          queryParameter('envelope', { const: '1' }, 'Wraps the standard view in an object.'),
        ],
        responses: {
          ...cached('The catalog.', {
            anyOf: [
              { type: 'array', items: standard },
              wrapped(standard),
              ...(compactView ? [wrapped(compact)] : []),
            ],
          }),
          400: refusal('The source is not one of the known ones.'),
          ...UNAUTHENTICATED,
        },
      },
    },
    '/v1/tools/{toolId}': {
      parameters: [pathParameter('toolId', 'Percent-encoded.')],
      get: {
        operationId: 'getTool',
        summary: 'The newest version of one tool.',
        parameters: views,
        responses: {
          ...cached('The tool.', compactView ? { anyOf: [standard, compact] } : standard),
          400: refusal('The percent-encoding is malformed.'),
          ...UNAUTHENTICATED,
          404: refusal('There is no such tool, or the caller may not see it.'),
        },
      },
    },
  }
}

export const DOCUMENT_PATHS = {
  '/.well-known/openwop': {
    get: {
      operationId: 'discover',
      security: OPEN,
      responses: cached('What this server offers.', schemaRef('Discovery')),
    },
  },
  '/v1/openapi.json': {
    get: {
      operationId: 'openApi',
      security: OPEN,
      responses: cached('This document.', { type: 'object' }),
    },
  },
  '/v1/schemas': {
    get: {
      operationId: 'listSchemas',
      security: OPEN,
      responses: cached('Where the JSON Schemas of these documents are.', {
        type: 'object',
        required: ['schemas'],
        properties: { schemas: { type: 'array', items: text } },
      }),
    },
  },
  '/v1/schemas/{name}': {
    get: {
      operationId: 'getSchema',
      security: OPEN,
      parameters: [pathParameter('name', 'Such as tool-descriptor.schema.json.')],
      responses: {
        ...cached('A JSON Schema that stands by itself.', { type: 'object' }),
        404: refusal('There is no such schema.'),
      },
    },
  },
} as const

const sequence = { type: 'integer', minimum: -1 } as const
const runId = [pathParameter('runId', 'What `Collet-Run` says of a call, percent-encoded.')]
const NO_SUCH_RUN = { 404: refusal('The caller has no such run.') }
const NO_PLACE = {
  429: refusal('The caller holds as many streams and polls open as it may.'),
  503: refusal('The server holds as many as it can, or shuts down.'),
}
const lastSequence = queryParameter('lastSequence', sequence, 'The last event the reader has; -1 for none.')

/** A principal's own runs (OWP-48, OWP-98). */
export const RUN_PATHS = {
  '/v1/runs/{runId}/events': {
    parameters: runId,
    get: {
      operationId: 'followRun',
      summary: 'The events of a run as they happen, until it is over.',
      parameters: [
        {
          name: 'last-event-id',
          in: 'header',
          required: false,
          schema: sequence,
          description: 'Resume after this event.',
        },
        lastSequence,
      ],
      responses: {
        200: {
          description: 'Server-sent events: `id` is the sequence, `event` the type, `data` a RunEvent.',
          content: { 'text/event-stream': { schema: text } },
        },
        400: refusal('The place to resume from is no sequence.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...NO_PLACE,
      },
    },
  },
  '/v1/runs/{runId}/events/poll': {
    parameters: runId,
    get: {
      operationId: 'pollRun',
      summary: 'The next events of a run, waiting for some if asked.',
      parameters: [
        lastSequence,
        queryParameter('timeout', { type: 'integer', minimum: 1, maximum: 60 }, 'Seconds to wait.'),
      ],
      responses: {
        200: json('What is there; `isComplete` when nothing will follow.', schemaRef('RunEvents')),
        400: refusal('A parameter is no number, or out of bounds.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...NO_PLACE,
      },
    },
  },
  '/v1/runs/{runId}': {
    parameters: runId,
    delete: {
      operationId: 'endRun',
      summary: 'Close the sessions of a run and let nothing new begin in it.',
      ...KEYED,
      responses: {
        204: { description: 'It has ended.' },
        400: refusal('The key of the request is none.'),
        ...UNAUTHENTICATED,
        ...NO_SUCH_RUN,
        ...keyRefusal(),
        503: refusal('The server cannot note the key at the moment.'),
      },
    },
  },
} as const

/** State of a tool across calls (rule 30). */
export const SESSION_PATHS = {
  '/v1/sessions': {
    post: {
      operationId: 'openSession',
      summary: 'Keep state of a tool; calls name the session in `Collet-Session`.',
      ...KEYED,
      requestBody: {
        required: true,
        content: { 'application/json': { schema: schemaRef('SessionRequest') } },
      },
      responses: {
        201: json('The session, and the run it belongs to.', schemaRef('Session')),
        400: refusal('The body is wrong, the tool keeps no state, or the run has ended.'),
        ...UNAUTHENTICATED,
        403: refusal('The caller may not act for that user.'),
        404: refusal('There is no such tool, or the caller may not see it.'),
        ...keyRefusal(),
        413: refusal('The body is larger than the server reads.'),
        422: refusal('The tool could not open its state.'),
        429: refusal('The caller has too many open sessions.'),
        503: refusal('The server takes nothing new at the moment.'),
      },
    },
  },
  '/v1/sessions/{sessionId}': {
    parameters: [pathParameter('sessionId', 'As `POST /v1/sessions` gave it.')],
    delete: {
      operationId: 'closeSession',
      summary: 'Cancel what runs in a session and let its state go.',
      ...KEYED,
      responses: {
        204: { description: 'It is closed.' },
        400: refusal('The key of the request is none.'),
        ...UNAUTHENTICATED,
        404: refusal('The caller has no such session, or it has ended.'),
        ...keyRefusal(),
        503: refusal('The server cannot note the key at the moment.'),
      },
    },
  },
} as const

const place = [
  pathParameter('runId', 'The run, percent-encoded.'),
  pathParameter('nodeId', 'The `nodeId` of `interrupt.requested`.'),
]
const token = [pathParameter('token', 'As it was minted for one approver.')]
const body = { required: true, content: { 'application/json': { schema: schemaRef('Resume') } } }
const shown = json('The question, and what the call is about.', schemaRef('Interrupt'))
const refused = {
  403: refusal('The approver lacks a scope, or wants to approve its own call.'),
  404: refusal('There is no such interrupt in the tenant of the approver.'),
}
const decided = {
  200: json('The decision counts.', schemaRef('Resumed')),
  400: refusal('The resume value is wrong (INVALID_RESUME_VALUE), or the key of the request is none.'),
  ...keyRefusal('Somebody decided before (interrupt_already_resolved). '),
  410: refusal('Its time is over (interrupt_expired).'),
  413: refusal('The body is larger than the server reads.'),
  503: refusal('The server cannot note the key at the moment.'),
}

/** Calls of others that wait for a yes (OWP-66 to OWP-68). */
export const INTERRUPT_PATHS = {
  '/v1/runs/{runId}/interrupts/{nodeId}': {
    parameters: place,
    get: {
      operationId: 'showInterrupt',
      summary: 'What an approver is asked; needs the scope approvals:respond.',
      responses: { 200: shown, ...UNAUTHENTICATED, ...refused },
    },
    post: {
      operationId: 'resolveInterrupt',
      summary: 'Say yes or no; needs the scope approvals:respond.',
      ...KEYED,
      requestBody: body,
      responses: {
        ...decided,
        ...UNAUTHENTICATED,
        ...refused,
        422: refusal('The call was cancelled (interrupt_cancelled).'),
      },
    },
  },
  '/v1/interrupts/{token}': {
    parameters: token,
    get: {
      operationId: 'showInterruptByToken',
      summary: 'The same for whoever holds a signed link.',
      responses: { 200: shown, 404: refused[404], 410: decided[410] },
    },
    post: {
      operationId: 'resolveInterruptByToken',
      summary: 'Say yes or no with a signed link.',
      ...KEYED,
      requestBody: body,
      responses: { ...decided, ...refused },
    },
  },
} as const
