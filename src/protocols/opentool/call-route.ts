import { callReplyHeaders } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { type CallParts, encodeReply, readFunctionCall } from './function-call.ts'
import { refuseCall } from './refuse.ts'
import { retryHeader } from './retry-header.ts'
import { CALL_PATH, JSON_TYPE } from './wire.ts'

/** `POST /call`: one function, one answer, HTTP 200 whatever the function did (OTS-33 to OTS-43). */
export function callRoute(parts: CallParts): HttpRoute {
  return {
    method: 'POST',
    path: CALL_PATH,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleCall(request, parts),
    refuse: refuseCall,
  }
}

async function handleCall(request: HttpRequest, parts: CallParts): Promise<HttpReply> {
  const read = readFunctionCall(request, parts)
  if ('status' in read) return read
  const reply = await parts.gateway.call(request.principal, read.call)
  return {
    status: 200,
    headers: {
      'content-type': JSON_TYPE,
      ...callReplyHeaders(reply),
      ...(reply.outcome.ok ? undefined : retryHeader(reply.outcome.error)),
    },
    body: encodeReply(read, reply),
  }
}
