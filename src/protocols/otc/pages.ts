import type { ApprovalState } from '#kernel/approval/approval'
import { fault } from '#kernel/base/errors'
import type { Gateway } from '#kernel/call/gateway'
import type { ChallengeRecord } from '#kernel/call/stages'
import { factsHtml, type Html, html, pageReply } from '#protocols/html-page'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { type ConsentObstacle, explainObstacle } from '#stages/credentials/consent-obstacles'
import { providerLines } from '#stages/credentials/provider-lines'
import { jsonReply, refusalReply, unreadForm } from './codec-response.ts'
import { type OtcSettings, openGet } from './settings.ts'
import { OXP_VERSION_HEADER, PROTOCOL_VERSION, type WireChallengeStatus } from './wire.ts'

/*
 * The routes behind the `url` and `check_url` of challenges and the `check_url` of approvals. `routes.ts` registers them; the approval
 * page of `collet mcp` uses the status route too.
 * Invariant: a route shows only the challenge or approval whose id is in its path. It needs no credential, because the id cannot be
 * guessed.
 */

export function challengeRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  return [
    openGet('/challenges/:id', settings, async (request) => {
      const challenge = await gateway.findChallenge(request.params.id ?? '')
      if (challenge === undefined) {
        return pageReply(404, { title: 'Unknown request', content: html`<p>${NO_CHALLENGE}</p>` }, HEADERS)
      }
      const status = statusOf(challenge, settings)
      const { consents } = settings
      const obstacle = consents === undefined ? 'no_provider' : consents.obstacle(challenge)
      if (consents !== undefined && obstacle === undefined && status === 'pending')
        return await consents.open(challenge, request)
      return challengePage(challenge, status, obstacle)
    }),
    openGet('/challenges/:id/status', settings, async ({ params, headers }) => {
      const challenge = await gateway.findChallenge(params.id ?? '')
      if (challenge !== undefined) return statusReply(statusOf(challenge, settings))
      return notFoundReply(headers, settings, NO_CHALLENGE)
    }),
  ]
}

/** The body that the standard defines for `check_url`, with no other member (OTC-78). */
function statusReply(status: WireChallengeStatus): HttpReply {
  return jsonReply(200, JSON.stringify({ status }), { 'cache-control': 'no-store' })
}

/** A challenge that was not completed in time counts as failed, so that polling ends. */
function statusOf(challenge: ChallengeRecord, settings: OtcSettings): WireChallengeStatus {
  const isExpired = challenge.status === 'pending' && challenge.expiresAtMs <= settings.clock.nowMs()
  return isExpired ? 'failed' : challenge.status
}

const NO_CHALLENGE = 'There is no such authorization request, or it has been deleted.'
const HEADERS = { [OXP_VERSION_HEADER]: PROTOCOL_VERSION }

function notFoundReply(headers: HttpRequest['headers'], settings: OtcSettings, message: string): HttpReply {
  const error = fault('request_invalid', message)
  return refusalReply(unreadForm(headers, settings), error, { ...settings, suggested: 404 })
}

const STATUS_TEXT = {
  pending: 'This authorization has not been given yet.',
  completed: 'Access has been granted. You can go back to your agent.',
  failed: 'This request has ended without an authorization. Ask your agent to call the tool again.',
} satisfies Record<WireChallengeStatus, string>

/** The page behind a challenge's `url` if its user cannot be sent to the provider (OTC/T-16). */
function challengePage(
  { provider, tool, scopes, principal }: ChallengeRecord,
  status: WireChallengeStatus,
  obstacle: ConsentObstacle | undefined,
): HttpReply {
  const isExplained = status === 'pending' && obstacle !== undefined
  const content = html`<p>${STATUS_TEXT[status]}</p>
${factsHtml([
  ['Tool', tool],
  ['Provider', provider],
  ['Scopes', scopes.length === 0 ? 'none named' : scopes.join(', ')],
])}
${isExplained ? explanationHtml(obstacle, { provider, scopes, principal }) : ''}`
  return pageReply(200, { title: `Authorization for ${provider}`, content }, HEADERS)
}

function explanationHtml(obstacle: ConsentObstacle, terms: Parameters<typeof explainObstacle>[1]): Html {
  const { provider } = terms
  const { reason, operator } = explainObstacle(obstacle, terms)
  const call = { context: { authorization: [{ id: provider, token: 'YOUR TOKEN' }] } }
  return html`<p>${reason}${operator === undefined ? ' Name the user, and call the tool again.' : ' Ask the operator of this server to change that.'}</p>
${
  operator === undefined
    ? ''
    : html`<h2>For the operator</h2>
<p>${operator}</p>`
}
${obstacle === 'no_provider' ? html`<pre>${providerLines(provider).join('\n')}</pre>` : ''}
<h2>Without this authorization</h2>
<p>Get a token from ${provider} yourself, and let your agent send it with the call:</p>
<pre>${JSON.stringify(call, undefined, 2)}</pre>`
}

/**
 * `check_url` of a call that waits for an approval. The page behind its `url` is served by the server itself,
 * for every protocol.
 */
export function approvalStatusRoute(gateway: Pick<Gateway, 'approvals'>, settings: OtcSettings): HttpRoute {
  return openGet('/approvals/:id/status', settings, async ({ params, headers }) => {
    const approval = await gateway.approvals.findById(params.id ?? '')
    if (approval !== undefined) {
      const { isStale, state } = gateway.approvals.view(approval)
      return statusReply(isStale ? 'failed' : STATUSES[state])
    }
    return notFoundReply(headers, settings, 'There is no such approval, or it has been deleted.')
  })
}

/** Approval states in the vocabulary of `check_url` (OTC-78). */
const STATUSES = {
  pending: 'pending',
  granted: 'completed',
  used: 'completed',
  rejected: 'failed',
  expired: 'failed',
  cancelled: 'failed',
} as const satisfies Record<ApprovalState, WireChallengeStatus>
