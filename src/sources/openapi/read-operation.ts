import { defined, isJsonObject, type JsonObject } from '#kernel/base/json'
import {
  type DocumentNode,
  type Documents,
  entriesIn,
  entriesOf,
  isLocatedObject,
  itemsIn,
  itemsOf,
  type LocatedObject,
  memberOf,
  textOf,
  textsOf,
} from './documents.ts'
import {
  type Encoding,
  type Operation,
  type OperationNode,
  type Parameter,
  type ParameterIn,
  preferred,
  type RequestBody,
  type SecurityAlternative,
  STYLES,
  type Style,
  type SuccessResponse,
} from './operation.ts'

/**
 * Reads operations of OpenAPI 3.0 and later, and the members that all versions share. `list-operations.ts` uses it.
 * Invariant: a malformed member counts as absent.
 */

export function readOperation(documents: Documents, node: OperationNode): Operation {
  const { pathItem, operation } = node
  return {
    ...commonParts(documents, node),
    parameters: readParameters(declaredParameters(documents, node), (parameter, where) => ({
      schema: parameterSchema(documents, parameter),
      encoding: parameterEncoding(parameter, where),
    })),
    body: readRequestBody(documents, memberOf(operation, 'requestBody')),
    responses: readResponses(documents, operation, (response) => contentOf(documents, response)),
    servers:
      [operation, pathItem, documents.root]
        .map((owner) => itemsIn(owner, 'servers'))
        .find((list) => list.length > 0) ?? [],
  }
}

/** The members that all versions share. */
export function commonParts(
  documents: Documents,
  { method, path, pathItem, operation }: OperationNode,
): Omit<Operation, 'parameters' | 'body' | 'responses' | 'servers'> {
  const member = (name: string) => memberOf(operation, name)?.value
  return {
    method,
    written: path,
    path: path.split('#', 1)[0] ?? path,
    operationId: textOf(member('operationId')),
    summary: textOf(member('summary')) ?? textOf(memberOf(pathItem, 'summary')?.value),
    description: textOf(member('description')) ?? textOf(memberOf(pathItem, 'description')?.value),
    tags: textsOf(member('tags')),
    deprecated: member('deprecated') === true,
    security: readSecurity(memberOf(operation, 'security') ?? memberOf(documents.root, 'security')),
  }
}

/** Reads parameters; `readSchema` reads the members that differ between versions. */
export function readParameters(
  declared: readonly LocatedObject[],
  readSchema: (parameter: LocatedObject, where: ParameterIn) => Pick<Parameter, 'schema' | 'encoding'>,
): readonly Parameter[] {
  return declared.flatMap((parameter) => {
    const { name, in: where, required, deprecated } = parameter.value
    if (typeof name !== 'string' || !isParameterIn(where)) return []
    const text = textOf(parameter.value.description)
    return {
      name,
      in: where,
      required: required === true || where === 'path',
      description: deprecated === true ? ['Deprecated.', text].filter(Boolean).join(' ') : text,
      ...readSchema(parameter, where),
    }
  })
}

function readRequestBody(documents: Documents, written: DocumentNode | undefined): RequestBody | undefined {
  const body = documents.resolve(written)
  if (!isLocatedObject(body)) return undefined
  const chosen = preferred(contentOf(documents, body))
  if (chosen === undefined) return undefined
  return {
    description: textOf(body.value.description),
    required: body.value.required === true,
    mediaType: chosen.mediaType,
    schema: chosen.schema,
    fields: new Map(entriesOf(chosen.encoding?.value).map(([name, value]) => [name, fieldEncoding(value)])),
  }
}

/** The encoding of a form field. Contains only declared members, because a field without a style follows its media type. */
function fieldEncoding(value: DocumentNode['value']): Partial<Encoding> {
  if (!isJsonObject(value)) return {}
  const { contentType, style, explode, allowReserved } = value
  const isDeclared = style !== undefined || explode !== undefined || allowReserved !== undefined
  const mediaType = typeof contentType === 'string' ? contentType.split(',')[0]?.trim() : undefined
  return { ...(isDeclared ? encodingOf(value, 'form') : {}), ...defined({ mediaType }) }
}

function contentOf(documents: Documents, owner: DocumentNode) {
  return entriesIn(owner, 'content').map(([mediaType, written]) => {
    const media = documents.resolve(written)
    const schema = media && memberOf(media, 'schema')
    return { mediaType, schema, encoding: media && memberOf(media, 'encoding') }
  })
}

export function readResponses(
  documents: Documents,
  operation: DocumentNode,
  readContent: (response: DocumentNode) => SuccessResponse['content'],
): readonly SuccessResponse[] {
  const successes = entriesIn(operation, 'responses').filter(([status]) => /^2([0-9]{2}|XX)$/i.test(status))
  return successes.flatMap(([status, written]) => {
    const response = documents.resolve(written)
    if (!isLocatedObject(response)) return []
    return {
      isEmpty: status === '204' || status === '205',
      content: readContent(response),
      headers: entriesOf(response.value.headers).map(([name]) => name.toLowerCase()),
    }
  })
}

function readSecurity(written: DocumentNode | undefined): readonly SecurityAlternative[] | undefined {
  if (written === undefined || !Array.isArray(written.value)) return undefined
  return itemsOf(written.value).map(
    (alternative) => new Map(entriesOf(alternative).map(([scheme, scopes]) => [scheme, textsOf(scopes)])),
  )
}

const DEFAULT_STYLE = {
  path: 'simple',
  query: 'form',
  header: 'simple',
  cookie: 'form',
} as const satisfies Record<ParameterIn, Style>

/** The parameters of the path item and of the operation. The operation's override those with the same name and `in`. */
export function declaredParameters(
  documents: Documents,
  { pathItem, operation }: Pick<OperationNode, 'pathItem' | 'operation'>,
): readonly LocatedObject[] {
  const found = new Map<string, LocatedObject>()
  for (const written of [...itemsIn(pathItem, 'parameters'), ...itemsIn(operation, 'parameters')]) {
    const parameter = documents.resolve(written)
    if (isLocatedObject(parameter)) found.set(`${parameter.value.in} ${parameter.value.name}`, parameter)
  }
  return [...found.values()]
}

function isParameterIn(value: unknown): value is ParameterIn {
  return typeof value === 'string' && Object.hasOwn(DEFAULT_STYLE, value)
}

/** The encoding of a parameter in OpenAPI 3: style and explode, or a media type. */
function parameterEncoding(parameter: LocatedObject, where: ParameterIn): Encoding {
  const [content] = entriesIn(parameter, 'content')
  return { ...encodingOf(parameter.value, DEFAULT_STYLE[where]), ...defined({ mediaType: content?.[0] }) }
}

/** Reads style and explode. By default, only `form` and `deepObject` explode; invalid values count as absent. */
function encodingOf(written: JsonObject, defaultStyle: Style): Encoding {
  const style = STYLES.find((known) => known === written.style) ?? defaultStyle
  const explode =
    typeof written.explode === 'boolean' ? written.explode : style === 'form' || style === 'deepObject'
  return { style, explode, allowReserved: written.allowReserved === true }
}

/** The schema of a parameter: its own, or that of its media type. */
function parameterSchema(documents: Documents, parameter: LocatedObject): DocumentNode | undefined {
  return memberOf(parameter, 'schema') ?? contentOf(documents, parameter)[0]?.schema
}
