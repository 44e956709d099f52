import { isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#core/json'

const DEEPEST = 100

const TOO_DEEP = problem(`it is nested more than ${DEEPEST} levels deep`)

/** Why a parsed value is not one we can store, compare and send on exactly. */
export interface JsonProblem {
  /** JSON Pointer to the value. */
  readonly pointer: string
  readonly reason: string
}

export interface JsonCheck {
  /** Lone surrogates come only from `\u` escapes: text without one needs no look at its strings. */
  readonly hasEscapes: boolean
}

/** One walk: finite numbers (`1e400` parses to Infinity), well-formed strings and member names, bounded depth. */
export function findJsonProblem(value: JsonValue, check: JsonCheck): JsonProblem | undefined {
  return problemOf(value, check.hasEscapes, 1)
}

function problemOf(value: JsonValue, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? undefined : problem('the number is too large for a double')
    case 'string':
      return !hasEscapes || value.isWellFormed() ? undefined : problem('the string has a lone surrogate')
    case 'object':
      if (value === null) return undefined
      return isJsonObject(value)
        ? problemInObject(value, hasEscapes, depth)
        : problemInArray(value, hasEscapes, depth)
    case 'boolean':
      return undefined
  }
}

function problemInArray(items: JsonArray, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  if (depth > DEEPEST) return TOO_DEEP
  for (let place = 0; place < items.length; place += 1) {
    const found = problemOf(items[place] ?? null, hasEscapes, depth + 1)
    if (found !== undefined) return { ...found, pointer: `/${place}${found.pointer}` }
  }
  return undefined
}

function problemInObject(object: JsonObject, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  if (depth > DEEPEST) return TOO_DEEP
  for (const name of Object.keys(object)) {
    if (hasEscapes && !name.isWellFormed()) return problem('a member name has a lone surrogate')
    const found = problemOf(object[name] ?? null, hasEscapes, depth + 1)
    if (found !== undefined) return { ...found, pointer: `/${escapeToken(name)}${found.pointer}` }
  }
  return undefined
}

function problem(reason: string): JsonProblem {
  return { pointer: '', reason }
}

/** RFC 6901 §3. */
function escapeToken(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
