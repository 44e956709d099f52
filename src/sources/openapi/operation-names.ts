import { shortHash } from '#core/hash'
import { hasControlCharacter } from '#core/json'
import type { Operation } from './operation.ts'

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
