import { fault } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { withoutNulls } from './codec-context.ts'
import type { CallPath, Dialect, SchemaFamily } from './wire.ts'

/** Which published shape a call request has, and the object that holds its members. */
export interface Envelope {
  readonly dialect: Dialect
  readonly call: JsonObject
}

/** The table of ledger §3.1, first match wins. */
export function decodeEnvelope(path: CallPath, body: JsonObject, family: SchemaFamily | undefined): Envelope {
  if (isExecutePath(path) && isJsonObject(body.tool)) return { dialect: 'proto', call: body }
  const { request } = body
  if (request === undefined) {
    if (body.tool_id === undefined || isExecutePath(path)) throw noCall(path)
    return { dialect: path === '/uts/tools/call' ? 'uts' : 'oxp-header', call: body }
  }
  if (body.tool_id !== undefined) {
    throw fault('request_invalid', 'The body has both "request" and "tool_id"; send one of them.')
  }
  if (!isJsonObject(request)) throw fault('request_invalid', '"request" must be an object.')
  return { dialect: wrappedDialect(path, family), call: withoutNulls(request) }
}

function wrappedDialect(path: CallPath, family: SchemaFamily | undefined): Dialect {
  if (path === '/uts/tools/call') return 'uts'
  if (isExecutePath(path)) return 'execute'
  if (path === '/call' && (family === undefined || family === 'arcade')) return 'rfc-call'
  return family === 'otc' || family === 'arcade' ? 'otc-1.0' : 'oxp-1.0'
}

/** The two paths of the March drafts: `execution_id`, `output` and `@latest` live here only. */
export function isExecutePath(path: CallPath): boolean {
  return path === '/execute' || path === '/tools/execute'
}

export function bodyObject(body: JsonValue | undefined): JsonObject {
  if (isJsonObject(body)) return body
  throw fault('request_invalid', 'A call needs a JSON object as its body.')
}

function noCall(path: CallPath) {
  const alternative = isExecutePath(path) ? 'a "tool" object' : '"tool_id" at the top level'
  return fault('request_invalid', `The body needs a "request" object, or ${alternative}.`)
}
