import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#core/json'
import type { BoundBody, BoundField } from './binding.ts'
import type { Documents } from './documents.ts'
import { entriesOf, itemsOf, type Located, memberOf } from './located.ts'
import { type BodyForm, concrete, formOf } from './media-type.ts'
import type { Operation, RequestBody } from './operation.ts'
import type { SchemaShelf } from './schema-shelf.ts'

const DEEPEST = 10
const METHODS_WITHOUT_BODY: ReadonlySet<string> = new Set(['get', 'head'])

/** A file inside a form: services want to know its name. */
const FILE: JsonObject = {
  type: 'object',
  description: 'A file.',
  properties: {
    base64: { type: 'string', contentEncoding: 'base64', description: 'The contents in base64.' },
    filename: { type: 'string', description: 'Its name.' },
    mediaType: { type: 'string', description: 'Its media type, such as image/png.' },
  },
  required: ['base64'],
  additionalProperties: false,
}

export interface BodyContext {
  readonly documents: Documents
  readonly shelf: SchemaShelf
  readonly uses: Set<string>
}

export interface ComposedBody {
  readonly schema: JsonObject
  readonly required: boolean
  readonly bound: BoundBody
}

/** The body as one parameter. */
export function composeBody(
  { method, body }: Operation,
  property: string,
  context: BodyContext,
): ComposedBody | undefined {
  if (body === undefined || METHODS_WITHOUT_BODY.has(method)) return undefined
  const mediaType = concrete(body.mediaType)
  const form = formOf(mediaType)
  const fields = form === 'multipart' || form === 'urlencoded' ? fieldsOf(body, context.documents) : new Map()
  const schema = SCHEMAS[form](body, fields, context)
  return {
    schema: { ...schema, description: describe(body, schema, context.shelf) },
    required: body.required,
    bound: { property, mediaType, form, fields: bindFields(body, fields, context.documents) },
  }
}

/** What the document says of it; how bytes and texts are written in any case. */
function describe({ description, mediaType }: RequestBody, schema: JsonObject, shelf: SchemaShelf): string {
  const { description: own } = shelf.followed(schema)
  const form = formOf(mediaType)
  const said = typeof own === 'string' ? own : `The body of the request (${mediaType}).`
  if (description === undefined) return said
  return form === 'text' || form === 'binary' ? `${description}\n\n${said}` : description
}

type Fields = ReadonlyMap<string, Located>

const SCHEMAS = {
  json: ({ schema }, _fields, { shelf, uses }) => shelf.lower(schema, uses),
  text: ({ mediaType }) => ({ type: 'string', description: `The body as text (${mediaType}).` }),
  binary: ({ mediaType }) => ({
    type: 'string',
    contentEncoding: 'base64',
    description: `The body in base64 (${mediaType}).`,
  }),
  urlencoded: formSchema,
  multipart: formSchema,
} as const satisfies Record<BodyForm, (body: RequestBody, fields: Fields, context: BodyContext) => JsonObject>

/** Like the declared one, except that files can be given. */
function formSchema(
  { schema, mediaType }: RequestBody,
  fields: Fields,
  { shelf, uses, documents }: BodyContext,
): JsonObject {
  const files = [...fields].filter(([, field]) => isFile(field, documents))
  if (files.length === 0) {
    const lowered = shelf.lower(schema, uses)
    return lowered.$ref !== undefined || lowered.type !== undefined ? lowered : { type: 'object', ...lowered }
  }
  const properties: Record<string, JsonValue> = {}
  for (const [name, field] of fields) {
    const description = isJsonObject(field.value) ? field.value.description : undefined
    const own = typeof description === 'string' ? { description } : {}
    setMember(
      properties,
      name,
      isFile(field, documents) ? fileSchema(field, documents, own) : shelf.lower(field, uses),
    )
  }
  const required = requiredFields(schema, documents).filter((name) => Object.hasOwn(properties, name))
  return {
    type: 'object',
    description: `A form (${mediaType}).`,
    properties,
    ...(required.length === 0 ? {} : { required: [...new Set(required)] }),
  }
}

function fileSchema(field: Located, documents: Documents, own: JsonObject): JsonObject {
  return isList(field, documents) ? { type: 'array', items: FILE, ...own } : { ...FILE, ...own }
}

/** The members of a form, also where `allOf` declares them. */
function fieldsOf({ schema }: RequestBody, documents: Documents): Fields {
  const fields = new Map<string, Located>()
  for (const target of partsOf(schema, documents)) {
    for (const [name, value] of entriesOf(memberOf(target, 'properties')?.value)) {
      if (name !== '__proto__' && !(isJsonObject(value) && value.readOnly === true))
        fields.set(name, { value, document: target.document })
    }
  }
  return fields
}

function requiredFields(schema: Located | undefined, documents: Documents): readonly string[] {
  return partsOf(schema, documents).flatMap((target) =>
    itemsOf(memberOf(target, 'required')?.value).filter((name) => typeof name === 'string'),
  )
}

/** A schema after all that its `allOf` names, each once: a document may name one many times over. */
function partsOf(
  schema: Located | undefined,
  documents: Documents,
  seen = new Set<JsonValue>(),
  depth = 0,
): readonly Located[] {
  const target = documents.resolve(schema)
  if (target === undefined || depth > DEEPEST || seen.has(target.value)) return []
  seen.add(target.value)
  const { document } = target
  const parts = itemsOf(memberOf(target, 'allOf')?.value)
  return [...parts.flatMap((value) => partsOf({ value, document }, documents, seen, depth + 1)), target]
}

function isList(field: Located, documents: Documents): boolean {
  const target = documents.resolve(field)
  return target !== undefined && memberOf(target, 'items') !== undefined
}

/** 3.0 says `format: binary`, 2.0 `type: file`, 3.1 a media type that is no text and no JSON. */
function isFile(field: Located, documents: Documents): boolean {
  const target = documents.resolve(field)
  if (target === undefined || !isJsonObject(target.value)) return false
  const { type, format, contentMediaType, contentEncoding } = target.value
  if (type === 'file' || format === 'binary') return true
  if (
    typeof contentMediaType === 'string' &&
    contentEncoding === undefined &&
    formOf(contentMediaType) === 'binary'
  )
    return true
  const items = memberOf(target, 'items')
  return items !== undefined && isFile(items, documents)
}

/** Only fields that differ from the usual. */
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
