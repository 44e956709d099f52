import { type DecisionResult, hidesSomething, type LinkView } from '#core/approvals/approvals'
import { cleanJson, cleanText, type JsonValue } from '#core/json'
import { escapeHtml, FORM_PAGE_HEADERS, PAGE_HEADERS, renderPage } from '#protocols/html-page'
import type { HttpReply } from '#protocols/http-exchange'
import { howToDecide, STATE_TEXT } from '#protocols/otc/pages'

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
  stale: {
    status: 409,
    text: 'Its definition changed since it was asked; make a new call. Nothing was decided.',
  },
  hidden: {
    status: 409,
    text: 'Some of its input is hidden, and your yes did not say that it is for that too. Open the link again. Nothing was decided.',
  },
  link_only_shows: { status: 403, text: 'This link only shows the call. Deciding needs a credential.' },
} as const satisfies Record<DecisionResult['kind'], { readonly status: number; readonly text: string }>

/** With the two buttons that decide. `path` is that of the link, as the browser sees it. */
export function decidingPage(view: LinkView, path: string, csrf: string): HttpReply {
  const form = (verb: string, label: string, more = '') =>
    `<form method="post" action="${escapeHtml(path)}/${verb}?csrf=${encodeURIComponent(csrf)}${more}"><button type="submit">${label}</button></form>`
  const approve = hidesSomething(view.approval)
    ? form('approve', 'Approve, with what is hidden', '&amp;hidden=accepted')
    : form('approve', 'Approve')
  const content = `${describe(view)}<p>${approve}${form('reject', 'Reject')}</p>`
  return { status: 200, headers: FORM_PAGE_HEADERS, body: renderPage(TITLE, content) }
}

/** Shows, and says how to decide otherwise. */
export function showingPage(view: LinkView): HttpReply {
  const text = '<p>This link only shows the call. Deciding needs a credential.</p>'
  return page(200, TITLE, `${describe(view)}${text}\n${howToDecide(view.approval.id)}`)
}

/** Shows, and leads to the sign-in (rule 23). */
export function signInPage(view: LinkView, path: string): HttpReply {
  const as = escapeHtml(cleanText(view.link.approver))
  return page(
    200,
    TITLE,
    `${describe(view)}<p>This call can be decided after a sign-in only.</p>
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
  const row = (label: string, text: string) => `<dt>${label}</dt><dd>${escapeHtml(cleanText(text))}</dd>`
  // The mark stands before the id: callers choose ids, and how long they are.
  const label = subject.isUserProven ? 'For user' : 'For user (claimed, not proven)'
  const user = subject.userId === undefined ? '' : row(label, subject.userId)
  return `<p>${STATE_TEXT.pending}</p>
<dl>${row('Tool', `${tool} (${tier})`)}${row('Called by', principal)}${user}
${row('Open until', new Date(expiresAtMs).toISOString())}${row('You are', link.approver)}</dl>
${describeInput(subject)}
`
}

/** A summary first, then all of it; what cannot be seen is told, and characters that hide or turn text are spelled out. */
function describeInput(subject: LinkView['approval']['subject']): string {
  const shown = (value: JsonValue) => `<pre>${escapeHtml(cleanJson(value, 2))}</pre>`
  const input: JsonValue = JSON.parse(subject.inputJson)
  const summary: JsonValue = JSON.parse(subject.summaryJson)
  const isShort = cleanJson(summary) === cleanJson(input)
  const hidden =
    subject.hidden === 0
      ? ''
      : `<p><strong>${subject.hidden} of its values ${subject.hidden === 1 ? 'is' : 'are'} hidden</strong>, because the caller sent the same text as a credential that the tool asks for. You do not see them.</p>`
  const partial =
    subject.isPartial === true
      ? '<p><strong>This is not all of the input:</strong> it was asked by an earlier version, which kept a summary only.</p>'
      : ''
  const whole = `<h2>The whole input (${Buffer.byteLength(subject.inputJson)} bytes)</h2>${shown(input)}`
  return `${hidden}${partial}${isShort ? '' : `<h2>Summary</h2>${shown(summary)}`}${whole}`
}
