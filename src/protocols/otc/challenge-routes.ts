import type { Gateway } from '#core/calls/gateway'
import { fault } from '#core/errors'
import type { ChallengeRecord } from '#core/ports/store'
import { PAGE_HEADERS } from '#protocols/html-page'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import { challengePage, unknownChallengePage } from './challenge-page.ts'
import { unreadForm } from './codec-answer-form.ts'
import { openGet } from './open-get.ts'
import type { OtcSettings } from './options.ts'
import { jsonReply, refusalReply } from './reply.ts'
import { OXP_VERSION_HEADER, PROTOCOL_VERSION, type WireChallengeStatus } from './wire.ts'

/** `url` and `check_url` of a challenge. Open: whoever knows the unguessable id may ask how it stands. */
export function challengeRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  return [
    openGet('/challenges/:id', settings, async (request) => {
      const challenge = await gateway.findChallenge(request.params.id ?? '')
      if (challenge === undefined) return htmlReply(404, unknownChallengePage())
      const status = statusOf(challenge, settings)
      if (settings.askForConsent !== undefined && challenge.consent === true && status === 'pending')
        return await settings.askForConsent(challenge, request)
      return htmlReply(200, challengePage(challenge, status))
    }),
    openGet('/challenges/:id/status', settings, async ({ params, headers }) => {
      const challenge = await gateway.findChallenge(params.id ?? '')
      if (challenge !== undefined) return statusReply(statusOf(challenge, settings))
      const error = fault(
        'request_invalid',
        'There is no such authorization request, or it has been forgotten.',
      )
      return refusalReply(unreadForm(headers, settings), error, { ...settings, suggested: 404 })
    }),
  ]
}

/** The body the standard defines for `check_url`, and nothing else (OTC-78). */
function statusReply(status: WireChallengeStatus): HttpReply {
  return jsonReply(200, JSON.stringify({ status }), { 'cache-control': 'no-store' })
}

/** A challenge nobody met in time has failed, so that polling ends. */
function statusOf(challenge: ChallengeRecord, settings: OtcSettings): WireChallengeStatus {
  const isOver = challenge.status === 'pending' && challenge.expiresAtMs <= settings.clock.nowMs()
  return isOver ? 'failed' : challenge.status
}

function htmlReply(status: number, body: string): HttpReply {
  return { status, headers: { ...PAGE_HEADERS, [OXP_VERSION_HEADER]: PROTOCOL_VERSION }, body }
}
