import { randomBytes } from 'node:crypto'
import {
  type ApprovalDesk,
  type DecisionResult,
  type LinkView,
  mayDecideByLink,
  stateOf,
} from '#core/approvals/approval-desk'
import { isSame } from '#core/approvals/approval-link'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Clock } from '#core/ports/clock'
import { escapeHtml, FORM_PAGE_HEADERS, PAGE_HEADERS, renderPage } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { howToDecide, STATE_TEXT } from '#protocols/otc/approval-page'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

export interface ApprovalLinkOptions {
  readonly approvals: ApprovalDesk
  readonly sign: ApprovalStore['sign']
  readonly clock: Clock
  publicUrl(): string
}

const COOKIE = 'collet_approver'
const NONCE_BYTES = 18

/**
 * The page behind an approver's one-time link (rule 23). `GET` only shows; a decision is a `POST` from that page, in the
 * browser that opened it: its cookie and the form's token belong together, and another site can make neither.
 */
export function createApprovalLinks(options: ApprovalLinkOptions): readonly ServerRoute[] {
  const shared = { access: 'open', body: 'never', refuse: refuseWithMessage } as const
  return [
    {
      ...shared,
      method: 'GET',
      path: '/approve/:token',
      handle: (request) => showPage(request, options),
    },
    {
      ...shared,
      method: 'POST',
      path: '/approve/:token/:verb',
      handle: (request) => decideFromPage(request, options),
    },
  ]
}

async function showPage({ params }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const view = await options.approvals.readLink(token)
  if (view === undefined) return plainPage(404, 'Unknown link', UNKNOWN)
  const state = stateOf(view.approval, options.clock.nowMs())
  if (state === 'expired' || (view.isOver && state === 'pending')) {
    return plainPage(410, 'Approval', STATE_TEXT.expired)
  }
  if (state !== 'pending') return plainPage(409, 'Approval', STATE_TEXT[state])
  const isForm = view.link.power === 'decide' && mayDecideByLink(view.approval)
  if (!isForm) {
    return page(
      200,
      `${describe(view)}<p>This link only shows the call. Deciding needs a credential.</p>
${howToDecide(view.approval.id)}`,
    )
  }
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  const csrf = options.sign('csrf', JSON.stringify([token, nonce]))
  const secure = options.publicUrl().startsWith('https:') ? '; Secure' : ''
  const reply = page(200, `${describe(view)}${forms(token, csrf)}`)
  const cookie = `${COOKIE}=${nonce}; Path=/approve; HttpOnly; SameSite=Strict${secure}`
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } }
}

const VERBS: Readonly<Record<string, 'grant' | 'reject'>> = { approve: 'grant', reject: 'reject' }

async function decideFromPage(request: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const { token = '', verb = '' } = request.params
  const action = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined
  const view = await options.approvals.readLink(token)
  if (view === undefined || action === undefined) return plainPage(404, 'Unknown link', UNKNOWN)
  if (!isFromPage(request, options, token)) {
    return plainPage(403, 'Not decided', 'Open the link again and decide on that page. Nothing was decided.')
  }
  const result = await options.approvals.decideByLink(view, { action, reason: undefined })
  const { status, text } = ANSWERS[result.kind]
  return plainPage(status, 'Approval', text)
}

/** Its own page, in the browser that opened it: Fetch Metadata, and a cookie that fits the form's token. */
function isFromPage({ headers, query }: HttpRequest, { sign }: ApprovalLinkOptions, token: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return false
  const nonce = readCookie(headers.cookie)
  const csrf = query.get('csrf')
  if (nonce === undefined || csrf === null) return false
  return isSame(sign('csrf', JSON.stringify([token, nonce])), csrf)
}

function readCookie(header: string | undefined): string | undefined {
  const pairs = (header ?? '').split(';').map((pair) => pair.trim())
  return pairs.find((pair) => pair.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1)
}

const UNKNOWN = 'This link is not one of ours, or what it was for has been forgotten.'

const ANSWERS = {
  decided: { status: 200, text: 'Your decision counts. You can close this page.' },
  counted: { status: 200, text: 'Your decision counts. More approvers are needed.' },
  resolved: { status: 409, text: 'Somebody decided this before.' },
  expired: { status: 410, text: 'The time for this decision is over.' },
  cancelled: { status: 409, text: 'The call was cancelled, so there is nothing to decide.' },
  not_found: { status: 404, text: UNKNOWN },
  unauthenticated: { status: 403, text: 'Deciding this needs a credential.' },
  forbidden: { status: 403, text: 'This link may not decide that.' },
  own: { status: 403, text: 'The caller of a tool cannot approve its own call.' },
  link_only_shows: { status: 403, text: 'This link only shows the call. Deciding needs a credential.' },
} as const satisfies Record<DecisionResult['kind'], { readonly status: number; readonly text: string }>

function describe({ approval, link }: LinkView): string {
  const { tool, tier, principal, subject, expiresAtMs } = approval
  const input = JSON.stringify(JSON.parse(subject.summaryJson), undefined, 2)
  const user = subject.userId === undefined ? '' : `<dt>For user</dt><dd>${escapeHtml(subject.userId)}</dd>`
  return `<p>${STATE_TEXT.pending}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(tool)} (${tier})</dd><dt>Called by</dt><dd>${escapeHtml(principal)}</dd>${user}
<dt>Open until</dt><dd>${new Date(expiresAtMs).toISOString()}</dd><dt>You are</dt><dd>${escapeHtml(link.approver)}</dd>
<dt>Input, without secrets</dt><dd><pre>${escapeHtml(input)}</pre></dd></dl>
`
}

function forms(token: string, csrf: string): string {
  const form = (verb: string, label: string) =>
    `<form method="post" action="/approve/${escapeHtml(token)}/${verb}?csrf=${encodeURIComponent(csrf)}"><button type="submit">${label}</button></form>`
  return `<p>${form('approve', 'Approve')}${form('reject', 'Reject')}</p>`
}

function page(status: number, content: string): HttpReply {
  return { status, headers: FORM_PAGE_HEADERS, body: renderPage('Approve a call?', content) }
}

function plainPage(status: number, title: string, text: string): HttpReply {
  return { status, headers: PAGE_HEADERS, body: renderPage(title, `<p>${text}</p>`) }
}
