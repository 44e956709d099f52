import type { Gateway } from '#core/calls/gateway'
import { sessionEnded } from '#core/runs/sessions'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { decodeSessionRequest } from './codec-session-request.ts'
import { refuse } from './refuse.ts'
import { jsonReply, noContent } from './reply.ts'
import { SESSION_PATH, SESSIONS_PATH } from './wire.ts'

/** State of a tool across calls, which then name it in `Collet-Session` (rule 30). */
export function sessionRoutes(gateway: Gateway): readonly HttpRoute[] {
  return [
    {
      method: 'POST',
      path: SESSIONS_PATH,
      access: 'authenticated',
      body: 'json',
      handle: (request) => openSession(request, gateway),
      refuse,
    },
    {
      method: 'DELETE',
      path: SESSION_PATH,
      access: 'authenticated',
      body: 'never',
      handle: (request) => closeSession(request, gateway),
      refuse,
    },
  ]
}

async function openSession({ principal, body }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const { sessionId, runId } = await gateway.openSession(principal, decodeSessionRequest(body))
  return jsonReply(201, { sessionId, runId })
}

async function closeSession({ principal, params }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  if (await gateway.closeSession(principal, params.sessionId ?? '')) return noContent()
  throw sessionEnded()
}
