import { stateOf } from '#core/approvals/approvals'
import type { Gateway } from '#core/calls/gateway'
import { fault } from '#core/errors'
import type { ApprovalRecord, ApprovalState } from '#core/ports/approval-store'
import type { ChallengeRecord } from '#core/ports/store'
import { escapeHtml, PAGE_HEADERS, renderPage } from '#protocols/html-page'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import { unreadForm } from './codec-response.ts'
import { jsonReply, type OtcSettings, openGet, refusalReply } from './reply.ts'
import { OXP_VERSION_HEADER, PROTOCOL_VERSION, type WireChallengeStatus } from './wire.ts'

/** `url` and `check_url` of a challenge. Open: whoever knows the unguessable id may ask how it stands. */
export function challengeRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  return [
    openGet('/challenges/:id', settings, async (request) => {
      const challenge = await gateway.findChallenge(request.params.id ?? '')
      if (challenge === undefined) return htmlReplyInChallengeRoutes(404, unknownChallengePage())
      const status = statusOf(challenge, settings)
      if (settings.askForConsent !== undefined && challenge.consent === true && status === 'pending')
        return await settings.askForConsent(challenge, request)
      return htmlReplyInChallengeRoutes(200, challengePage(challenge, status))
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

function htmlReplyInChallengeRoutes(status: number, body: string): HttpReply {
  return { status, headers: { ...PAGE_HEADERS, [OXP_VERSION_HEADER]: PROTOCOL_VERSION }, body }
}

const STATUS_TEXT = {
  pending: 'This authorization has not been given yet.',
  completed: 'This authorization has been given. You can go back to your agent.',
  failed: 'This request has ended without an authorization. Ask your agent to call the tool again.',
} satisfies Record<WireChallengeStatus, string>

/** What a person sees behind a challenge's `url` whose provider cannot be asked from here (T-16). */
function challengePage(challenge: ChallengeRecord, status: WireChallengeStatus): string {
  const provider = escapeHtml(challenge.provider)
  const scopes = challenge.scopes.length === 0 ? 'none named' : escapeHtml(challenge.scopes.join(', '))
  const example = JSON.stringify(
    { context: { authorization: [{ id: challenge.provider, token: 'YOUR TOKEN' }] } },
    undefined,
    2,
  )
  return renderPage(
    `Authorization for ${challenge.provider}`,
    `<p>${STATUS_TEXT[status]}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(challenge.tool)}</dd><dt>Provider</dt><dd>${provider}</dd><dt>Scopes</dt><dd>${scopes}</dd></dl>
${status === 'pending' ? howToPass(provider, escapeHtml(example)) : ''}`,
  )
}

function unknownChallengePage(): string {
  return renderPage(
    'Unknown request',
    '<p>There is no such authorization request, or it has been forgotten.</p>',
  )
}

function howToPass(provider: string, example: string): string {
  return `<p>This server has no sign-in service for ${provider}. Get a token from the provider yourself and let your agent send it with the call:</p>
<pre>${example}</pre>`
}

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

/** What a person is told about each state; also on the page behind an approver's link. */
export const STATE_TEXT = {
  pending: 'This call waits for an approval. Nothing has been run.',
  granted: 'This call has been approved. It runs when its caller repeats it.',
  used: 'This call was approved and has been run.',
  rejected: 'This call was not approved. It will not run.',
  expired: 'Nobody approved this call in time, or the approval was not used in time. It will not run.',
  cancelled: 'This call was cancelled before it was decided. It will not run.',
} as const satisfies Record<ApprovalState, string>

/** What is told instead of a state that can lead nowhere any more. */
export const STALE_TEXT =
  'The definition of its tool changed since this call was asked about, so it will not run. Make a new call.'

/** What whoever waits for a yes may see: not the input, because the id is no credential. */
function approvalPage(approval: ApprovalRecord, state: ApprovalState, isStale: boolean): string {
  const { id, tool, expiresAtMs, quorum, decisions } = approval
  const until = new Date(expiresAtMs).toISOString()
  const progress = quorum > 1 ? `<dt>Approvers</dt><dd>${decisions.length} of ${quorum}</dd>` : ''
  return renderPage(
    'Approval',
    `<p>${isStale ? STALE_TEXT : STATE_TEXT[state]}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(tool)}</dd><dt>Open until</dt><dd>${until}</dd>${progress}</dl>
${state === 'pending' && !isStale ? howToDecide(id) : ''}`,
  )
}

function unknownApprovalPage(): string {
  return renderPage('Unknown approval', '<p>There is no such approval, or it has been forgotten.</p>')
}

/** A person without a link of its own decides with a credential. */
export function howToDecide(id: string): string {
  const shown = escapeHtml(id)
  return `<p>An operator decides with:</p>
<pre>collet approvals show ${shown}
collet approvals approve ${shown}
collet approvals reject ${shown} --reason TEXT</pre>`
}
