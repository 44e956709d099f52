import { fault } from '#core/errors'
import { shortHash } from '#core/hash'
import { hasControlCharacter, isJsonObject } from '#core/json'
import { type Documents, entriesOf, isLocatedObject, memberOf } from './documents.ts'
import type { Dialect, Method, Operation, OperationNode } from './operation.ts'
import { readOperation } from './read-operation.ts'
import { readSwaggerOperation } from './swagger.ts'

const LONGEST = 200

type Named = Pick<Operation, 'operationId' | 'method' | 'written'>

/** `operationId` where it is unique, else method and path; the same whatever stands around an operation. */
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

/** An id that a person can read in a list. */
function usableId({ operationId }: Named): string | undefined {
  const isUsable =
    operationId !== undefined && operationId.length <= LONGEST && !hasControlCharacter(operationId)
  return isUsable ? operationId : undefined
}

/** `get_pets_petId` for `GET /pets/{petId}`. */
function nameFromPath({ method, written }: Named): string {
  const words = written.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const name = [method, ...words].join('_')
  return name.length <= LONGEST ? name : `${name.slice(0, LONGEST - 9)}_${shortHash(`${method} ${written}`)}`
}

function countBy<Entry>(
  entries: readonly Entry[],
  keyOf: (entry: Entry) => string | undefined,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const entry of entries) {
    const key = keyOf(entry)
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
export function listOperations(documents: Documents, warn: (text: string) => void): readonly OperationNode[] {
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

export function readNode(documents: Documents, dialect: Dialect, place: OperationNode): Operation {
  return dialect === '2.0' ? readSwaggerOperation(documents, place) : readOperation(documents, place)
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(METHODS, name)
}
