import { fault } from '#kernel/base/errors'
import { shortHash } from '#kernel/base/hash'
import { hasControlCharacter, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  type DocumentNode,
  type Documents,
  entriesOf,
  isLocatedObject,
  itemsOf,
  type LocatedObject,
  memberOf,
  textOf,
} from './documents.ts'
import {
  type Dialect,
  type Encoding,
  type Method,
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
  readOperation,
  readResponses,
} from './read-operation.ts'

/**
 * Finds and names the operations of a document, in all versions of OpenAPI, and reads those of Swagger 2.0.
 */

const MAX_LENGTH = 200

type Named = Pick<Operation, 'operationId' | 'method' | 'written'>

/** `operationId` if it is unique, else method and path; independent of the other operations. */
export function nameOperations<Entry extends Named>(
  operations: readonly Entry[],
): ReadonlyMap<string, Entry> {
  const ids = countBy(operations, usableId)
  const made = countBy(operations, nameFromPath)
  const named = new Map<string, Entry>()
  for (const operation of operations) {
    const { method, written } = operation
    const operationId = usableId(operation)
    const unique = operationId !== undefined && ids.get(operationId) === 1
    const own = nameFromPath(operation)
    const distinct = made.get(own) === 1 ? own : `${own}_${shortHash(`${method} ${written}`)}`
    const name = unique ? operationId : distinct
    named.set(named.has(name) ? `${name}_${shortHash(`${method} ${written}`)}` : name, operation)
  }
  return named
}

/** An id that is readable in a list. */
function usableId({ operationId }: Named): string | undefined {
  const isUsable =
    operationId !== undefined && operationId.length <= MAX_LENGTH && !hasControlCharacter(operationId)
  return isUsable ? operationId : undefined
}

/** `get_pets_petId` for `GET /pets/{petId}`. */
function nameFromPath({ method, written }: Named): string {
  const words = written.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const name = [method, ...words].join('_')
  return name.length <= MAX_LENGTH
    ? name
    : `${name.slice(0, MAX_LENGTH - 9)}_${shortHash(`${method} ${written}`)}`
}

function countBy<Entry>(
  entries: readonly Entry[],
  mergeKey: (entry: Entry) => string | undefined,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const entry of entries) {
    const key = mergeKey(entry)
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}

const METHODS = {
  get: true,
  head: true,
  options: true,
  put: true,
  post: true,
  patch: true,
  delete: true,
} as const satisfies Record<Method, true>

/** `fetch` refuses the first, and the guarded fetch does not support the second. */
const UNSERVED: ReadonlySet<string> = new Set(['trace', 'query'])

/** The version of OpenAPI; unsupported ones are refused by name. */
export function dialectOf({ root }: Documents): Dialect {
  const { swagger, openapi } = isJsonObject(root.value) ? root.value : {}
  const version = String(swagger ?? openapi ?? '')
  if (/^2(\.0)?$/.test(version) && swagger !== undefined) return '2.0'
  if (/^3\.0(\.|$)/.test(version)) return '3.0'
  // 3.2 extends 3.1 and changes nothing that is read here.
  if (/^3\.[12](\.|$)/.test(version)) return '3.1'
  throw fault(
    'upstream_failed',
    version === ''
      ? 'The document is not an OpenAPI description: it has neither `openapi` nor `swagger`.'
      : `The document is written in version ${version.slice(0, 20)}; OpenAPI 3.0, 3.1 and Swagger 2.0 can be read.`,
  )
}

export function listOperations(documents: Documents, warn: (text: string) => void): readonly OperationNode[] {
  const paths = memberOf(documents.root, 'paths')
  return entriesOf(paths?.value).flatMap(([path, value]) => {
    const pathItem = documents.resolve({ value, document: paths?.document ?? documents.root.document })
    if (!isLocatedObject(pathItem)) return []
    if (!path.startsWith('/')) {
      warn(`Left out because "${path}" is not a path: it must begin with "/".`)
      return []
    }
    return Object.keys(pathItem.value).flatMap((method) => {
      const operation = memberOf(pathItem, method)
      if (!isLocatedObject(operation)) return []
      if (isMethod(method)) return { method, path, pathItem, operation }
      if (UNSERVED.has(method))
        warn(`Left out because its method is not supported: ${method.toUpperCase()} ${path}.`)
      return []
    })
  })
}

export function readNode(documents: Documents, dialect: Dialect, node: OperationNode): Operation {
  return dialect === '2.0' ? readSwaggerOperation(documents, node) : readOperation(documents, node)
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(METHODS, name)
}

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

function readSwaggerOperation(documents: Documents, node: OperationNode): Operation {
  const { operation } = node
  const declared = declaredParameters(documents, node)
  const { root } = documents
  const consumes = mediaTypes(memberOf(operation, 'consumes') ?? memberOf(root, 'consumes'))
  const produces = mediaTypes(memberOf(operation, 'produces') ?? memberOf(root, 'produces'))
  return {
    ...commonParts(documents, node),
    parameters: declared.flatMap(readParameter),
    body: swaggerBody(declared, consumes),
    responses: readResponses(documents, operation, (response) => {
      const schema = memberOf(response, 'schema')
      if (schema === undefined) return []
      return (produces.length === 0 ? ['application/json'] : produces).map((mediaType) => ({
        mediaType,
        schema,
      }))
    }),
    servers: [{ value: serverOf(node, root), document: root.document }],
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

/** Paths and headers are separated by commas unless another character is named. */
function simpleFor(style: Style): Style {
  return style === 'form' ? 'simple' : style
}

function collectionEncoding({ collectionFormat }: JsonObject): Encoding {
  return { ...(COLLECTIONS.get(collectionFormat) ?? { style: 'form', explode: false }), allowReserved: false }
}

/** A parameter of 2.0 is its own schema; its other members are not part of the schema. */
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

function swaggerBody(
  declared: readonly LocatedObject[],
  consumes: readonly string[],
): RequestBody | undefined {
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

/** `schemes`, `host` and `basePath`, with defaults from the document's own address. */
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
