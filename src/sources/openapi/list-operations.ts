import { fault } from '#kernel/base/errors'
import { shortHash } from '#kernel/base/hash'
import { hasControlCharacter, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  type DocumentNode,
  type Documents,
  entriesIn,
  isLocatedObject,
  itemsOf,
  type LocatedObject,
  memberOf,
  textOf,
  textsOf,
} from './documents.ts'
import {
  type Dialect,
  type Encoding,
  type Operation,
  type OperationNode,
  type ParameterIn,
  preferred,
  type RequestBody,
} from './operation.ts'
import { METHODS } from './options.ts'
import {
  commonParts,
  declaredParameters,
  readOperation,
  readParameters,
  readResponses,
} from './read-operation.ts'

/**
 * Finds and names the operations of a document of any supported version, and reads Swagger 2.0 operations. `reading.ts`
 * uses it. Invariant: the name of an operation with a unique `operationId` does not depend on other operations.
 */

const MAX_LENGTH = 200

type OperationNames = Pick<Operation, 'operationId' | 'method' | 'written'>

/** Names each operation by its `operationId` if that is unique, and otherwise by its method and path. */
export function nameOperations<Entry extends OperationNames>(
  operations: readonly Entry[],
): ReadonlyMap<string, Entry> {
  const byId = Map.groupBy(operations, usableId)
  const byPath = Map.groupBy(operations, nameFromPath)
  const named = new Map<string, Entry>()
  for (const operation of operations) {
    const suffix = shortHash(`${operation.method} ${operation.written}`)
    const operationId = usableId(operation)
    const own = nameFromPath(operation)
    const distinct = byPath.get(own)?.length === 1 ? own : `${own}_${suffix}`
    const name = operationId !== undefined && byId.get(operationId)?.length === 1 ? operationId : distinct
    named.set(named.has(name) ? `${name}_${suffix}` : name, operation)
  }
  return named
}

/** The `operationId` if it is short enough for a list and has no control characters. */
function usableId({ operationId }: OperationNames): string | undefined {
  const isUsable =
    operationId !== undefined && operationId.length <= MAX_LENGTH && !hasControlCharacter(operationId)
  return isUsable ? operationId : undefined
}

/** `get_pets_petId` for `GET /pets/{petId}`. */
function nameFromPath({ method, written }: OperationNames): string {
  const words = written.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const name = [method, ...words].join('_')
  return name.length <= MAX_LENGTH
    ? name
    : `${name.slice(0, MAX_LENGTH - 9)}_${shortHash(`${method} ${written}`)}`
}

/** `fetch` refuses `trace`, and the guarded fetch does not support `query`. */
const UNSERVED: ReadonlySet<string> = new Set(['trace', 'query'])

/** The version of OpenAPI that the document uses; throws if it is not supported. */
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
  return entriesIn(documents.root, 'paths').flatMap(([path, written]) => {
    const pathItem = documents.resolve(written)
    if (!isLocatedObject(pathItem)) return []
    if (!path.startsWith('/')) {
      warn(`Left out because "${path}" is not a path: it must begin with "/".`)
      return []
    }
    return Object.keys(pathItem.value).flatMap((name) => {
      const operation = memberOf(pathItem, name)
      if (!isLocatedObject(operation)) return []
      const method = METHODS.find((known) => known === name)
      if (method !== undefined) return { method, path, pathItem, operation }
      if (UNSERVED.has(name))
        warn(`Left out because its method is not supported: ${name.toUpperCase()} ${path}.`)
      return []
    })
  })
}

export function readNode(documents: Documents, dialect: Dialect, node: OperationNode): Operation {
  return dialect === '2.0' ? readSwaggerOperation(documents, node) : readOperation(documents, node)
}

const FORMS = ['multipart/form-data', 'application/x-www-form-urlencoded']

/** `collectionFormat` as style and explode. */
const COLLECTIONS: ReadonlyMap<JsonValue | undefined, Pick<Encoding, 'style' | 'explode'>> = new Map([
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
  const consumes = textsOf((memberOf(operation, 'consumes') ?? memberOf(root, 'consumes'))?.value)
  const produces = textsOf((memberOf(operation, 'produces') ?? memberOf(root, 'produces'))?.value)
  return {
    ...commonParts(documents, node),
    parameters: readParameters(declared, ({ value, document }, where) => ({
      schema: { value: schemaOf(value), document },
      encoding: parameterEncoding(value, where),
    })),
    body: swaggerBody(declared, consumes),
    responses: readResponses(documents, operation, (response) => {
      const schema = memberOf(response, 'schema')
      const mediaTypes = produces.length === 0 ? ['application/json'] : produces
      return schema === undefined ? [] : mediaTypes.map((mediaType) => ({ mediaType, schema }))
    }),
    servers: [{ value: serverOf(node, root), document: root.document }],
  }
}

/** The encoding of a 2.0 parameter. Lists in paths and headers are separated by commas unless the document sets another separator. */
function parameterEncoding(parameter: JsonObject, where: ParameterIn): Encoding {
  const encoding = collectionEncoding(parameter)
  const isSimple = encoding.style === 'form' && (where === 'path' || where === 'header')
  return isSimple ? { ...encoding, style: 'simple' } : encoding
}

function collectionEncoding({ collectionFormat }: JsonObject): Encoding {
  return { ...(COLLECTIONS.get(collectionFormat) ?? { style: 'form', explode: false }), allowReserved: false }
}

/** The schema of a 2.0 parameter: all members of the parameter except those that are not part of a schema. */
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
      mediaType: preferred(consumes.map((mediaType) => ({ mediaType })))?.mediaType ?? 'application/json',
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
      named.map(({ name, value }) => {
        const { description } = value
        return [name, { ...schemaOf(value), ...(typeof description === 'string' ? { description } : {}) }]
      }),
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

/** The server from `schemes`, `host` and `basePath`, with defaults from the document's own address. */
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
