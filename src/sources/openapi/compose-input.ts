import { shortHash } from '#kernel/base/hash'
import { defined, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import type { BoundBody, BoundField, BoundIdempotency, BoundParameter } from './binding.ts'
import { type DocumentNode, type Documents, entriesIn, memberOf, textsOf } from './documents.ts'
import {
  type BodyForm,
  concrete,
  essenceOf,
  formOf,
  isReading,
  type Operation,
  type Parameter,
  type RequestBody,
} from './operation.ts'
import { HEADER_NAME } from './options.ts'
import type { SchemaDefinitions } from './schemas.ts'
import { placeKey } from './security.ts'

/**
 * Composes the input schema of a tool from the parameters and the body of an operation, for `offer-tool.ts`. Invariant: a
 * model never sees a parameter that contains a credential.
 */

/** Headers that this server or the HTTP client sets, so that no caller can. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
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

export interface InputContext {
  readonly documents: Documents
  readonly definitions: SchemaDefinitions
  /** The `placeKey` of every parameter in the document that contains a credential. */
  readonly credentialPlaces: ReadonlySet<string>
  readonly idempotencyHeader: string
}

/** Composes one object schema from the parameters and the body, and records where each of them is sent. */
export function composeInput(operation: Operation, context: InputContext) {
  const { definitions } = context
  const uses = new Set<string>()
  const properties: Record<string, JsonValue> = {}
  const required: string[] = []
  const offered = operation.parameters.filter((parameter) => isOffered(parameter, operation, context))
  const all = [...offered, ...undeclared(operation)]
  const parameters = all.map((parameter): BoundParameter => {
    const { name, in: place, encoding, description } = parameter
    const property = propertyFor(parameter, all)
    const schema = definitions.lower(parameter.schema, uses)
    setMember(properties, property, { ...schema, ...defined({ description }) })
    if (parameter.required) required.push(property)
    const { type } = definitions.followed(schema)
    return { ...encoding, property, name, in: place, isNumber: type === 'integer' || type === 'number' }
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
    schema: definitions.complete(schema, uses),
    parameters,
    body: body?.bound,
    idempotency: findIdempotency(operation, context),
  }
}

/** True if a model fills in the parameter: it contains no credential and is not a header that this server sets. */
function isOffered(parameter: Parameter, operation: Operation, context: InputContext): boolean {
  const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name
  if (parameter.in === 'path') return operation.path.includes(`{${name}}`)
  if (parameter.in === 'header' && (OWN_HEADERS.has(name) || !HEADER_NAME.test(name))) return false
  if (isIdempotencyKey(parameter, operation, context.idempotencyHeader)) return false
  return !context.credentialPlaces.has(placeKey(parameter))
}

function isIdempotencyKey({ in: place, name }: Parameter, { method }: Operation, header: string): boolean {
  if (place !== 'header' || isReading(method)) return false
  return HEADER_NAME.test(name) && name.toLowerCase() === header.toLowerCase()
}

/** The header and format of the idempotency key, if the document declares one. */
function findIdempotency(
  operation: Operation,
  { documents, idempotencyHeader }: InputContext,
): BoundIdempotency | undefined {
  const parameter = operation.parameters.find((declared) =>
    isIdempotencyKey(declared, operation, idempotencyHeader),
  )
  if (parameter === undefined) return undefined
  const schema = documents.resolve(parameter.schema)?.value
  const { format, maxLength } = isJsonObject(schema) ? schema : {}
  return {
    header: parameter.name,
    form: format === 'uuid' ? 'uuid' : 'text',
    ...(typeof maxLength === 'number' && Number.isInteger(maxLength) && maxLength > 0 ? { maxLength } : {}),
  }
}

/** Parameters in the path that the document does not declare; they are strings. */
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

/** The name in the input. Models accept letters, digits, `_`, `.` and `-`; names that are then equal get `in` as a prefix. */
function propertyFor(parameter: Parameter, all: readonly Parameter[]): string {
  const plain = plainName(parameter.name)
  const others = all.filter((other) => other !== parameter && plainName(other.name) === plain)
  if (others.length === 0) return plain
  const placed = `${parameter.in}_${plain}`.slice(0, 64)
  const isUnique =
    others.every((other) => other.in !== parameter.in) &&
    !all.some((other) => plainName(other.name) === placed)
  return isUnique ? placed : `${placed.slice(0, 55)}_${shortHash(`${parameter.in} ${parameter.name}`)}`
}

function plainName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').replaceAll(/^_+|_+$/g, '') || 'parameter'
  return plain.length <= 64 ? plain : `${plain.slice(0, 55)}_${shortHash(name)}`
}

/** A body has no defined meaning for these methods (RFC 9110 §9.3.1), and `fetch` sends none. */
export function isBodyless(method: Operation['method']): boolean {
  return method === 'get' || method === 'head'
}

/** The input schema of a file inside a form. */
const FILE: JsonObject = {
  type: 'object',
  description: 'A file.',
  properties: {
    base64: { type: 'string', contentEncoding: 'base64', description: 'The contents in base64.' },
    filename: { type: 'string', description: 'The name of the file.' },
    mediaType: { type: 'string', description: 'The media type of the file, for example image/png.' },
  },
  required: ['base64'],
  additionalProperties: false,
}

interface BodyContext extends Pick<InputContext, 'documents' | 'definitions'> {
  readonly uses: Set<string>
}

function composeBody({ method, body }: Operation, property: string, context: BodyContext) {
  if (body === undefined || isBodyless(method)) return undefined
  const mediaType = bodyMediaType(body, context)
  const form = formOf(mediaType)
  const fields = form === 'multipart' || form === 'urlencoded' ? fieldsOf(body, context.documents) : new Map()
  const schema = SCHEMAS[form](body, fields, context)
  const bound: BoundBody = { property, mediaType, form, fields: bindFields(body, fields, context.documents) }
  const { description: own } = context.definitions.followed(schema)
  const text = typeof own === 'string' ? own : `The body of the request (${mediaType}).`
  const isRaw = form === 'text' || form === 'binary'
  const description =
    isRaw && body.description ? `${body.description}\n\n${text}` : (body.description ?? text)
  return { schema: { ...schema, description }, required: body.required, bound }
}

/** The media type of the body. A binary body described as an object or a list is sent as JSON, as Docker's document needs. */
function bodyMediaType({ mediaType, schema }: RequestBody, { definitions }: BodyContext): string {
  if (essenceOf(mediaType) !== 'application/octet-stream') return concrete(mediaType)
  const { type, properties } = definitions.followed(definitions.lower(schema, new Set()))
  return type === 'object' || type === 'array' || properties !== undefined ? 'application/json' : mediaType
}

type Fields = ReadonlyMap<string, DocumentNode>

const SCHEMAS = {
  json: ({ schema }, _fields, { definitions, uses }) => definitions.lower(schema, uses),
  text: ({ mediaType }) => ({ type: 'string', description: `The body as text (${mediaType}).` }),
  binary: ({ mediaType }) => ({
    type: 'string',
    contentEncoding: 'base64',
    description: `The body in base64 (${mediaType}).`,
  }),
  urlencoded: formSchema,
  multipart: formSchema,
} as const satisfies Record<BodyForm, (body: RequestBody, fields: Fields, context: BodyContext) => JsonObject>

/** The declared schema of a form, with files as objects. */
function formSchema(
  { schema, mediaType }: RequestBody,
  fields: Fields,
  { definitions, uses, documents }: BodyContext,
): JsonObject {
  const files = [...fields].filter(([, field]) => isFile(field, documents))
  if (files.length === 0) {
    const lowered = definitions.lower(schema, uses)
    return lowered.$ref !== undefined || lowered.type !== undefined ? lowered : { type: 'object', ...lowered }
  }
  const properties: Record<string, JsonValue> = {}
  for (const [name, field] of fields) {
    const member = isFile(field, documents) ? fileSchema(field, documents) : definitions.lower(field, uses)
    setMember(properties, name, member)
  }
  const required = documents
    .allParts(schema)
    .flatMap((part) => textsOf(memberOf(part, 'required')?.value))
    .filter((name) => Object.hasOwn(properties, name))
  return {
    type: 'object',
    description: `A form (${mediaType}).`,
    properties,
    ...(required.length === 0 ? {} : { required: [...new Set(required)] }),
  }
}

function fileSchema(field: DocumentNode, documents: Documents): JsonObject {
  const target = documents.resolve(field)
  const isList = target !== undefined && memberOf(target, 'items') !== undefined
  const description = memberOf(field, 'description')?.value
  return {
    ...(isList ? { type: 'array', items: FILE } : FILE),
    ...(typeof description === 'string' ? { description } : {}),
  }
}

/** The fields of a form, including those declared in `allOf`. */
function fieldsOf({ schema }: RequestBody, documents: Documents): Fields {
  const fields = documents.allParts(schema).flatMap((part) => entriesIn(part, 'properties'))
  return new Map(
    fields.filter(([name, field]) => name !== '__proto__' && memberOf(field, 'readOnly')?.value !== true),
  )
}

/** A file has `format: binary` in 3.0, `type: file` in 2.0, and a media type that is neither text nor JSON in 3.1. */
function isFile(field: DocumentNode, documents: Documents): boolean {
  const target = documents.resolve(field)
  if (target === undefined || !isJsonObject(target.value)) return false
  const { type, format, contentMediaType, contentEncoding } = target.value
  if (type === 'file' || format === 'binary') return true
  const isPlain = typeof contentMediaType === 'string' && contentEncoding === undefined
  if (isPlain && formOf(contentMediaType) === 'binary') return true
  const items = memberOf(target, 'items')
  return items !== undefined && isFile(items, documents)
}

/** The fields whose encoding differs from the default, and files. */
function bindFields(body: RequestBody, fields: Fields, documents: Documents): Record<string, BoundField> {
  const bound: Record<string, BoundField> = {}
  for (const name of new Set([...fields.keys(), ...body.fields.keys()])) {
    const field = fields.get(name)
    const encoding = body.fields.get(name) ?? {}
    const file = field !== undefined && isFile(field, documents)
    if (file || Object.keys(encoding).length > 0) setMember(bound, name, { file, encoding })
  }
  return bound
}
