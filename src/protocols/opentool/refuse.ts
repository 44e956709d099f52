import type { ToolError } from '#core/errors'
import { ERROR_CODE_HEADER, unreadCallHeaders } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { encodeError } from './codec-answer.ts'
import { OPENTOOL_CODES } from './errors.ts'
import { errorReply, jsonReply } from './reply.ts'
import { retryHeader } from './retry-header.ts'
import { CALL_PATH, LOAD_PATH, STOP_PATH, STREAM_PATH, VERSION_PATH } from './wire.ts'

const METHODS: Readonly<Record<string, string>> = {
  [VERSION_PATH]: 'GET',
  [LOAD_PATH]: 'GET',
  [CALL_PATH]: 'POST',
  [STREAM_PATH]: 'POST',
  [STOP_PATH]: 'POST',
}

const KEY_HEADERS = ['authorization', 'oxp-api-key', 'otc-api-key', 'x-api-key'] as const

type Asked = Omit<HttpRequest, 'body' | 'principal'>

/** How routes without an envelope refuse, and everything below `/opentool` that is no route. */
export const refusePlainly: HttpRoute['refuse'] = (request, error, status) =>
  refuseBeforeRoute(request, error, status) ??
  errorReply(error.code === 'internal' ? 500 : status, error.message, codeHeader(error))

/** How `/call` refuses what never became a call (OTS-41, OTS-42). */
export const refuseCall: HttpRoute['refuse'] = (request, error, status) => {
  const early = refuseBeforeRoute(request, error, status)
  if (early !== undefined) return early
  const isHttpLevel = status === 400 || status === 413
  const code =
    isHttpLevel && error.code === 'request_invalid'
      ? requestCode(request, status)
      : OPENTOOL_CODES[error.code]
  const body = encodeError(null, { code, message: error.message })
  // Any other status would read as "server not running" in SDK clients (OTS-39).
  return jsonReply(isHttpLevel && error.code === 'request_invalid' ? status : 200, body, {
    ...unreadCallHeaders(request.headers, error.code),
    ...retryHeader(error),
  })
}

/** `/streamCall` differs in one answer, which its clients know: 500 with text (OTS-50). */
export const refuseStream: HttpRoute['refuse'] = (request, error, status) => {
  const isUnreadable = error.code === 'request_invalid' && status === 400 && isJsonType(request)
  if (!isUnreadable) return refuseCall(request, error, status)
  return { status: 500, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: error.message }
}

function refuseBeforeRoute(request: Asked, error: ToolError, status: number): HttpReply | undefined {
  if (error.code === 'unauthenticated') return refuseStranger(request)
  if (status === 405) return errorReply(405, error.message, { allow: METHODS[request.path] ?? '' })
  return status === 403 || status === 404 ? errorReply(status, error.message) : undefined
}

/** OTS-48, in the words of the TypeScript SDK. */
function refuseStranger({ headers }: Asked): HttpReply {
  const hasKey = KEY_HEADERS.some((name) => headers[name] !== undefined)
  return errorReply(401, hasKey ? 'Invalid API key' : 'Authorization header missing', {
    'www-authenticate': 'Bearer',
  })
}

/** What the body reader refuses is unreadable; a wrong media type or size is a bad request. */
function requestCode(request: Asked, status: number): number {
  const isUnreadable = status === 400 && isJsonType(request) && request.headers.host !== undefined
  return isUnreadable ? JSON_RPC_CODES.unreadable : JSON_RPC_CODES.badRequest
}

function isJsonType({ headers }: Asked): boolean {
  return headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function codeHeader({ code }: ToolError): Readonly<Record<string, string>> {
  return { [ERROR_CODE_HEADER]: code }
}
