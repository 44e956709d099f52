import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { readAccept } from './accept.ts'
import { errorAnswer } from './answer.ts'
import { headerOf, isNewVersionHeader } from './codec-headers.ts'
import { STREAM_HEADERS, toReply } from './http-channel.ts'
import type { HttpParts } from './http-parts.ts'
import type { OldSession } from './old-sessions.ts'
import { MOST_STREAMS } from './open-streams.ts'
import { refuseMessage } from './refuse.ts'
import { HEADERS, MCP_PATH } from './wire.ts'

/** `GET` and `DELETE` on `/mcp` exist in sessions of older revisions only (row 2, MCP-24 to MCP-26). */
export function sessionRoutes(parts: HttpParts): readonly HttpRoute[] {
  const shared = { path: MCP_PATH, access: 'authenticated', body: 'never', refuse: refuseMessage } as const
  return [
    { ...shared, method: 'GET', handle: (request) => handleGet(request, parts) },
    { ...shared, method: 'DELETE', handle: (request) => handleDelete(request, parts) },
  ]
}

async function handleGet(request: HttpRequest, parts: HttpParts): Promise<HttpReply> {
  const session = await findSession(request, parts)
  if ('status' in session) return session
  if (!readAccept(request.headers).stream) return refusal(406, 'This stream is text/event-stream; accept it.')
  const { principal } = request
  const isOpen = async (): Promise<boolean> =>
    (await parts.sessions.find(principal, session.id)) !== undefined
  const body = parts.streams.open(principal, session.id, isOpen)
  if (body === undefined)
    return refusal(429, `This caller listens ${MOST_STREAMS} times already. Close a stream first.`)
  return { status: 200, headers: STREAM_HEADERS, body }
}

async function handleDelete(request: HttpRequest, parts: HttpParts): Promise<HttpReply> {
  const session = await findSession(request, parts)
  if ('status' in session) return session
  await parts.sessions.end(request.principal, session.id)
  parts.streams.end(session.id)
  return { status: 204, headers: {}, body: undefined }
}

async function findSession(
  { method, headers, principal }: HttpRequest,
  { sessions }: HttpParts,
): Promise<OldSession | HttpReply> {
  const id = headerOf(headers, HEADERS.session)
  const isOld = id !== undefined && !isNewVersionHeader(headerOf(headers, HEADERS.version))
  if (!isOld || method === 'HEAD')
    return refusal(405, 'Only sessions of older revisions use this method; POST messages.', { allow: 'POST' })
  return (
    (await sessions.find(principal, id)) ?? refusal(404, 'There is no such session. Send initialize again.')
  )
}

function refusal(status: number, message: string, headers: Readonly<Record<string, string>> = {}): HttpReply {
  return toReply(errorAnswer(undefined, { code: JSON_RPC_CODES.badRequest, message }, { status, headers }))
}
