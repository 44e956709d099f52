import type { JsonObject } from '#core/json'
import type { Binding } from './binding.ts'
import { isJson } from './media-type.ts'
import type { Operation, SuccessResponse } from './operation.ts'
import type { SchemaShelf } from './schema-shelf.ts'

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

export interface ComposedOutput {
  /** `null` = no output, `{}` = any value. */
  readonly schema: JsonObject | null
  readonly accept: string
  readonly response: Binding['response']
}

/** What a success looks like: the body alone, or the body with the headers that lead on. */
export function composeOutput(
  operation: Operation,
  shelf: SchemaShelf,
  output: 'declared' | 'any',
): ComposedOutput {
  const { responses } = operation
  const accept = acceptOf(responses)
  if (operation.method === 'head') return { schema: headSchema(), accept, response: answer(responses, []) }
  const headers = [...new Set(responses.flatMap((response) => response.headers))].filter((name) =>
    LEADING.test(name),
  )
  const uses = new Set<string>()
  const body = bodySchema(responses, shelf, uses)
  const response = answer(responses, headers)
  if (output === 'any' || responses.length === 0) return { schema: {}, accept, response }
  if (headers.length === 0 && body === undefined) return { schema: null, accept, response }
  const schema = headers.length === 0 ? (body ?? {}) : wrapped(body)
  const definitions = shelf.definitions(uses)
  const isAlone = Object.keys(definitions).length === 0
  return { schema: isAlone ? schema : { ...schema, $defs: definitions }, accept, response }
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

/** `undefined` when no success has a body. */
function bodySchema(
  responses: readonly SuccessResponse[],
  shelf: SchemaShelf,
  uses: Set<string>,
): JsonObject | undefined {
  const shapes = new Map<string, JsonObject>()
  for (const { content } of responses) {
    if (content.length === 0) shapes.set('nothing', { type: 'null' })
    for (const { mediaType, schema } of content) {
      const shape = isJsonLike(mediaType) ? shelf.lower(schema, uses) : RAW
      shapes.set(JSON.stringify(shape), shape)
    }
  }
  const all = [...shapes.values()]
  const [only] = all
  if (shapes.has('nothing') && all.length === 1) return undefined
  // Anything at all fits one of them, so anything fits.
  if (all.some((shape) => Object.keys(shape).length === 0)) return {}
  return all.length === 1 ? only : { anyOf: all }
}

function answer(responses: readonly SuccessResponse[], headers: readonly string[]): Binding['response'] {
  const mediaTypes = responses.flatMap(({ content }) => content.map(({ mediaType }) => mediaType))
  return {
    json: mediaTypes.some(isJsonLike),
    raw: mediaTypes.some((mediaType) => !isJsonLike(mediaType)),
    headers: [...headers],
  }
}

function isJsonLike(mediaType: string): boolean {
  return isJson(mediaType) || mediaType.trim() === '*/*'
}

function acceptOf(responses: readonly SuccessResponse[]): string {
  const mediaTypes = new Set(
    responses.flatMap(({ content }) => content.map(({ mediaType }) => mediaType.trim())),
  )
  const sendable = [...mediaTypes].filter((mediaType) => /^[\x21-\x7e ]+$/.test(mediaType))
  // JSON first: a service that has several should send what says most.
  const sorted = sendable.toSorted((left, right) => Number(isJson(right)) - Number(isJson(left)))
  return sorted.length === 0 ? '*/*' : sorted.join(', ')
}
