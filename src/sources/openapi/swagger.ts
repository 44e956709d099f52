import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import {
  type DocumentNode,
  type Documents,
  itemsOf,
  type LocatedObject,
  memberOf,
  textOf,
} from './documents.ts'
import {
  type Encoding,
  type Operation,
  type OperationNode,
  type Parameter,
  preferred,
  type RequestBody,
  type Style,
} from './operation.ts'
import {
  commonParts,
  declaredParameters,
  describeParameter,
  isParameterIn,
  readResponses,
} from './read-operation.ts'

const FORMS = ['multipart/form-data', 'application/x-www-form-urlencoded']

/** `collectionFormat` as style and explode. */
const COLLECTIONS: ReadonlyMap<JsonValue | undefined, { readonly style: Style; readonly explode: boolean }> =
  new Map([
    ['csv', { style: 'form', explode: false }],
    ['ssv', { style: 'spaceDelimited', explode: false }],
    ['tsv', { style: 'tabDelimited', explode: false }],
    ['pipes', { style: 'pipeDelimited', explode: false }],
    ['multi', { style: 'form', explode: true }],
  ])

/** Reads one operation of Swagger 2.0 into the same parts. */
export function readSwaggerOperation(documents: Documents, place: OperationNode): Operation {
  const { operation } = place
  const declared = declaredParameters(documents, place)
  const { root } = documents
  const consumes = mediaTypes(memberOf(operation, 'consumes') ?? memberOf(root, 'consumes'))
  const produces = mediaTypes(memberOf(operation, 'produces') ?? memberOf(root, 'produces'))
  return {
    ...commonParts(documents, place),
    parameters: declared.flatMap(readParameter),
    body: readBody(declared, consumes),
    responses: readResponses(documents, operation, (response) => {
      const schema = memberOf(response, 'schema')
      if (schema === undefined) return []
      return (produces.length === 0 ? ['application/json'] : produces).map((mediaType) => ({
        mediaType,
        schema,
      }))
    }),
    servers: [{ value: serverOf(place, root), document: root.document }],
  }
}

function mediaTypes(written: DocumentNode | undefined): readonly string[] {
  return itemsOf(written?.value).filter((mediaType) => typeof mediaType === 'string')
}

function readParameter(parameter: LocatedObject): readonly Parameter[] {
  const { name, in: where, required } = parameter.value
  if (typeof name !== 'string' || !isParameterIn(where)) return []
  const encoding = collectionEncoding(parameter.value)
  return [
    {
      name,
      in: where,
      required: required === true || where === 'path',
      description: describeParameter(parameter),
      schema: { value: schemaOf(parameter.value), document: parameter.document },
      encoding:
        where === 'path' || where === 'header' ? { ...encoding, style: simpleFor(encoding.style) } : encoding,
    },
  ]
}

/** Paths and headers separate by commas unless another character is named. */
function simpleFor(style: Style): Style {
  return style === 'form' ? 'simple' : style
}

function collectionEncoding({ collectionFormat }: JsonObject): Encoding {
  return { ...(COLLECTIONS.get(collectionFormat) ?? { style: 'form', explode: false }), allowReserved: false }
}

/** A parameter of 2.0 is its own schema; its other members mean something else there. */
function schemaOf({
  name,
  in: _in,
  required,
  description,
  collectionFormat,
  ...schema
}: JsonObject): JsonObject {
  return schema
}

function readBody(declared: readonly LocatedObject[], consumes: readonly string[]): RequestBody | undefined {
  const body = declared.find(({ value }) => value.in === 'body')
  if (body !== undefined) {
    return {
      description: textOf(body.value.description),
      required: body.value.required === true,
      mediaType: preferred(consumes, (mediaType) => mediaType) ?? 'application/json',
      schema: memberOf(body, 'schema'),
      fields: new Map(),
    }
  }
  const fields = declared.filter(({ value }) => value.in === 'formData')
  const [first] = fields
  return first === undefined ? undefined : readForm(fields, consumes, first.document)
}

function readForm(
  fields: readonly LocatedObject[],
  consumes: readonly string[],
  document: string,
): RequestBody {
  const hasFile = fields.some(({ value }) => value.type === 'file')
  const named = fields.flatMap(({ value }) =>
    typeof value.name === 'string' ? [{ name: value.name, value }] : [],
  )
  const form = consumes.find((mediaType) => FORMS.includes(mediaType)) ?? 'application/x-www-form-urlencoded'
  const schema: JsonObject = {
    type: 'object',
    properties: Object.fromEntries(
      named.map(({ name, value }) => [
        name,
        { ...schemaOf(value), ...(isJsonText(value.description) ? { description: value.description } : {}) },
      ]),
    ),
    required: named.filter(({ value }) => value.required === true).map(({ name }) => name),
  }
  return {
    description: undefined,
    required: named.some(({ value }) => value.required === true),
    mediaType: hasFile ? 'multipart/form-data' : form,
    schema: { value: schema, document },
    fields: new Map(
      named
        .filter(({ value }) => value.type === 'array')
        .map(({ name, value }) => [name, collectionEncoding(value)] as const),
    ),
  }
}

function isJsonText(value: JsonValue | undefined): value is string {
  return typeof value === 'string'
}

/** `schemes`, `host` and `basePath`, each taken from the document's own address where it is missing. */
function serverOf({ operation }: OperationNode, root: DocumentNode): JsonObject {
  const own = URL.parse(root.document)
  const { host, basePath } = isJsonObject(root.value) ? root.value : {}
  const schemes = itemsOf((memberOf(operation, 'schemes') ?? memberOf(root, 'schemes'))?.value)
  const known = own?.protocol === 'file:' ? undefined : own
  const scheme = schemes.includes('https')
    ? 'https'
    : (schemes.find((name) => name === 'http') ?? known?.protocol.slice(0, -1))
  const path = typeof basePath === 'string' ? basePath : '/'
  const address = typeof host === 'string' && host !== '' ? host : known?.host
  return {
    url:
      address === undefined
        ? path
        : `${scheme ?? 'https'}://${address}${path.startsWith('/') ? '' : '/'}${path}`,
  }
}
