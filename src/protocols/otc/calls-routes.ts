import type { CallView } from '#core/call/call-view'
import { fault } from '#core/errors'
import type { Gateway } from '#core/gateway'
import { trustHeader } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { unreadForm } from './codec-answer-form.ts'
import type { EncodeOptions } from './codec-error.ts'
import { encodePlainResult } from './codec-response.ts'
import type { OtcSettings } from './options.ts'
import { jsonReply, refusalReply, refuseWith } from './reply.ts'
import { CALL_ID_HEADER, callIdToHeader } from './wire.ts'

/** A principal's own calls: look at one, or ask that it stops (rule 10). */
export function callsRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const route = (
    method: 'GET' | 'DELETE',
    answer: (request: HttpRequest, callId: string) => Promise<HttpReply | undefined>,
  ): HttpRoute => ({
    method,
    path: '/calls/:id',
    access: 'authenticated',
    body: 'never',
    handle: async (request) =>
      (await answer(request, request.params.id ?? '')) ??
      refusalReply(
        unreadForm(request.headers, settings),
        fault(
          'call_not_found',
          'You have no call with this id; it may have been made with another credential.',
        ),
        settings,
      ),
    refuse: refuseWith(settings),
  })
  return [
    route('GET', async (request, callId) => {
      const view = await gateway.readCall(request.principal, callId)
      return view === undefined ? undefined : viewReply(200, request, view, settings)
    }),
    route('DELETE', async (request, callId) => {
      const view = await gateway.cancelCall(request.principal, callId)
      // 202: the stop was asked for, and the first committed final state wins.
      return view === undefined
        ? undefined
        : viewReply(view.state === 'running' ? 202 : 200, request, view, settings)
    }),
  ]
}

function viewReply(status: number, request: HttpRequest, view: CallView, settings: OtcSettings): HttpReply {
  const { schemaId } = unreadForm(request.headers, settings)
  return jsonReply(status, encodeView(schemaId, view, settings), {
    [CALL_ID_HEADER]: callIdToHeader(view.callId),
    'cache-control': 'no-store',
    ...(view.outcome === undefined ? undefined : trustHeader(view.untrusted)),
  })
}

function encodeView(schemaId: string | undefined, view: CallView, options: EncodeOptions): string {
  const shown = JSON.stringify({
    ...(schemaId === undefined ? {} : { $schema: schemaId }),
    call_id: view.callId,
    record: view.record,
    tool_id: view.tool,
    state: view.state,
    attempt: view.attempt,
    created_at: new Date(view.createdAtMs).toISOString(),
    ...(view.finishedAtMs === undefined ? {} : { finished_at: new Date(view.finishedAtMs).toISOString() }),
    expired: view.expired,
  })
  if (view.outcome === undefined) return shown
  return `${shown.slice(0, -1)},"result":${encodePlainResult(view.callId, view.outcome, options)}}`
}
