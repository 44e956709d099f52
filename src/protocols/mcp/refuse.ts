import { unreadCallHeaders } from '#protocols/call-headers'
import type { HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { errorAnswer } from './answer.ts'
import { toReply } from './http-channel.ts'
import { JSON_TYPE } from './wire.ts'

const UNSUPPORTED_TYPE = 415

/** What failed before a message was read: always JSON-RPC, never with an id (rows 1 and 3 to 6, MCP-04). */
export const refuseMessage: HttpRoute['refuse'] = (request, error, suggested) => {
  const { headers, method } = request
  const isTyped = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === JSON_TYPE
  const isUnread = suggested === 400 && error.code === 'request_invalid'
  const status = isUnread && !isTyped ? UNSUPPORTED_TYPE : statusOf(error.code, suggested)
  const code = codeOf(status, error.code)
  return toReply(
    errorAnswer(
      undefined,
      { code, message: error.message },
      {
        status,
        headers: {
          ...(method === 'POST' ? unreadCallHeaders(headers, error.code) : {}),
          ...(status === 405 ? { allow: 'POST' } : {}),
          ...(error.retryAfterMs === undefined
            ? {}
            : { 'retry-after': String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000))) }),
        },
      },
    ),
  )
}

function statusOf(code: string, suggested: number): number {
  return code === 'internal' ? 500 : suggested
}

/** §1.5: codes of our own are the HTTP status. */
function codeOf(status: number, code: string): number {
  if (code === 'internal') return JSON_RPC_CODES.internal
  if (status === 400) return JSON_RPC_CODES.unreadable
  return status === 413 || status === UNSUPPORTED_TYPE ? JSON_RPC_CODES.badRequest : status
}
