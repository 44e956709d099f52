import { MAX_REASON_LENGTH } from '#admin-api/approvals'
import type { ApprovalState } from '#kernel/approval/approval'
import type { Decision, DecisionResult } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import { cleanJson, cleanText, isJsonObject } from '#kernel/base/json'
import {
  FORM_PAGE_HEADERS,
  factsHtml,
  type Html,
  html,
  pageReply,
  textPage,
  timeHtml,
} from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { approvalAfter, readDecision, renderQuestion } from '#server/admin/approvals'
import { commandOnPages } from '#server/own-command'

/*
 * The page on which a person decides one call, used by approval links and by the local approval pages.
 * The screen itself is the console's: the server embeds the data into the built `approval.html`, together with a plain
 * version of the page that works without the script. Without a built console the plain version is the page.
 * Invariant: showing a page decides nothing; every decision is a form post to the addresses in `NextStep` (rule 23).
 */

export interface ApprovalPageOptions {
  /** The console's page for one approval; `undefined` if the console is off or not built. */
  approvalPage(): Promise<string | undefined>
}

/** What the person who sees the page can do: decide, sign in first, or run a command. */
export type NextStep =
  | { readonly kind: 'decide'; readonly approve: string; readonly reject: string }
  | { readonly kind: 'sign_in'; readonly url: string }
  | { readonly kind: 'command'; readonly commands: readonly string[] }

/** Embedded into the page; `console/src/approval-link.tsx` reads it. */
interface PageData {
  readonly approval: ReturnType<typeof renderQuestion>
  /** The name under which a decision is recorded. */
  readonly as: string
  readonly next: NextStep
}

const TITLE = 'Approve a call?'
/** The element of `approval.html` that the server replaces with the page's content. */
const PLACEHOLDER = '<div id="approval"></div>'

/** The page loads only files of this server and makes no requests, and its forms post to this server. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

/** Holders of a link see how many other approvers have decided, not their names and reasons. */
export async function approvalPageReply(
  view: ApprovalView,
  { as, next, isLink }: Pick<PageData, 'as' | 'next'> & { readonly isLink: boolean },
  { approvalPage }: ApprovalPageOptions,
): Promise<HttpReply> {
  const shown = renderQuestion(view)
  const decisions = shown.decisions.map((decision) => ({ ...decision, by: 'another approver', reason: null }))
  const data: PageData = { approval: isLink ? { ...shown, decisions } : shown, as, next }
  const content = plainHtml(data)
  const page = await approvalPage()
  if (page === undefined) return pageReply(200, { title: TITLE, content }, FORM_PAGE_HEADERS)
  const { text } =
    html`<div id="approval" data-page="${JSON.stringify(data)}"><main class="no-script"><h1>${TITLE}</h1>
${content}</main></div>`
  const headers = { ...FORM_PAGE_HEADERS, 'content-security-policy': POLICY }
  return { status: 200, headers, body: page.replace(PLACEHOLDER, () => text) }
}

/** Addresses of the two buttons; the token in them belongs to this page. */
export function decideAt(path: string, csrf: string, { hidesSomething }: ApprovalView): NextStep {
  const query = `?csrf=${encodeURIComponent(csrf)}`
  const approve = `${path}/approve${query}${hidesSomething ? '&hidden=accepted' : ''}`
  return { kind: 'decide', approve, reject: `${path}/reject${query}` }
}

/** The next step of people who cannot decide on the page. */
export function decideByCommand(id: string): Extract<NextStep, { readonly kind: 'command' }> {
  const verbs = [`show ${id}`, `approve ${id}`, `reject ${id} --reason TEXT`, `link ${id} --for NAME`]
  return { kind: 'command', commands: verbs.map((verb) => `${commandOnPages()} approvals ${verb}`) }
}

const REASONS = {
  always: 'Every call of this tool needs approval.',
  conditional: 'An approval rule in the config applies to this call.',
  never: 'Approval was required when the call was made.',
} as const satisfies Record<NonNullable<ApprovalView['needed']>, string>

function plainHtml({ approval, as, next }: PageData): Html {
  const { tool, principal, tenant, description, needed, quorum, decisions, hidden_values: hidden } = approval
  const user = approval.user_proven ? 'User' : 'User (claimed, not proven)'
  const credentials = approval.credentials.map(({ id }) => cleanText(id)).join(', ')
  const facts: readonly (readonly [string, string | Html | null])[] = [
    ['Tool', `${tool}, ${approval.safety_tier}`],
    ['Caller', `${cleanText(principal)} of the tenant ${cleanText(tenant)}`],
    // The label says whether the user is proven, because callers choose the text and length of the id beside it.
    [user, approval.user_id === null ? null : cleanText(approval.user_id)],
    ["Tool's description", description === null ? null : cleanText(description)],
    ['Approval rule', needed === null ? null : REASONS[needed]],
    ['Approvers', quorum > 1 ? `${decisions.length} of ${quorum}` : null],
    ['Credentials', credentials === '' ? null : credentials],
    ['Expires', timeHtml(Date.parse(approval.expires_at))],
    ['Call', cleanText(approval.call_id === '' ? approval.record : approval.call_id)],
    ['Input hash', approval.args_hash],
    ['Definition', approval.definition_hash],
  ]
  const warning =
    hidden > 0
      ? `${hidden} of the values below ${hidden === 1 ? 'is' : 'are'} hidden, because the caller sent the same text as a credential.`
      : 'Part of the input was not kept and is not shown.'
  return html`${factsHtml(facts.flatMap(([name, fact]) => (fact === null ? [] : [[name, fact]])))}
${approval.hides_something ? html`<p><strong>${warning}</strong></p>` : ''}
<h2>Arguments (${approval.input_bytes} bytes)</h2>
<pre>${inputJson(approval)}</pre>
${nextHtml(next, cleanText(as), approval.hides_something)}`
}

function nextHtml(next: NextStep, as: string, hidesSomething: boolean): Html {
  if (next.kind === 'command') return commandsHtml(next)
  if (next.kind === 'sign_in')
    return html`<p>You can decide this call after signing in.</p>
<p><a href="${next.url}" rel="noreferrer">Sign in as ${as}</a></p>`
  // Enter in the field presses the first button, which is disabled.
  return html`<form method="post"><button disabled hidden></button>
<label for="reason">Reason (recorded in the journal; required to reject)</label>
<input id="reason" name="reason" autocomplete="off" maxlength="${MAX_REASON_LENGTH}" required>
<button formaction="${next.reject}">Reject</button>
<button formaction="${next.approve}" formnovalidate>${hidesSomething ? 'Approve once, including hidden input' : 'Approve once'}</button></form>
<p>You decide as ${as}. Approving runs nothing. The call runs once, exactly as shown, when the caller repeats it.</p>`
}

export function commandsHtml({ commands }: ReturnType<typeof decideByCommand>): Html {
  return html`<p>The call cannot be decided on this page. An operator decides it with one of these commands, or sends another person a link:</p>
<pre>${commands.join('\n')}</pre>`
}

/** The whole input. Declared parameters come first, so that a caller cannot push them out of sight with other members. */
function inputJson({ input, summary }: PageData['approval']): string {
  if (!isJsonObject(input)) return cleanJson(input, 2)
  const declared = isJsonObject(summary) ? Object.keys(summary) : []
  const positionOf = (name: string) => (declared.includes(name) ? declared.indexOf(name) : declared.length)
  const members = Object.entries(input)
    .toSorted(([left], [right]) => positionOf(left) - positionOf(right))
    .map(([name, value]) => `  ${cleanJson(name)}: ${cleanJson(value, 2).replaceAll('\n', '\n  ')}`)
  return `{\n${members.join(',\n')}\n}`
}

/** The decision behind a pressed button; `undefined` for a button that the page does not have. */
export function readPressedButton({ params: { verb }, query, body }: HttpRequest): Decision | undefined {
  if (verb !== 'approve' && verb !== 'reject') return undefined
  const { reason } = isJsonObject(body) ? body : {}
  return readDecision(verb, { reason, accept_hidden: query.get('hidden') === 'accepted' })
}

/** The page after a decision. A refused decision throws, or shows the state that prevented it. */
export function decidedPage(result: DecisionResult, { action, reason }: Decision, tool: string): HttpReply {
  if (result.kind === 'resolved' || result.kind === 'expired' || result.kind === 'cancelled')
    return closedPage(result.kind === 'expired' ? 'expired' : result.approval.state, 'Not decided')
  const { quorum, decisions } = approvalAfter(result)
  const isRejected = action === 'reject'
  const next =
    result.kind === 'counted'
      ? `${decisions.length} of ${quorum} approvers have approved it. More approvers are needed before it runs.`
      : isRejected
        ? 'It will not run. The caller gets the rejection when it calls again.'
        : 'It runs when the caller repeats it. Go back to your agent and tell it to continue.'
  const content = html`${factsHtml([
    ['Tool', tool],
    ...(reason === undefined ? [] : [['Your reason', cleanText(reason)] as const]),
  ])}
<p>${next}</p>
<p>You can close this page.</p>`
  return pageReply(200, { title: `You ${isRejected ? 'rejected' : 'approved'} this call`, content })
}

/** The page for an approval that can no longer be decided. */
export function closedPage(state: ApprovalState, title = 'Approval'): HttpReply {
  return textPage(state === 'expired' ? 410 : 409, title, STATE_TEXT[state])
}

export const STATE_TEXT = {
  pending: 'This call waits for an approval. Nothing has been run.',
  granted: 'This call has been approved. It runs when its caller repeats it.',
  used: 'This call was approved and has been run.',
  rejected: 'This call was not approved. It will not run.',
  expired: 'This call was not approved in time, or its approval was not used in time. It will not run.',
  cancelled: 'This call was cancelled before it was decided. It will not run.',
} as const satisfies Record<ApprovalState, string>

export const STALE_TEXT =
  'The definition of its tool has changed since approval was requested, so this call will not run. Make a new call.'

export const UNKNOWN_APPROVAL = 'There is no such approval, or it is no longer kept.'
