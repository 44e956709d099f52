import type { Decision, DecisionResult } from '#core/approvals/approvals'
import type { ApprovalView } from '#core/approvals/decisions'
import type { ToolError } from '#core/errors'
import { cleanJson, cleanText, isJsonObject, type JsonValue } from '#core/json'
import type { ApprovalState, DecisionAction } from '#core/ports/approval-store'
import { FORM_PAGE_HEADERS, type Html, html, pageReply, timeHtml } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { LONGEST_REASON, readDecision } from '#server/admin/approvals'

/** Who looks at a question, and where the buttons of the page lead. */
interface Deciding {
  /** The name under which the decision is recorded. */
  readonly as: string
  /** As the browser sees it; `/approve` and `/reject` are below it. */
  readonly path: string
  readonly csrf: string
}

const TITLE = 'Approve a call?'

/** With a field for the reason, and the two buttons that decide. */
export function decidingPage(shown: ApprovalView, { as, path, csrf }: Deciding): HttpReply {
  const button = (verb: string, label: string, more = '') =>
    html`<button type="submit" formaction="${path}/${verb}?csrf=${encodeURIComponent(csrf)}${more}">${label}</button>`
  const approve = shown.hidesSomething
    ? button('approve', 'Approve, including what is hidden', '&hidden=accepted')
    : button('approve', 'Approve')
  const content = html`${questionHtml(shown, as)}
<form method="post"><label for="reason">Reason (may be left empty; the caller can read it)</label>
<textarea id="reason" name="reason" rows="2" maxlength="${LONGEST_REASON}"></textarea>
${approve}${button('reject', 'Reject')}</form>`
  return pageReply(200, { title: TITLE, content }, FORM_PAGE_HEADERS)
}

/** Shows all of it; `next` says how it can be decided. */
export function showingPage(shown: ApprovalView, as: string, next: Html): HttpReply {
  return pageReply(200, { title: TITLE, content: html`${questionHtml(shown, as)}${next}` })
}

/** For somebody without a page that decides. */
export function howToDecide(id: string): Html {
  return html`<p>An operator decides with:</p>
<pre>npx collet approvals show ${id}
npx collet approvals approve ${id}
npx collet approvals reject ${id} --reason TEXT</pre>
<p>or sends somebody else a link that decides:</p>
<pre>npx collet approvals link ${id} --for NAME</pre>`
}

/** What a person reads about each state. */
export const STATE_TEXT = {
  pending: 'This call waits for an approval. Nothing has been run.',
  granted: 'This call has been approved. It runs when its caller repeats it.',
  used: 'This call was approved and has been run.',
  rejected: 'This call was not approved. It will not run.',
  expired: 'This call was not approved in time, or its approval was not used in time. It will not run.',
  cancelled: 'This call was cancelled before it was decided. It will not run.',
} as const satisfies Record<ApprovalState, string>

/** What a person reads instead of a state that can lead nowhere any more. */
export const STALE_TEXT =
  'The definition of its tool has changed since approval was requested, so this call will not run. Make a new call.'

/** A page that was made by nobody here, or whose subject is forgotten. */
export const UNKNOWN_APPROVAL = 'There is no such approval, or it is no longer kept.'

export function textPage(status: number, title: string, text: string): HttpReply {
  return pageReply(status, { title, content: html`<p>${text}</p>` })
}

/** People read what was wrong with their request on a page too. */
export function refuseOnPage(_request: unknown, error: ToolError, status: number): HttpReply {
  return textPage(status, 'Not possible', error.message)
}

const VERBS = ['approve', 'reject'] as const

/** What was pressed on a deciding page; `undefined` for a button that it does not have. */
export function readPressed({ params, query, body }: HttpRequest): Decision | undefined {
  const verb = VERBS.find((known) => known === params.verb)
  if (verb === undefined) return undefined
  const { reason } = isJsonObject(body) ? body : {}
  const isHiddenAccepted = query.get('hidden') === 'accepted'
  return readDecision(verb, {
    ...(reason === undefined ? {} : { reason }),
    ...(isHiddenAccepted ? { acceptHidden: true } : {}),
  })
}

/** What came of a decision; a person who decided reads which decision it was. */
export function decidedPage(result: DecisionResult, { action, reason }: Decision, tool: string): HttpReply {
  if (result.kind !== 'decided' && result.kind !== 'counted') {
    const { status, text } = REFUSALS[result.kind]
    const now = 'approval' in result ? html` ${STATE_TEXT[result.approval.state]}` : ''
    const content = html`<p>${text}${result.kind === 'resolved' ? now : ''}</p>`
    return pageReply(status, { title: 'Not decided', content })
  }
  const { quorum, decisions } = result.approval
  const [title, text] =
    result.kind === 'counted'
      ? [
          'Approval recorded',
          `${decisions.length} of ${quorum} approvers have approved it. More approvers are needed before it runs.`,
        ]
      : DECIDED[action]
  const why = reason === undefined ? '' : html`<dt>Your reason</dt><dd>${cleanText(reason)}</dd>`
  const content = html`<dl><dt>Your decision</dt><dd>${WORDS[action]}</dd><dt>Tool</dt><dd>${tool}</dd>${why}</dl>
<p>${text}</p>
<p>You can close this page.</p>`
  return pageReply(200, { title, content })
}

const WORDS = {
  grant: 'approved',
  override: 'approved',
  reject: 'rejected',
} as const satisfies Record<DecisionAction, string>

const APPROVED = [
  'You approved this call',
  'It runs when its caller makes the same call again. Go back to your agent and tell it to go on.',
] as const

const DECIDED = {
  grant: APPROVED,
  override: APPROVED,
  reject: ['You rejected this call', 'It will not run. Its caller learns that when it calls again.'],
} as const satisfies Record<DecisionAction, readonly [string, string]>

type Refusal = Exclude<DecisionResult['kind'], 'decided' | 'counted'>

const REFUSALS = {
  resolved: { status: 409, text: 'This has already been decided.' },
  expired: { status: 410, text: 'The time to decide has run out.' },
  cancelled: { status: 409, text: 'The call was cancelled, so there is nothing to decide.' },
  not_found: { status: 404, text: UNKNOWN_APPROVAL },
  unauthenticated: { status: 403, text: 'Deciding this requires a credential.' },
  forbidden: { status: 403, text: 'You may not decide that.' },
  own: { status: 403, text: 'The caller of a tool cannot approve its own call.' },
  stale: {
    status: 409,
    text: 'The definition of the tool has changed since the approval was requested; make a new call. Nothing was decided.',
  },
  hidden: {
    status: 409,
    text: 'Some of the input is hidden, and your approval did not include what is hidden. Open the page again. Nothing was decided.',
  },
  link_only_shows: { status: 403, text: 'This link only shows the call. Deciding requires a credential.' },
} as const satisfies Record<Refusal, { readonly status: number; readonly text: string }>

const WHY = {
  always: 'Every call of this tool needs approval.',
  conditional: 'The conditions of the config ask for approval of this call.',
  never: 'Approval was asked for when the call was made.',
} as const satisfies Record<NonNullable<ApprovalView['needed']>, string>

/** Everything an approver is asked about: the tool and what it does, who calls, why it asks, until when, and the whole input. */
function questionHtml(shown: ApprovalView, as: string): Html {
  const { tool, description, needed, safetyTier, principal, userId, isUserProven, quorum, decisions } = shown
  const row = (label: string, text: string) => html`<dt>${label}</dt><dd>${cleanText(text)}</dd>`
  // The mark stands before the id: callers choose ids, and how long they are.
  const userLabel = isUserProven ? 'For user' : 'For user (claimed, not proven)'
  return html`<p>${STATE_TEXT.pending}</p>
<dl>${row('Tool', `${tool} (${safetyTier})`)}
${description === undefined ? '' : row('What it says it does', description)}
${row('Called by', principal)}${userId === undefined ? '' : row(userLabel, userId)}
${needed === undefined ? '' : row('Why you are asked', WHY[needed])}
${quorum > 1 ? row('Approvers', `${decisions.length} of ${quorum}`) : ''}
<dt>Open until</dt><dd>${timeHtml(shown.expiresAtMs)}</dd>
${row('You are', as)}</dl>
${inputHtml(shown)}
`
}

/** A summary first, then all of it; what cannot be seen is named, and characters that hide or turn text are spelled out. */
function inputHtml({ input, summary, inputBytes, hiddenValues, isPartial }: ApprovalView): Html {
  const block = (value: JsonValue) => html`<pre>${cleanJson(value, 2)}</pre>`
  const isShort = cleanJson(summary) === cleanJson(input)
  const hidden =
    hiddenValues === 0
      ? ''
      : html`<p><strong>${hiddenValues} of its values ${hiddenValues === 1 ? 'is' : 'are'} hidden</strong>, because the caller sent the same text as a credential for the tool. They are not shown to you.</p>`
  const partial = isPartial
    ? html`<p><strong>This is not the whole input:</strong> the approval was requested by an earlier version, which kept only a summary.</p>`
    : ''
  const whole = html`<h2>The whole input (${inputBytes} bytes)</h2>${block(input)}`
  return html`${hidden}${partial}${isShort ? '' : html`<h2>Summary</h2>${block(summary)}`}${whole}`
}
