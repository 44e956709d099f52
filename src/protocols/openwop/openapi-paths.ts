import { json, pathParameter, queryParameter, refusal, text, UNAUTHENTICATED } from './openapi-parts.ts'
import { schemaRef } from './openapi-schemas.ts'
import type { OpenwopSettings } from './options.ts'
import { SOURCE_KINDS } from './wire.ts'

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
