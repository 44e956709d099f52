import { isJsonObject } from '#kernel/base/json'
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
 * Reads operations of OpenAPI 3.0 and later, and the members that all versions share.
 */

export function readOperation(documents: Documents, node: OperationNode): Operation {
  const { pathItem, operation } = node
  return {
    ...commonParts(documents, node),
    parameters: readParameters(documents, node),
    body: readRequestBody(documents, memberOf(operation, 'requestBody')),
    responses: readResponses(documents, operation, (response) => contentOf(documents, response)),
    servers: [operation, pathItem, documents.root].map(serversOf).find((list) => list.length > 0) ?? [],
  }
}

/** The members that all versions share. */
export function commonParts(
  documents: Documents,
  { method, path, pathItem, operation }: OperationNode,
): Omit<Operation, 'parameters' | 'body' | 'responses' | 'servers'> {
  const of = (name: string) => memberOf(operation, name)?.value
  return {
    method,
    written: path,
    path: path.split('#', 1)[0] ?? path,
    operationId: textOf(of('operationId')),
    summary: textOf(of('summary')) ?? textOf(memberOf(pathItem, 'summary')?.value),
    description: textOf(of('description')) ?? textOf(memberOf(pathItem, 'description')?.value),
    tags: itemsOf(of('tags')).filter((tag) => typeof tag === 'string'),
    deprecated: of('deprecated') === true,
    security: readSecurity(memberOf(operation, 'security') ?? memberOf(documents.root, 'security')),
  }
}

function readParameters(documents: Documents, node: OperationNode): readonly Parameter[] {
  return declaredParameters(documents, node).flatMap((parameter) => {
    const { name, in: where, required } = parameter.value
    if (typeof name !== 'string' || !isParameterIn(where)) return []
    return {
      name,
      in: where,
      required: required === true || where === 'path',
      description: describeParameter(parameter),
      schema: parameterSchema(documents, parameter),
      encoding: parameterEncoding(parameter, where),
    }
  })
}

function readRequestBody(documents: Documents, written: DocumentNode | undefined): RequestBody | undefined {
  const body = documents.resolve(written)
  if (!isLocatedObject(body)) return undefined
  const content = contentOf(documents, body)
  const chosen = preferred(content, ({ mediaType }) => mediaType)
  if (chosen === undefined) return undefined
  return {
    description: textOf(body.value.description),
    required: body.value.required === true,
    mediaType: chosen.mediaType,
    schema: chosen.schema,
    fields: new Map(entriesOf(chosen.encoding?.value).map(([name, value]) => [name, fieldEncoding(value)])),
  }
}

/** Only declared members: a field without a style follows its media type. */
function fieldEncoding(value: DocumentNode['value']): Partial<Encoding> {
  if (!isJsonObject(value)) return {}
  const { contentType, style, explode, allowReserved } = value
  const says = style !== undefined || explode !== undefined || allowReserved !== undefined
  return {
    ...(says ? encodingOf({ style, explode, allowReserved }, 'form') : {}),
    ...(typeof contentType === 'string'
      ? { mediaType: contentType.split(',')[0]?.trim() ?? contentType }
      : {}),
  }
}

interface Content {
  readonly mediaType: string
  readonly schema: DocumentNode | undefined
  readonly encoding: DocumentNode | undefined
}

function contentOf(documents: Documents, owner: DocumentNode): readonly Content[] {
  const content = memberOf(owner, 'content')
  return entriesOf(content?.value).map(([mediaType, value]) => {
    const media = documents.resolve({ value, document: content?.document ?? owner.document })
    const part = (name: string) => (media === undefined ? undefined : memberOf(media, name))
    return { mediaType, schema: part('schema'), encoding: part('encoding') }
  })
}

export function readResponses(
  documents: Documents,
  operation: DocumentNode,
  readContent: (response: DocumentNode) => SuccessResponse['content'],
): readonly SuccessResponse[] {
  const responses = memberOf(operation, 'responses')
  const successes = entriesOf(responses?.value).filter(([status]) => /^2([0-9]{2}|XX)$/i.test(status))
  return successes.flatMap(([status, value]) => {
    const response = documents.resolve({ value, document: responses?.document ?? operation.document })
    if (!isLocatedObject(response)) return []
    return {
      description: textOf(response.value.description),
      isEmpty: status === '204' || status === '205',
      content: readContent(response),
      headers: entriesOf(response.value.headers).map(([name]) => name.toLowerCase()),
    }
  })
}

function readSecurity(written: DocumentNode | undefined): readonly SecurityAlternative[] | undefined {
  if (written === undefined || !Array.isArray(written.value)) return undefined
  return itemsOf(written.value).map(
    (alternative) =>
      new Map(
        entriesOf(alternative).map(([scheme, scopes]) => [
          scheme,
          itemsOf(scopes).filter((scope) => typeof scope === 'string'),
        ]),
      ),
  )
}

function serversOf(owner: DocumentNode): readonly DocumentNode[] {
  const servers = memberOf(owner, 'servers')
  return itemsOf(servers?.value).map((value) => ({ value, document: servers?.document ?? owner.document }))
}

const PARAMETER_INS: ReadonlySet<string> = new Set([
  'path',
  'query',
  'header',
  'cookie',
] satisfies ParameterIn[])
const KNOWN_STYLES: ReadonlySet<string> = new Set(STYLES)
const DEFAULT_STYLE = {
  path: 'simple',
  query: 'form',
  header: 'simple',
  cookie: 'form',
} as const satisfies Record<ParameterIn, Style>

/** The parameters of an operation, then those of its path that it does not override. */
export function declaredParameters(
  documents: Documents,
  { pathItem, operation }: { readonly pathItem: DocumentNode; readonly operation: DocumentNode },
): readonly LocatedObject[] {
  const found = new Map<string, LocatedObject>()
  for (const owner of [pathItem, operation]) {
    const list = memberOf(owner, 'parameters')
    for (const value of itemsOf(list?.value)) {
      const parameter = documents.resolve({ value, document: list?.document ?? owner.document })
      if (isLocatedObject(parameter)) found.set(`${parameter.value.in} ${parameter.value.name}`, parameter)
    }
  }
  return [...found.values()]
}

export function isParameterIn(value: unknown): value is ParameterIn {
  return typeof value === 'string' && PARAMETER_INS.has(value)
}

/** OpenAPI 3: style and explode, or a media type. */
function parameterEncoding(parameter: LocatedObject, where: ParameterIn): Encoding {
  const [content] = entriesOf(memberOf(parameter, 'content')?.value)
  const { style, explode, allowReserved } = parameter.value
  return {
    ...encodingOf({ style, explode, allowReserved }, DEFAULT_STYLE[where]),
    ...(content === undefined ? {} : { mediaType: content[0] }),
  }
}

/** A style without `explode` explodes only if it is `form`; invalid values count as absent. */
function encodingOf(
  written: { readonly style?: unknown; readonly explode?: unknown; readonly allowReserved?: unknown },
  usual: Style,
): Encoding {
  const style = isStyle(written.style) ? written.style : usual
  const explode =
    typeof written.explode === 'boolean' ? written.explode : style === 'form' || style === 'deepObject'
  return { style, explode, allowReserved: written.allowReserved === true }
}

function isStyle(value: unknown): value is Style {
  return typeof value === 'string' && KNOWN_STYLES.has(value)
}

/** The schema of a parameter, which may be under its media type. */
function parameterSchema(documents: Documents, parameter: LocatedObject): DocumentNode | undefined {
  const direct = memberOf(parameter, 'schema')
  if (direct !== undefined) return direct
  const content = memberOf(parameter, 'content')
  const [first] = entriesOf(content?.value)
  if (content === undefined || first === undefined) return undefined
  const media = documents.resolve({ value: first[1], document: content.document })
  return media === undefined ? undefined : memberOf(media, 'schema')
}

export function describeParameter({ value }: LocatedObject): string | undefined {
  const text = textOf(value.description)
  return value.deprecated === true ? ['Deprecated.', text].filter(Boolean).join(' ') : text
}
