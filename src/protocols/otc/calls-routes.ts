import type { CallView } from '#core/call'
import type { Gateway } from '#core/calls/gateway'
import { fault } from '#core/errors'
import { trustHeader } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { unreadForm } from './codec-answer-form.ts'
import type { EncodeOptions } from './codec-error.ts'
import { encodePlainResult } from './codec-response.ts'
import type { OtcSettings } from './options.ts'
import { jsonReply, refusalReply, refuseWith } from './reply.ts'
import { CALL_ID_HEADER, callIdToHeader } from './wire.ts'

/** A principal's own calls: list them, look at one, or ask that it stops (rule 10). */
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
  const list: HttpRoute = {
    method: 'GET',
    path: '/calls',
    access: 'authenticated',
    body: 'never',
    handle: async ({ principal, headers, query }) => {
      const { schemaId } = unreadForm(headers, settings)
      const cursor = query.get('cursor')
      const page = await gateway.listCalls(principal, {
        limit: readLimit(query.get('limit')),
        ...(cursor === null ? {} : { cursor }),
      })
      const body = {
        ...(schemaId === undefined ? {} : { $schema: schemaId }),
        calls: page.calls.map(membersOf),
        ...(page.cursor === undefined ? {} : { next_cursor: page.cursor }),
      }
      return jsonReply(200, JSON.stringify(body), { 'cache-control': 'no-store' })
    },
    refuse: refuseWith(settings),
  }
  return [
    list,
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
    ...membersOf(view),
  })
  if (view.outcome === undefined) return shown
  return `${shown.slice(0, -1)},"result":${encodePlainResult(view.callId, view.outcome, options)}}`
}

const USUAL_LIMIT = 50
const MOST_LISTED = 200

function readLimit(text: string | null): number {
  if (text === null) return USUAL_LIMIT
  const limit = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= MOST_LISTED) return limit
  throw fault('request_invalid', `"limit" is a whole number from 1 to ${MOST_LISTED}.`)
}

/** What is known of a call without its outcome. */
function membersOf(view: CallView): object {
  return {
    call_id: view.callId,
    record: view.record,
    run_id: view.runId,
    ...(view.traceId === '' ? {} : { trace_id: view.traceId }),
    ...(view.protocol === undefined ? {} : { protocol: view.protocol }),
    ...(view.userId === undefined ? {} : { user_id: view.userId }),
    tool_id: view.tool,
    state: view.state,
    attempt: view.attempt,
    created_at: new Date(view.createdAtMs).toISOString(),
    ...(view.finishedAtMs === undefined ? {} : { finished_at: new Date(view.finishedAtMs).toISOString() }),
    expired: view.expired,
  }
}
