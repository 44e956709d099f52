import { randomBytes } from 'node:crypto'
import type { Approvals, DecisionResult, LinkView } from '#core/approvals/approvals'
import type { ApprovalView } from '#core/approvals/decisions'
import { isSameSecret } from '#core/hash'
import { cleanJson, cleanText, type JsonValue } from '#core/json'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Clock, Logger } from '#core/runtime'
import type { ApproverSignIn } from '#oauth/consent'
import type { Arrival } from '#oauth/round-trips'
import { FORM_PAGE_HEADERS, type Html, html, pageReply } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { howToDecide, STALE_TEXT, STATE_TEXT } from '#protocols/otc/pages'
import { refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'

interface ApprovalLinkOptions {
  readonly approvals: Approvals
  readonly sign: ApprovalStore['sign']
  readonly signIn: ApproverSignIn
  readonly clock: Clock
  readonly log: Logger
  publicUrl(): string
}

interface ApprovalLinks {
  readonly routes: readonly ServerRoute[]
  /** An approver who comes back from the sign-in. */
  finishSignIn(arrival: Arrival): Promise<HttpReply>
}

const COOKIE = 'collet_approver'

/**
 * The page behind an approver's one-time link (rule 23). `GET` only shows; a decision is a `POST` from that page, in the
 * browser that opened it: its cookie and the form's token belong together, and another site can make neither. Where a
 * link is too little, only the browser that signed in as its approver gets the form.
 */
export function createApprovalLinks(options: ApprovalLinkOptions): ApprovalLinks {
  const shared = { access: 'open', body: 'never', refuse: refuseWithMessage } as const
  return {
    finishSignIn: (arrival) => finishSignIn(arrival, options),
    routes: [
      {
        ...shared,
        method: 'GET',
        path: '/approve/:token',
        handle: (request) => showPage(request, options),
      },
      {
        ...shared,
        method: 'GET',
        path: '/approve/:token/sign-in',
        handle: (request) => startSignIn(request, options),
      },
      {
        ...shared,
        method: 'POST',
        path: '/approve/:token/:verb',
        handle: (request) => decideFromPage(request, options),
      },
    ],
  }
}

/** A link, and what there is to show of its question. */
interface OpenLink extends LinkView {
  readonly shown: ApprovalView
}

type Opened = { readonly view: OpenLink } | { readonly over: HttpReply }

/** A link to a question that is still open, or the page that says what became of it. */
async function open(token: string, { approvals }: ApprovalLinkOptions): Promise<Opened> {
  const view = await approvals.readLink(token)
  if (view === undefined) return { over: textPage(404, 'Unknown link', UNKNOWN_LINK) }
  const shown = approvals.view(view.approval)
  const { state, isStale } = shown
  if (state === 'expired' || (view.isExpired && state === 'pending')) {
    return { over: textPage(410, 'Approval', STATE_TEXT.expired) }
  }
  if (isStale) return { over: textPage(409, 'Approval', STALE_TEXT) }
  if (state !== 'pending') return { over: textPage(409, 'Approval', STATE_TEXT[state]) }
  return { view: { ...view, shown } }
}

async function showPage({ params }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const opened = await open(token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide') return showingPage(view)
  if (!options.approvals.needsSignIn(view.approval))
    return formPage(view, token, { signedIn: undefined }, options)
  return options.signIn.isConfigured ? signInPage(view, pathOf(options, token)) : showingPage(view)
}

async function startSignIn({ params, query }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const opened = await open(token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide' || !options.signIn.isConfigured) return showingPage(view)
  const link = { tenant: view.approval.tenant, token }
  const left = await options.signIn.start(link, { asOther: query.get('as') === 'other' })
  return left ?? signInFailedPage()
}

/** The form is in the answer itself: a redirect from another site would come without our strict cookie. */
async function finishSignIn(arrival: Arrival, options: ApprovalLinkOptions): Promise<HttpReply> {
  const came = await options.signIn.finish(arrival)
  if (came.kind === 'failed') return signInFailedPage()
  const opened = await open(came.token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide') return showingPage(view)
  if (came.name !== view.link.approver) {
    options.log.warn(
      { approval: view.approval.id },
      'an approval link was opened by someone other than its approver',
    )
    return wrongApproverPage(pathOf(options, came.token))
  }
  return formPage(view, came.token, { signedIn: { principal: came.principal } }, options)
}

function formPage(
  view: OpenLink,
  token: string,
  holder: PassHolder,
  options: ApprovalLinkOptions,
): HttpReply {
  const { sign, clock, publicUrl } = options
  const { cookie, csrf } = makePass(sign, token, holder, clock.nowMs())
  const secure = publicUrl().startsWith('https:') ? '; Secure' : ''
  const reply = decidingPage(view, pathOf(options, token), csrf)
  const set = `${COOKIE}=${cookie}; Path=${pathOf(options)}; HttpOnly; SameSite=Strict${secure}`
  return { ...reply, headers: { ...reply.headers, 'set-cookie': set } }
}

/** Of a link, or of all: a proxy may serve us below a path of its own, which `publicUrl` then has. */
function pathOf({ publicUrl }: ApprovalLinkOptions, token?: string): string {
  const all = `${new URL(publicUrl()).pathname.replace(/\/$/, '')}/approve`
  return token === undefined ? all : `${all}/${token}`
}

const VERBS: Readonly<Record<string, 'grant' | 'reject'>> = { approve: 'grant', reject: 'reject' }

async function decideFromPage(request: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const { token = '', verb = '' } = request.params
  const action = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined
  const view = await options.approvals.readLink(token)
  if (view === undefined || action === undefined) return textPage(404, 'Unknown link', UNKNOWN_LINK)
  const holder = holderOf(request, options, token)
  if (holder === undefined) {
    return textPage(403, 'Not decided', 'Open the link again and decide on that page. Nothing was decided.')
  }
  const decision = { action, reason: undefined, acceptsHidden: request.query.get('hidden') === 'accepted' }
  const result = await options.approvals.decideByLink(view, decision, holder.signedIn)
  const { status, text } = LINK_ANSWERS[result.kind]
  return textPage(status, 'Approval', text)
}

/** Its own page, in the browser that opened it: Fetch Metadata, and a cookie that fits the form's token. */
function holderOf(
  { headers, query }: HttpRequest,
  { sign, clock }: ApprovalLinkOptions,
  token: string,
): PassHolder | undefined {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return undefined
  const cookie = readCookie(headers.cookie)
  const csrf = query.get('csrf')
  if (cookie === undefined || csrf === null) return undefined
  return readPass(sign, token, { cookie, csrf }, clock.nowMs())
}

function readCookie(header: string | undefined): string | undefined {
  const pairs = (header ?? '').split(';').map((pair) => pair.trim())
  return pairs.find((pair) => pair.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1)
}

const NONCE_BYTES = 18
const SIGNED_IN_MS = 10 * 60_000

type Sign = ApprovalStore['sign']

/** The person who may press a button on an approver's page: anybody with the page, or who signed in for it. */
interface PassHolder {
  readonly signedIn: { readonly principal: string } | undefined
}

/** A cookie of the browser and a text of the form that belong together; another site can make neither. */
interface ApproverPass {
  readonly cookie: string
  readonly csrf: string
}

export function makePass(sign: Sign, token: string, { signedIn }: PassHolder, nowMs: number): ApproverPass {
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  const rest =
    signedIn === undefined
      ? []
      : [String(nowMs + SIGNED_IN_MS), Buffer.from(signedIn.principal).toString('base64url')]
  const cookie = [nonce, ...rest].join('.')
  return { cookie, csrf: sign('csrf', JSON.stringify([token, cookie])) }
}

/** Who pressed; `undefined` when the two do not fit each other and this link, or the sign-in was too long ago. */
export function readPass(
  sign: Sign,
  token: string,
  { cookie, csrf }: ApproverPass,
  nowMs: number,
): PassHolder | undefined {
  if (!isSameSecret(csrf, sign('csrf', JSON.stringify([token, cookie])))) return undefined
  const [, until, principal] = cookie.split('.')
  if (until === undefined || principal === undefined) return { signedIn: undefined }
  if (Number(until) <= nowMs) return undefined
  return { signedIn: { principal: Buffer.from(principal, 'base64url').toString() } }
}

const UNKNOWN_LINK = 'This link was not made by this server, or what it was for is no longer kept.'

/** What a decision by link came to. */
const LINK_ANSWERS = {
  decided: { status: 200, text: 'Your decision has been recorded. You can close this page.' },
  counted: { status: 200, text: 'Your decision has been recorded. More approvers are needed.' },
  resolved: { status: 409, text: 'This has already been decided.' },
  expired: { status: 410, text: 'The time to decide has run out.' },
  cancelled: { status: 409, text: 'The call was cancelled, so there is nothing to decide.' },
  not_found: { status: 404, text: UNKNOWN_LINK },
  unauthenticated: { status: 403, text: 'Deciding this requires a credential.' },
  forbidden: { status: 403, text: 'This link may not decide that.' },
  own: { status: 403, text: 'The caller of a tool cannot approve its own call.' },
  stale: {
    status: 409,
    text: 'The definition of the tool has changed since the approval was requested; make a new call. Nothing was decided.',
  },
  hidden: {
    status: 409,
    text: 'Some of the input is hidden, and your approval did not include what is hidden. Open the link again. Nothing was decided.',
  },
  link_only_shows: { status: 403, text: 'This link only shows the call. Deciding requires a credential.' },
} as const satisfies Record<DecisionResult['kind'], { readonly status: number; readonly text: string }>

/** With the two buttons that decide. `path` is that of the link, as the browser sees it. */
function decidingPage(view: OpenLink, path: string, csrf: string): HttpReply {
  const form = (verb: string, label: string, more = '') =>
    html`<form method="post" action="${path}/${verb}?csrf=${encodeURIComponent(csrf)}${more}"><button type="submit">${label}</button></form>`
  const approve = view.shown.hidesSomething
    ? form('approve', 'Approve, including what is hidden', '&hidden=accepted')
    : form('approve', 'Approve')
  const content = html`${questionHtml(view)}<p>${approve}${form('reject', 'Reject')}</p>`
  return pageReply(200, { title: TITLE, content }, FORM_PAGE_HEADERS)
}

/** Shows, and says how to decide otherwise. */
function showingPage(view: OpenLink): HttpReply {
  const content = html`${questionHtml(view)}<p>This link only shows the call. Deciding requires a credential.</p>
${howToDecide(view.shown.id)}`
  return pageReply(200, { title: TITLE, content })
}

/** Shows, and leads to the sign-in (rule 23). */
function signInPage(view: OpenLink, path: string): HttpReply {
  const content = html`${questionHtml(view)}<p>This call can only be decided after signing in.</p>
<p><a href="${path}/sign-in" rel="noreferrer">Sign in as ${cleanText(view.link.approver)}</a></p>`
  return pageReply(200, { title: TITLE, content })
}

function wrongApproverPage(path: string): HttpReply {
  const content = html`<p>You are signed in as someone other than the person this link is for. Nothing was decided.</p>
<p><a href="${path}/sign-in?as=other" rel="noreferrer">Sign in as another user</a></p>`
  return pageReply(403, { title: 'Not for this user', content })
}

function signInFailedPage(): HttpReply {
  return textPage(
    502,
    'No usable answer',
    'The sign-in service did not answer as expected. Nothing was decided. Open the link again later.',
  )
}

function textPage(status: number, title: string, text: string): HttpReply {
  return pageReply(status, { title, content: html`<p>${text}</p>` })
}

const TITLE = 'Approve a call?'

function questionHtml({ shown, link }: OpenLink): Html {
  const { tool, safetyTier, principal, userId, isUserProven, expiresAtMs } = shown
  const row = (label: string, text: string) => html`<dt>${label}</dt><dd>${cleanText(text)}</dd>`
  // The mark stands before the id: callers choose ids, and how long they are.
  const label = isUserProven ? 'For user' : 'For user (claimed, not proven)'
  const user = userId === undefined ? '' : row(label, userId)
  return html`<p>${STATE_TEXT.pending}</p>
<dl>${row('Tool', `${tool} (${safetyTier})`)}${row('Called by', principal)}${user}
${row('Open until', new Date(expiresAtMs).toISOString())}${row('You are', link.approver)}</dl>
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
