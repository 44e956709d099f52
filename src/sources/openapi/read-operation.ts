import { isJsonObject } from '#core/json'
import type { Documents } from './documents.ts'
import { entriesOf, isLocatedObject, itemsOf, type Located, memberOf, textOf } from './located.ts'
import { preferred } from './media-type.ts'
import type {
  Encoding,
  Operation,
  OperationPlace,
  Parameter,
  RequestBody,
  SecurityAlternative,
  SuccessResponse,
} from './operation.ts'
import {
  declaredParameters,
  describeParameter,
  encodingOf,
  isPlace,
  parameterEncoding,
  parameterSchema,
} from './read-parameters.ts'

/** Reads one operation of OpenAPI 3.0 or 3.1. */
export function readOperation(documents: Documents, place: OperationPlace): Operation {
  const { pathItem, operation } = place
  return {
    ...commonParts(documents, place),
    parameters: readParameters(documents, place),
    body: readBody(documents, memberOf(operation, 'requestBody')),
    responses: readResponses(documents, operation, (response) => contentOf(documents, response)),
    servers: [operation, pathItem, documents.root].map(serversOf).find((list) => list.length > 0) ?? [],
  }
}

/** What all versions write alike. */
export function commonParts(
  documents: Documents,
  { method, path, pathItem, operation }: OperationPlace,
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

function readParameters(documents: Documents, place: OperationPlace): readonly Parameter[] {
  return declaredParameters(documents, place).flatMap((parameter) => {
    const { name, in: where, required } = parameter.value
    if (typeof name !== 'string' || !isPlace(where)) return []
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

function readBody(documents: Documents, written: Located | undefined): RequestBody | undefined {
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

/** Only what is written: a field without a style follows its media type. */
function fieldEncoding(value: Located['value']): Partial<Encoding> {
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
  readonly schema: Located | undefined
  readonly encoding: Located | undefined
}

function contentOf(documents: Documents, owner: Located): readonly Content[] {
  const content = memberOf(owner, 'content')
  return entriesOf(content?.value).map(([mediaType, value]) => {
    const media = documents.resolve({ value, document: content?.document ?? owner.document })
    const part = (name: string) => (media === undefined ? undefined : memberOf(media, name))
    return { mediaType, schema: part('schema'), encoding: part('encoding') }
  })
}

/** Every declared success. */
export function readResponses(
  documents: Documents,
  operation: Located,
  readContent: (response: Located) => SuccessResponse['content'],
): readonly SuccessResponse[] {
  const responses = memberOf(operation, 'responses')
  const successes = entriesOf(responses?.value).filter(([status]) => /^2([0-9]{2}|XX)$/i.test(status))
  return successes.flatMap(([, value]) => {
    const response = documents.resolve({ value, document: responses?.document ?? operation.document })
    if (!isLocatedObject(response)) return []
    return {
      description: textOf(response.value.description),
      content: readContent(response),
      headers: entriesOf(response.value.headers).map(([name]) => name.toLowerCase()),
    }
  })
}

function readSecurity(written: Located | undefined): readonly SecurityAlternative[] | undefined {
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

function serversOf(owner: Located): readonly Located[] {
  const servers = memberOf(owner, 'servers')
  return itemsOf(servers?.value).map((value) => ({ value, document: servers?.document ?? owner.document }))
}
