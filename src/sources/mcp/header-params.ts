import type { JsonObject, JsonValue } from '#core/json'
import { isWireArray, isWireObject } from './wire.ts'

/** An argument that 2026-07-28 repeats in a header of the request (MCP-48). */
export interface HeaderParam {
  readonly header: string
  readonly path: readonly string[]
}

export type HeaderParams =
  | { readonly ok: true; readonly params: readonly HeaderParam[]; readonly schema: JsonObject }
  | { readonly ok: false; readonly problem: string }

const MARK = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const TYPES: ReadonlySet<JsonValue | undefined> = new Set(['string', 'integer', 'boolean'])
const DEEPEST = 64

/** Which arguments go into headers too, and the schema without the marks; marks in wrong places spoil the tool. */
export function readHeaderParams(schema: JsonObject): HeaderParams {
  const params: HeaderParam[] = []
  try {
    const stripped = strip(schema, [], params)
    const names = params.map(({ header }) => header.toLowerCase())
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) return { ok: false, problem: `two arguments claim the header "${twice}"` }
    return { ok: true, params, schema: stripped }
  } catch (error) {
    if (error instanceof BadMark) return { ok: false, problem: error.message }
    throw error
  }
}

class BadMark extends Error {}

/** Follows chains of `properties` only, as the standard does; anywhere else a mark is a mistake. */
function strip(schema: JsonObject, path: readonly string[], params: HeaderParam[]): JsonObject {
  if (!hasMark(schema, 0)) return schema
  const { [MARK]: mark, properties, ...rest } = schema
  if (mark !== undefined) params.push(readMark(mark, rest, path))
  for (const [name, value] of Object.entries(rest))
    if (hasMark(value, 0)) throw new BadMark(`${MARK} below "${name}", which is no chain of properties`)
  if (!isWireObject(properties)) return rest
  const stripped = Object.entries(properties).map(([name, value]): [string, JsonValue] => [
    name,
    isWireObject(value) ? strip(value, [...path, name], params) : value,
  ])
  return { ...rest, properties: Object.fromEntries(stripped) }
}

function readMark(mark: JsonValue, schema: JsonObject, path: readonly string[]): HeaderParam {
  const where = path.length === 0 ? 'the root' : path.join('.')
  if (path.length === 0 || typeof mark !== 'string' || !TOKEN.test(mark))
    throw new BadMark(`${MARK} of ${where} is not the name of a header`)
  if (!TYPES.has(schema.type))
    throw new BadMark(`${MARK} of ${where} is on something else than a string, an integer or a boolean`)
  return { header: mark, path }
}

function hasMark(value: JsonValue | undefined, depth: number): boolean {
  if (depth > DEEPEST) return false
  if (isWireArray(value)) return value.some((item) => hasMark(item, depth + 1))
  if (!isWireObject(value)) return false
  return MARK in value || Object.values(value).some((member) => hasMark(member, depth + 1))
}

/** The headers of one call. */
export function headersFor(
  params: readonly HeaderParam[],
  input: JsonObject,
): Readonly<Record<string, string>> | undefined {
  const headers = params.flatMap(({ header, path }): [string, string][] => {
    const value = valueAt(input, path)
    const isPlain = typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value)
    return isPlain ? [[`Mcp-Param-${header}`, encodeHeader(String(value))]] : []
  })
  return headers.length === 0 ? undefined : Object.fromEntries(headers)
}

function valueAt(input: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = input
  for (const name of path) value = isWireObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return value
}

/** What a header cannot carry, or what looks like this encoding, is written in it. */
function encodeHeader(text: string): string {
  const isSafe = /^[\t\x20-\x7e]+$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text)
  return isSafe ? text : `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}
