import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'

/*
 * Client side of OpenTool: reads the answer to a call, or one stream event, into a result or an exception.
 * The client package uses it.
 * Invariant: deviations of the official servers from the specification are accepted (OTS-64, OTS-65).
 */

/** The exception names of the client specification (OTS-64). */
export type ExceptionName =
  | 'ResponseNullException'
  | 'ErrorNullException'
  | 'OpenToolServerUnauthorizedException'
  | 'OpenToolServerNoAccessException'
  | 'OpenToolServerCallException'

export interface ReadException {
  readonly name: ExceptionName
  readonly code: number
  readonly message: string
  /** `error.data`, which servers of this package send. */
  readonly data?: JsonValue
}

export type ReadAnswer =
  | { readonly ok: true; readonly result: JsonObject }
  | { readonly ok: false; readonly exception: ReadException }

export const NO_ACCESS: ReadException = {
  name: 'OpenToolServerNoAccessException',
  code: 404,
  message: 'Please check OpenTool Server is RUNNING or NOT',
}

const UNAUTHORIZED: ReadException = {
  name: 'OpenToolServerUnauthorizedException',
  code: 401,
  message: 'Please check API Key is VALID or NOT',
}

/** Reads the answer to a call leniently; `body` is `undefined` if it is not JSON (OTS-64, OTS-65). */
export function readAnswer(status: number, body: JsonValue | undefined, id: string): ReadAnswer {
  const refusal = readStatus(status, body)
  if (refusal !== undefined) return failed(refusal)
  return isJsonObject(body) ? readEnvelope(body, id, status) : failed(responseNull(status))
}

/** The exception that a status implies, whatever the body; `undefined` for success. */
export function readStatus(status: number, body: JsonValue | undefined): ReadException | undefined {
  if (status >= 200 && status < 300) return undefined
  if (status === 401) return UNAUTHORIZED
  if (status === 404) return NO_ACCESS
  const error = isJsonObject(body) ? (body.error ?? body.message) : undefined
  if (isJsonObject(error)) return callException(error, status)
  const message = typeof error === 'string' ? error : `The server answered with status ${status}.`
  return { name: 'OpenToolServerCallException', code: status, message }
}

export function responseNull(status: number): ReadException {
  return { name: 'ResponseNullException', code: status, message: 'Response is null' }
}

/** Reads one envelope: a whole answer, or an event of a stream. */
export function readEnvelope(envelope: JsonObject, id: string, status: number): ReadAnswer {
  const { error, result } = envelope
  if (isJsonObject(error)) return failed(callException(error, 500))
  // A server that omits the id has answered the only call of this exchange.
  if (envelope.id !== undefined && envelope.id !== id) {
    return failed({
      name: 'OpenToolServerCallException',
      code: status,
      message: 'The server answered a different call; the result is not used.',
    })
  }
  if (result === undefined || result === null) {
    return failed({ name: 'ErrorNullException', code: status, message: 'Error is null' })
  }
  // Some servers return bare values, although the specification requires an object (OTS-38).
  return { ok: true, result: isJsonObject(result) ? result : { result } }
}

/** `error` of an envelope, or the bare `{code, message}` that one SDK sends in streams (OTS-52). */
export function callException(error: JsonObject, fallbackCode: number): ReadException {
  const { code, message } = unwrapMessage(error.message) ?? error
  return {
    name: 'OpenToolServerCallException',
    code: typeof code === 'number' ? code : fallbackCode,
    message: typeof message === 'string' ? message : 'The server did not state a reason.',
    ...(error.data === undefined ? {} : { data: error.data }),
  }
}

/** Two SDKs nest a tool's exception as JSON text in the message (OTS-65). */
function unwrapMessage(message: JsonValue | undefined): JsonObject | undefined {
  const inner = typeof message === 'string' && message.startsWith('{') ? parseJson(message) : undefined
  if (!isJsonObject(inner)) return undefined
  return typeof inner.code === 'number' && typeof inner.message === 'string' ? inner : undefined
}

function failed(exception: ReadException): ReadAnswer {
  return { ok: false, exception }
}
