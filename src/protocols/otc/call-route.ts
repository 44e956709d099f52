import type { CallReply, CallRequest } from '#core/call'
import type { Gateway } from '#core/calls/gateway'
import { fault, ToolError } from '#core/errors'
import type { Principal } from '#core/principal'
import { callIdToHeader, callReplyHeaders, RUN_HEADER, readWait } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { refusedForm, unreadCallForm } from './codec-answer-form.ts'
import { type DecodedCall, decodeCall } from './codec-request.ts'
import { encodeResult } from './codec-response.ts'
import { OTC_ANSWERS } from './errors.ts'
import type { OtcSettings } from './options.ts'
import { refusalReply } from './reply.ts'
import { type CallPath, OXP_VERSION_HEADER, PROTOCOL_VERSION } from './wire.ts'

/** The one operation behind every path that runs a tool (C-01). */
export function callRoute(path: CallPath, gateway: Gateway, settings: OtcSettings): HttpRoute {
  return {
    method: 'POST',
    path,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleCall(path, request, gateway, settings),
    refuse: (request, error, status) =>
      refusalReply(unreadCallForm(request.headers, settings), error, { ...settings, suggested: status }),
  }
}

async function handleCall(
  path: CallPath,
  request: HttpRequest,
  gateway: Gateway,
  settings: OtcSettings,
): Promise<HttpReply> {
  let decoded: DecodedCall
  let call: CallRequest
  try {
    decoded = decodeCall(path, request, settings)
    call = { ...bindLoneToken(decoded, request.principal, gateway), ...readWait(request) }
  } catch (error) {
    if (error instanceof ToolError) return refusalReply(refusedForm(path, request, settings), error, settings)
    throw error
  }
  const reply = await gateway.call(request.principal, call)
  const { outcome } = reply
  if (!outcome.ok && OTC_ANSWERS[outcome.error.code].status !== 200) {
    const schemaId = decoded.dialect === 'oxp-header' ? undefined : decoded.schemaId
    const { runId } = reply
    return refusalReply({ schemaId, callId: reply.callId }, outcome.error, {
      ...settings,
      ...(runId === undefined ? {} : { headers: { [RUN_HEADER]: callIdToHeader(runId) } }),
    })
  }
  const finishedAtMs =
    decoded.dialect === 'proto' ? await endOf(reply, request.principal, gateway, settings) : 0
  return {
    status: 200,
    headers: {
      'content-type': 'application/json',
      [OXP_VERSION_HEADER]: PROTOCOL_VERSION,
      ...callReplyHeaders(reply),
    },
    body: encodeResult(
      { dialect: decoded.dialect, schemaId: decoded.schemaId, finishedAtMs },
      reply,
      settings,
    ),
  }
}

/** Gives a token without a provider to the only provider the tool requires (C-26). */
function bindLoneToken(
  { call, loneToken }: DecodedCall,
  principal: Principal,
  gateway: Gateway,
): CallRequest {
  if (loneToken === undefined) return call
  const tool = gateway.catalogFor(principal).resolve(call.tool)
  if (tool === undefined) return call
  const [first, ...others] = tool.requirements?.authorization ?? []
  if (first === undefined || others.length > 0) {
    throw fault(
      'request_invalid',
      'A single "token" fits only tools that require exactly one authorization. Send "context.authorization" as an array of { "id", "token" } objects.',
    )
  }
  return loneToken.reveal() === '' ? call : { ...call, tokens: new Map([[first.id, loneToken]]) }
}

/** The recorded end, so that a replay tells the same (T-25). */
async function endOf(
  reply: CallReply,
  principal: Principal,
  gateway: Gateway,
  settings: OtcSettings,
): Promise<number> {
  const view = await gateway.readCall(principal, reply.callId)
  return view?.finishedAtMs ?? settings.clock.nowMs()
}
