import { stateOf } from '#core/approvals/approvals'
import type { Gateway } from '#core/calls/gateway'
import { fault } from '#core/errors'
import type { ApprovalState } from '#core/ports/approval-store'
import { PAGE_HEADERS } from '#protocols/html-page'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import { approvalPage, unknownApprovalPage } from './approval-page.ts'
import { unreadForm } from './codec-answer-form.ts'
import { openGet } from './open-get.ts'
import type { OtcSettings } from './options.ts'
import { jsonReply, refusalReply } from './reply.ts'
import { OXP_VERSION_HEADER, PROTOCOL_VERSION, type WireChallengeStatus } from './wire.ts'

/**
 * `url` and `check_url` of a call that waits for a yes. Open: whoever knows the unguessable id may ask how it stands.
 * The caller knows it too, so nothing can be decided here (rule 23).
 */
export function approvalRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const look = async (id: string) => {
    const approval = await gateway.approvals.look(id)
    if (approval === undefined) return undefined
    const isStale = gateway.approvals.isStale(approval)
    return { approval, isStale, state: stateOf(approval, settings.clock.nowMs()) }
  }
  return [
    openGet('/approvals/:id', settings, async ({ params }) => {
      const found = await look(params.id ?? '')
      return found === undefined
        ? htmlReply(404, unknownApprovalPage())
        : htmlReply(200, approvalPage(found.approval, found.state, found.isStale))
    }),
    openGet('/approvals/:id/status', settings, async ({ params, headers }) => {
      const found = await look(params.id ?? '')
      if (found !== undefined) {
        const body = JSON.stringify({ status: found.isStale ? 'failed' : STATUSES[found.state] })
        return jsonReply(200, body, { 'cache-control': 'no-store' })
      }
      const error = fault('request_invalid', 'There is no such approval, or it has been forgotten.')
      return refusalReply(unreadForm(headers, settings), error, { ...settings, suggested: 404 })
    }),
  ]
}

/** In the words that the standard has for `check_url` (OTC-78). */
const STATUSES = {
  pending: 'pending',
  granted: 'completed',
  used: 'completed',
  rejected: 'failed',
  expired: 'failed',
  cancelled: 'failed',
} as const satisfies Record<ApprovalState, WireChallengeStatus>

function htmlReply(status: number, body: string): HttpReply {
  return { status, headers: { ...PAGE_HEADERS, [OXP_VERSION_HEADER]: PROTOCOL_VERSION }, body }
}
