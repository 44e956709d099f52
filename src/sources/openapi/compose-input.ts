import { shortHash } from '#core/hash'
import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#core/json'
import type { BoundBody, BoundCredential, BoundIdempotency, BoundParameter } from './binding.ts'
import { composeBody } from './compose-body.ts'
import type { Documents } from './documents.ts'
import type { Operation, Parameter } from './operation.ts'
import { HEADER_NAME } from './options.ts'
import type { SchemaShelf } from './schema-shelf.ts'

/** Set by us or by the connection, never by a caller. */
const OURS: ReadonlySet<string> = new Set([
  'accept',
  'authorization',
  'connection',
  'content-length',
  'content-type',
  'cookie',
  'expect',
  'host',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

export interface ComposedInput {
  readonly schema: JsonObject
  readonly parameters: readonly BoundParameter[]
  readonly body: BoundBody | undefined
  readonly idempotency: BoundIdempotency | undefined
}

export interface InputContext {
  readonly documents: Documents
  readonly shelf: SchemaShelf
  readonly credentials: readonly BoundCredential[]
  readonly idempotencyHeader: string
}

/** One object of named parameters, and where each of them goes. */
export function composeInput(operation: Operation, context: InputContext): ComposedInput {
  const { shelf } = context
  const uses = new Set<string>()
  const properties: Record<string, JsonValue> = {}
  const required: string[] = []
  const offered = operation.parameters.filter((parameter) => isOffered(parameter, operation, context))
  const all = [...offered, ...undeclared(operation)]
  const parameters = all.map((parameter) => {
    const property = propertyFor(parameter, all)
    const schema = shelf.lower(parameter.schema, uses)
    setMember(properties, property, describe(schema, parameter.description))
    if (parameter.required) required.push(property)
    return bind(parameter, property, schema, shelf)
  })
  const bodyName = Object.hasOwn(properties, 'body') ? 'request_body' : 'body'
  const body = composeBody(operation, bodyName, { ...context, uses })
  if (body !== undefined) {
    properties[bodyName] = body.schema
    if (body.required) required.push(bodyName)
  }
  const schema = {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  }
  return {
    schema: shelf.complete(schema, uses),
    parameters,
    body: body?.bound,
    idempotency: findIdempotency(operation, context),
  }
}

/** Credentials and what we set ourselves are no business of a model. */
function isOffered(parameter: Parameter, operation: Operation, context: InputContext): boolean {
  const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name
  if (parameter.in === 'path') return operation.path.includes(`{${name}}`)
  if (parameter.in === 'header' && (OURS.has(name) || !HEADER_NAME.test(name))) return false
  if (isIdempotencyKey(parameter, operation, context)) return false
  return !context.credentials.some((credential) => credential.in === parameter.in && credential.name === name)
}

function isIdempotencyKey(
  parameter: Parameter,
  { method }: Operation,
  { idempotencyHeader }: InputContext,
): boolean {
  if (parameter.in !== 'header' || method === 'get' || method === 'head' || method === 'options') return false
  return HEADER_NAME.test(parameter.name) && parameter.name.toLowerCase() === idempotencyHeader.toLowerCase()
}

/** The key's own form, where the document asks for one. */
function findIdempotency(operation: Operation, context: InputContext): BoundIdempotency | undefined {
  const parameter = operation.parameters.find((candidate) => isIdempotencyKey(candidate, operation, context))
  if (parameter === undefined) return undefined
  const schema = context.documents.resolve(parameter.schema)?.value
  const { format, maxLength } = isJsonObject(schema) ? schema : {}
  return {
    header: parameter.name,
    form: format === 'uuid' ? 'uuid' : 'text',
    ...(typeof maxLength === 'number' && Number.isInteger(maxLength) && maxLength > 0 ? { maxLength } : {}),
  }
}

/** Names in the path that nobody declared are texts. */
function undeclared({ path, parameters }: Operation): readonly Parameter[] {
  const names = [...path.matchAll(/\{([^{}]+)\}/g)].map(([, name = '']) => name)
  const known = new Set(parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name))
  return [...new Set(names)]
    .filter((name) => !known.has(name))
    .map((name) => ({
      name,
      in: 'path',
      required: true,
      description: undefined,
      schema: { value: { type: 'string' }, document: '' },
      encoding: { style: 'simple', explode: false, allowReserved: false },
    }))
}

/** Models take letters, digits, `_`, `.` and `-` in names; two parameters of one name are told apart by their place. */
function propertyFor(parameter: Parameter, all: readonly Parameter[]): string {
  const plain = plainName(parameter.name)
  const rivals = all.filter((other) => other !== parameter && plainName(other.name) === plain)
  if (rivals.length === 0) return plain
  const placed = `${parameter.in}_${plain}`.slice(0, 64)
  const isUnique =
    rivals.every((other) => other.in !== parameter.in) &&
    !all.some((other) => plainName(other.name) === placed)
  return isUnique ? placed : `${placed.slice(0, 55)}_${shortHash(`${parameter.in} ${parameter.name}`)}`
}

function plainName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').replaceAll(/^_+|_+$/g, '') || 'parameter'
  return plain.length <= 64 ? plain : `${plain.slice(0, 55)}_${shortHash(name)}`
}

function describe(schema: JsonObject, description: string | undefined): JsonObject {
  return description === undefined ? schema : { ...schema, description }
}

function bind(
  parameter: Parameter,
  property: string,
  schema: JsonObject,
  shelf: SchemaShelf,
): BoundParameter {
  const { style, explode, allowReserved, mediaType } = parameter.encoding
  const { type } = shelf.followed(schema)
  return {
    property,
    name: parameter.name,
    in: parameter.in,
    style,
    explode,
    allowReserved,
    ...(mediaType === undefined ? {} : { mediaType }),
    isNumber: type === 'integer' || type === 'number',
  }
}
