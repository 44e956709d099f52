import { fault } from '#core/errors'
import { isJsonObject } from '#core/json'
import type { Documents } from './documents.ts'
import { entriesOf, isLocatedObject, memberOf } from './located.ts'
import type { Dialect, Method, Operation, OperationPlace } from './operation.ts'
import { readOperation } from './read-operation.ts'
import { readSwaggerOperation } from './read-swagger-operation.ts'

const METHODS = {
  get: true,
  head: true,
  options: true,
  put: true,
  post: true,
  patch: true,
  delete: true,
} as const satisfies Record<Method, true>

/** `fetch` refuses the one, and the other is too new for the guarded fetch. */
const UNSERVED: ReadonlySet<string> = new Set(['trace', 'query'])

/** Which language the document speaks; others are refused by name. */
export function dialectOf({ root }: Documents): Dialect {
  const { swagger, openapi } = isJsonObject(root.value) ? root.value : {}
  const version = String(swagger ?? openapi ?? '')
  if (/^2(\.0)?$/.test(version) && swagger !== undefined) return '2.0'
  if (/^3\.0(\.|$)/.test(version)) return '3.0'
  // 3.2 adds to 3.1 and changes nothing that is read here.
  if (/^3\.[12](\.|$)/.test(version)) return '3.1'
  throw fault(
    'upstream_failed',
    version === ''
      ? 'The document is no OpenAPI description: it has neither `openapi` nor `swagger`.'
      : `The document is written in version ${version.slice(0, 20)}; OpenAPI 3.0, 3.1 and Swagger 2.0 can be read.`,
  )
}

/** Every operation in the order of the document. */
export function listOperations(
  documents: Documents,
  warn: (text: string) => void,
): readonly OperationPlace[] {
  const paths = memberOf(documents.root, 'paths')
  return entriesOf(paths?.value).flatMap(([path, value]) => {
    const pathItem = documents.resolve({ value, document: paths?.document ?? documents.root.document })
    if (!isLocatedObject(pathItem)) return []
    if (!path.startsWith('/')) {
      warn(`Left out because "${path}" is no path: it must begin with "/".`)
      return []
    }
    return Object.keys(pathItem.value).flatMap((method) => {
      const operation = memberOf(pathItem, method)
      if (!isLocatedObject(operation)) return []
      if (isMethod(method)) return { method, path, pathItem, operation }
      if (UNSERVED.has(method)) warn(`Left out because no tool sends it: ${method.toUpperCase()} ${path}.`)
      return []
    })
  })
}

export function readPlace(documents: Documents, dialect: Dialect, place: OperationPlace): Operation {
  return dialect === '2.0' ? readSwaggerOperation(documents, place) : readOperation(documents, place)
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(METHODS, name)
}
