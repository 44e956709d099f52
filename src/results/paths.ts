import { fault } from '#kernel/base/errors'
import { childPointer, isJsonObject, type JsonValue, parseJson, pointerSteps } from '#kernel/base/json'

/*
 * Paths into a recorded result: JSON Pointer (`/items/3/name`) and a dotted form (`items[3].name`, `items.3.name`). Reading,
 * projection and the texts for models use them.
 * Invariant: a path to a missing value is an error that lists the existing members; a string that contains JSON is treated like the
 * JSON value.
 */

/** The steps of a path in either form; `undefined` if it cannot be read. */
export function readPath(text: string): readonly string[] | undefined {
  if (text === '' || text === '.' || text === '$') return []
  if (text.startsWith('/')) return pointerSteps(text)
  return dottedSteps(text.startsWith('$') ? text.slice(1) : text)
}

/** Steps as a JSON Pointer. */
export function pointerOf(steps: readonly string[]): string {
  return steps.reduce((pointer, step) => childPointer(pointer, step), '')
}

const STEP = /\.?(?:\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+))/y

function dottedSteps(text: string): readonly string[] | undefined {
  const steps: string[] = []
  STEP.lastIndex = 0
  while (STEP.lastIndex < text.length) {
    const found = STEP.exec(text)
    if (found === null) return undefined
    const [, index, quoted, name] = found
    const unquoted = quoted === undefined ? undefined : parseJson(`"${quoted}"`)
    const step = index ?? name ?? (typeof unquoted === 'string' ? unquoted : undefined)
    if (step === undefined) return undefined
    steps.push(step)
  }
  return steps
}

/** A value inside of a result, with its parent if that is an object. */
export interface Found {
  readonly pointer: string
  readonly value: JsonValue
  readonly parent: JsonValue | undefined
  readonly name: string | undefined
}

/** The steps of a path; throws a `ToolError` if it cannot be read. */
export function stepsOf(path: string): readonly string[] {
  const steps = readPath(path)
  if (steps !== undefined) return steps
  throw fault(
    'request_invalid',
    `${quote(path)} is not a path. Write a JSON Pointer, for example /items/3/name, or items[3].name.`,
  )
}

/** The value at these steps; `undefined` if there is none. Filters use it, because an error for each item would take long. */
export function memberAt(root: JsonValue, steps: readonly string[]): JsonValue | undefined {
  let value: JsonValue = root
  for (const step of steps) {
    const member = memberOf(parseJsonText(value), step)
    if (member === undefined) return undefined
    value = member
  }
  return value
}

/** The value at a path; throws a `ToolError` that lists the existing members if there is none. */
export function valueAt(root: JsonValue, path: string): Found {
  const steps = stepsOf(path)
  let found: Found = { pointer: '', value: root, parent: undefined, name: undefined }
  for (const step of steps) {
    const container = parseJsonText(found.value)
    const value = memberOf(container, step)
    if (value === undefined) throw notThere(found.pointer, container, step)
    found = { pointer: childPointer(found.pointer, step), value, parent: container, name: step }
  }
  return found
}

/** Parses a string that contains a JSON object or array, because many MCP servers send data as text. Other values are unchanged. */
export function parseJsonText(value: JsonValue): JsonValue {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value
  const parsed = parseJson(value)
  return typeof parsed === 'object' && parsed !== null ? parsed : value
}

function memberOf(container: JsonValue, step: string): JsonValue | undefined {
  if (Array.isArray(container)) return /^(?:0|[1-9]\d*)$/.test(step) ? container[Number(step)] : undefined
  return isJsonObject(container) && Object.hasOwn(container, step) ? container[step] : undefined
}

const MAX_NAMES = 20

function notThere(pointer: string, container: JsonValue, step: string): Error {
  const at = pointer === '' ? 'The result' : pointer
  return fault('request_invalid', `There is no ${quote(step)} at this path. ${at} ${describe(container)}.`)
}

function describe(container: JsonValue): string {
  if (Array.isArray(container))
    return container.length === 0
      ? 'is an empty array'
      : `is an array with items 0 to ${container.length - 1}`
  if (!isJsonObject(container)) return `is a ${container === null ? 'null' : typeof container}`
  const names = Object.keys(container)
  if (names.length === 0) return 'is an empty object'
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''
  return `has the members ${names.slice(0, MAX_NAMES).map(shorten).join(', ')}${more}`
}

const MAX_SHOWN = 60

/** Names come from callers and upstreams, and may be long. */
function shorten(name: string): string {
  return name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}…` : name
}

function quote(text: string): string {
  return JSON.stringify(shorten(text))
}
