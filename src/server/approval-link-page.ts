import type { DecisionResult, LinkView } from '#core/approvals/approval-desk'
import { escapeHtml, FORM_PAGE_HEADERS, PAGE_HEADERS, renderPage } from '#protocols/html-page'
import type { HttpReply } from '#protocols/http-exchange'
import { howToDecide, STATE_TEXT } from '#protocols/otc/approval-page'

export const UNKNOWN_LINK = 'This link is not one of ours, or what it was for has been forgotten.'

/** What a decision by link came to. */
export const LINK_ANSWERS = {
  decided: { status: 200, text: 'Your decision counts. You can close this page.' },
  counted: { status: 200, text: 'Your decision counts. More approvers are needed.' },
  resolved: { status: 409, text: 'Somebody decided this before.' },
  expired: { status: 410, text: 'The time for this decision is over.' },
  cancelled: { status: 409, text: 'The call was cancelled, so there is nothing to decide.' },
  not_found: { status: 404, text: UNKNOWN_LINK },
  unauthenticated: { status: 403, text: 'Deciding this needs a credential.' },
  forbidden: { status: 403, text: 'This link may not decide that.' },
  own: { status: 403, text: 'The caller of a tool cannot approve its own call.' },
  link_only_shows: { status: 403, text: 'This link only shows the call. Deciding needs a credential.' },
} as const satisfies Record<DecisionResult['kind'], { readonly status: number; readonly text: string }>

/** With the two buttons that decide. `path` is that of the link, as the browser sees it. */
export function decidingPage(view: LinkView, path: string, csrf: string): HttpReply {
  const form = (verb: string, label: string) =>
    `<form method="post" action="${escapeHtml(path)}/${verb}?csrf=${encodeURIComponent(csrf)}"><button type="submit">${label}</button></form>`
  const content = `${describe(view)}<p>${form('approve', 'Approve')}${form('reject', 'Reject')}</p>`
  return { status: 200, headers: FORM_PAGE_HEADERS, body: renderPage(TITLE, content) }
}

/** Shows, and says how to decide otherwise. */
export function showingPage(view: LinkView): HttpReply {
  const text = '<p>This link only shows the call. Deciding needs a credential.</p>'
  return page(200, TITLE, `${describe(view)}${text}\n${howToDecide(view.approval.id)}`)
}

/** Shows, and leads to the sign-in (rule 23). */
export function signInPage(view: LinkView, path: string): HttpReply {
  const { quorum, tier } = view.approval
  const why = tier === 'exec' ? 'it runs a command' : `it needs ${quorum} approvers`
  const as = escapeHtml(view.link.approver)
  return page(
    200,
    TITLE,
    `${describe(view)}<p>This call can be decided after a sign-in only, because ${why}.</p>
<p><a href="${escapeHtml(path)}/sign-in" rel="noreferrer">Sign in as ${as}</a></p>`,
  )
}

export function wrongApproverPage(path: string): HttpReply {
  return page(
    403,
    'Not for this user',
    `<p>You are signed in as somebody other than whom this link is for. Nothing was decided.</p>
<p><a href="${escapeHtml(path)}/sign-in?as=other" rel="noreferrer">Sign in as another user</a></p>`,
  )
}

export function signInFailedPage(): HttpReply {
  return textPage(
    502,
    'No usable answer',
    'The sign-in did not answer as expected. Nothing was decided. Open the link again in a while.',
  )
}

export function textPage(status: number, title: string, text: string): HttpReply {
  return page(status, title, `<p>${text}</p>`)
}

const TITLE = 'Approve a call?'

function page(status: number, title: string, content: string): HttpReply {
  return { status, headers: PAGE_HEADERS, body: renderPage(title, content) }
}

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
