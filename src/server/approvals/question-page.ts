import type { ApprovalState, DecisionAction } from '#kernel/approval/approval'
import type { Decision, DecisionResult } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import type { ToolError } from '#kernel/base/errors'
import { cleanJson, cleanText, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { SafetyTier } from '#kernel/tool/tool'
import {
  countdownHtml,
  FORM_PAGE_HEADERS,
  factsHtml,
  Html,
  html,
  pageReply,
  timeHtml,
} from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { MAX_REASON_LENGTH, readDecision } from '#server/admin/approvals'
import { commandOnPages } from '#server/own-command'

/** Who looks at a question, and where the buttons of the page lead. */
interface Deciding {
  /** The name under which the decision is recorded. */
  readonly as: string
  /** As the browser sees it; `/approve` and `/reject` are below it. */
  readonly path: string
  readonly csrf: string
}

const TITLE = 'Approve a call?'

/** With a field for the reason, and the two buttons that decide. No key does: what Enter would press in the field is off. */
export function decidingPage(shown: ApprovalView, { as, path, csrf }: Deciding): HttpReply {
  const where = (verb: string, more = '') => `${path}/${verb}?csrf=${encodeURIComponent(csrf)}${more}`
  const approve = shown.hidesSomething
    ? html`<button class="primary" formnovalidate formaction="${where('approve', '&hidden=accepted')}">Approve, including what is hidden</button>`
    : html`<button class="primary" formnovalidate formaction="${where('approve')}">Approve once</button>`
  const foot = html`<form method="post" class="bar"><button disabled hidden></button>
<div><label for="reason">Reason <span>kept in the journal; needed to reject</span></label>
<input id="reason" name="reason" autocomplete="off" maxlength="${MAX_REASON_LENGTH}" required></div>
<div class="acts"><button class="danger" formaction="${where('reject')}">Reject</button>${approve}</div>
<p class="promise">You decide as <b>${cleanText(as)}</b>. Approving runs nothing. The call runs once, exactly as shown, when the caller repeats it.</p></form>`
  return questionPage(shown, { content: questionHtml(shown), foot }, FORM_PAGE_HEADERS)
}

/** Shows all of it; `next` says how it can be decided. */
export function showingPage(shown: ApprovalView, as: string, next: Html): HttpReply {
  return questionPage(shown, { content: html`${questionHtml(shown)}<p>You are ${cleanText(as)}.</p>${next}` })
}

function questionPage(
  shown: ApprovalView,
  parts: { readonly content: Html; readonly foot?: Html },
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  const { tool, safetyTier, expiresAtMs } = shown
  const [, kit = '', name = tool, version = ''] = /^(.*[./])?([^./]+)@(.*)$/.exec(tool) ?? []
  const heading = html`<div class="row"><h1 class="tool"><i>${kit}</i>${name}</h1><span class="mono dim">${version}</span><span class="grow"></span>${tierHtml(safetyTier)}</div>`
  return pageReply(200, { title: TITLE, heading, aside: countdownHtml(expiresAtMs), ...parts }, headers)
}

const TIERS = ['pure', 'read', 'write', 'exec'] as const satisfies readonly SafetyTier[]

/** Bars fill up, and the word stands beside them. */
function tierHtml(tier: SafetyTier): Html {
  const lit = TIERS.indexOf(tier)
  const bars = [7, 4, 1].map(
    (y, index) =>
      html`<rect x="${index * 4.5}" y="${y}" width="3" height="${12 - y}" rx=".75"${index < lit ? '' : new Html(' class="off"')}/>`,
  )
  return html`<span class="tier ${tier}"><svg viewBox="0 0 12 12" aria-hidden="true">${bars}</svg>${tier}</span>`
}

/** For somebody without a page that decides. */
export function howToDecide(id: string): Html {
  return html`<p>An operator decides with:</p>
<pre>${commandOnPages()} approvals show ${id}
${commandOnPages()} approvals approve ${id}
${commandOnPages()} approvals reject ${id} --reason TEXT</pre>
<p>or sends somebody else a link that decides:</p>
<pre>${commandOnPages()} approvals link ${id} --for NAME</pre>`
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
  const facts = factsHtml([
    ['Decision', WORDS[action]],
    ['Tool', tool],
    ...(reason === undefined ? [] : [['Your reason', cleanText(reason)] as const]),
  ])
  const content = html`${facts}
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

/** Everything an approver is asked about: what exactly, then why, who and with what. */
function questionHtml(shown: ApprovalView): Html {
  const { description, needed, principal, userId, isUserProven, quorum, decisions } = shown
  const facts: readonly (readonly [string, string | Html] | undefined)[] = [
    // The mark stands before the id: callers choose ids, and how long they are.
    userId === undefined
      ? undefined
      : [isUserProven ? 'For user' : 'For user (claimed, not proven)', cleanText(userId)],
    description === undefined
      ? undefined
      : ['What it does', html`${cleanText(description)} <span class="dim">The tool's own words</span>`],
    needed === undefined ? undefined : ['Why it waits', WHY[needed]],
    quorum > 1 ? ['Approvers', `${decisions.length} of ${quorum}`] : undefined,
    ['Definition', html`<code>${shortHash(shown.definitionHash)}</code>, the one that is served now`],
  ]
  return html`<p class="soft"><b class="mono">${cleanText(principal)}</b> asks to run this once. Nothing has been run.</p>
<section><h2>Exactly this will be handed to the tool</h2>
${argumentsHtml(shown)}</section>
${factsHtml(facts.filter((fact) => fact !== undefined))}
${exactHtml(shown)}`
}

/** Each argument by its name, the words of a command apart; what cannot be seen is named, and characters that hide or turn text are spelled out. */
function argumentsHtml({ input, summary, hiddenValues, isPartial }: ApprovalView): Html {
  const hidden =
    hiddenValues === 0
      ? ''
      : html`<p class="strange"><strong>${hiddenValues} of its values ${hiddenValues === 1 ? 'is' : 'are'} hidden</strong>, because the caller sent the same text as a credential for the tool. They are not shown to you.</p>`
  const partial = isPartial
    ? html`<p class="strange"><strong>This is not the whole input:</strong> the approval was requested by an earlier version, which kept only a summary.</p>`
    : ''
  const members = isJsonObject(input) ? declaredFirst(input, summary) : []
  const shown =
    members.length === 0
      ? html`<pre>${cleanJson(input, 2)}</pre>`
      : html`<dl class="args">${members.map(([name, value]) => html`<div><dt>${cleanText(name)}</dt>${valueHtml(value)}</div>`)}</dl>`
  return html`${hidden}${partial}${shown}`
}

/** In the order of the summary: a caller must not push what the tool acts on out of sight with members that mean nothing. */
function declaredFirst(input: JsonObject, summary: JsonValue): readonly (readonly [string, JsonValue])[] {
  const order = isJsonObject(summary) ? Object.keys(summary) : []
  const placeOf = (name: string) => (order.includes(name) ? order.indexOf(name) : order.length)
  return Object.entries(input).toSorted(([left], [right]) => placeOf(left) - placeOf(right))
}

const MAX_SHOWN_LENGTH = 600
const SHOWN_OF_LONG = 200

function valueHtml(value: JsonValue): Html {
  const text = typeof value === 'string' ? wordOf(value) : cleanJson(value, 2)
  if (text.length > MAX_SHOWN_LENGTH)
    return html`<dd><details><summary>${text.slice(0, SHOWN_OF_LONG).toWellFormed()}… (${text.length} characters)</summary><pre>${text}</pre></details></dd>`
  if (Array.isArray(value) && value.length > 0 && value.every((part) => typeof part !== 'object'))
    return html`<dd class="argv">${value.map((part) => html`<code>${wordOf(part)}</code>`)}</dd>`
  return typeof value === 'string' ? html`<dd>${text}</dd>` : html`<dd><code>${text}</code></dd>`
}

/** A text that reads like another kind of value, or like nothing, is quoted: `"5"` is not `5`. */
function wordOf(value: JsonValue): string {
  if (typeof value !== 'string') return cleanJson(value)
  const isMistakable = value.trim() !== value || /^(?:|-?\d[\d.e+-]*|true|false|null|".*")$/is.test(value)
  return isMistakable ? cleanJson(value) : cleanLines(value)
}

function cleanLines(text: string): string {
  return text.split('\n').map(cleanText).join('\n')
}

/** The same for machines: the input as JSON, and what names the call. */
function exactHtml(shown: ApprovalView): Html {
  const { input, inputBytes, callId, record, argsHash, definitionHash, expiresAtMs } = shown
  const facts = factsHtml([
    ['Open until', timeHtml(expiresAtMs)],
    ['Call', html`<code>${cleanText(callId === '' ? record : callId)}</code>`],
    ['Input hash', html`<code>${argsHash}</code>`],
    ['Definition', html`<code>${definitionHash}</code>`],
  ])
  return html`<details><summary>Exact input as JSON (${inputBytes} bytes), call and hashes</summary>
<pre>${cleanJson(input, 2)}</pre>${facts}</details>`
}

function shortHash(hash: string): string {
  return `${hash.slice(0, 4)}…${hash.slice(-4)}`
}
