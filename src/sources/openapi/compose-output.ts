import type { JsonObject } from '#core/json'
import type { Binding } from './binding.ts'
import { isJson, type Operation, type SuccessResponse } from './operation.ts'
import type { SchemaDefinitions } from './schemas.ts'

/** Headers that lead on: to the next page, the number of all, or the thing that was made. */
const LEADING =
  /^(link|location|content-range|x-(next|prev|previous|total|page|per-page|cursor|continuation)(-[a-z-]+)?)$/

const RAW: JsonObject = {
  type: 'object',
  description: 'An answer that is not JSON: text, or base64 where it is binary.',
  properties: { mediaType: { type: 'string' }, text: { type: 'string' }, base64: { type: 'string' } },
  required: ['mediaType'],
}

const HEADERS: JsonObject = {
  type: 'object',
  description: 'Headers of the answer.',
  additionalProperties: { type: 'string' },
}

const NEXT: JsonObject = {
  type: 'object',
  description: 'Members to put into the input for the next page; absent on the last one.',
}

interface ComposedOutput {
  /** `null` = no output, `{}` = any value. */
  readonly schema: JsonObject | null
  readonly accept: string
  readonly response: Binding['response']
}

/** What a success looks like: the body alone, or the body with the headers that lead on. */
export function composeOutput(
  operation: Operation,
  shelf: SchemaDefinitions,
  output: 'declared' | 'any',
): ComposedOutput {
  const { responses, method } = operation
  const accept = acceptOf(responses)
  const headers = [...new Set(responses.flatMap((response) => response.headers))].filter((name) =>
    LEADING.test(name),
  )
  const uses = new Set<string>()
  const shapes = shapesOf(responses, shelf, uses)
  const response = {
    json: shapes.some(({ form }) => form === 'json'),
    raw: output === 'any' || shapes.some(({ form }) => form === 'raw'),
    headers: method === 'head' ? [] : headers,
  }
  if (method === 'head') return { schema: headSchema(), accept, response }
  if (output === 'any' || responses.length === 0) return { schema: {}, accept, response }
  const body = bodySchema(shapes)
  if (headers.length === 0 && body === undefined) return { schema: null, accept, response }
  const schema = headers.length === 0 ? (body ?? {}) : wrapped(body)
  return { schema: shelf.complete(schema, uses), accept, response }
}

function wrapped(body: JsonObject | undefined): JsonObject {
  return {
    type: 'object',
    properties: { body: body ?? { type: 'null' }, headers: HEADERS, next: NEXT },
    required: ['body', 'headers'],
  }
}

function headSchema(): JsonObject {
  return {
    type: 'object',
    properties: { status: { type: 'integer' }, headers: HEADERS },
    required: ['status', 'headers'],
  }
}

interface Shape {
  readonly form: 'json' | 'raw' | 'nothing'
  readonly schema: JsonObject
}

/** Every way a success may look. */
function shapesOf(
  responses: readonly SuccessResponse[],
  shelf: SchemaDefinitions,
  uses: Set<string>,
): readonly Shape[] {
  return responses.flatMap(({ content }): readonly Shape[] => {
    if (content.length === 0) return [{ form: 'nothing', schema: { type: 'null' } }]
    return content.flatMap(({ mediaType, schema: declared }): readonly Shape[] => {
      const isOpen = mediaType.trim() === '*/*'
      if (!isJson(mediaType) && !isOpen) return [{ form: 'raw', schema: RAW }]
      const schema = shelf.lower(declared, uses)
      // Whoever declares any media type means JSON, unless the value is a text or nothing is said of it.
      const { type } = shelf.followed(schema)
      const mayBeText = isOpen && (type === undefined || type === 'string')
      return [{ form: 'json', schema }, ...(mayBeText ? [{ form: 'raw', schema: RAW } as const] : [])]
    })
  })
}

/** `undefined` when no success has a body. */
function bodySchema(shapes: readonly Shape[]): JsonObject | undefined {
  if (shapes.every(({ form }) => form === 'nothing')) return undefined
  const distinct = new Map(shapes.map(({ schema }) => [JSON.stringify(schema), schema]))
  const all = [...distinct.values()]
  // Anything at all fits one of them, so anything fits.
  if (all.some((schema) => Object.keys(schema).length === 0)) return {}
  return all.length === 1 ? all[0] : { anyOf: all }
}

function acceptOf(responses: readonly SuccessResponse[]): string {
  const mediaTypes = new Set(
    responses.flatMap(({ content }) => content.map(({ mediaType }) => mediaType.trim())),
  )
  const sendable = [...mediaTypes].filter((mediaType) => /^[\x21-\x7e ]+$/.test(mediaType))
  if (sendable.length === 0) return '*/*'
  // A service that has several should send what says most.
  const wanted = sendable.filter(isJson)
  const others = sendable.filter((mediaType) => !isJson(mediaType))
  return [...wanted, ...others.map((other) => (wanted.length === 0 ? other : `${other};q=0.5`))].join(', ')
}
