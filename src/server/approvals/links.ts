import { randomBytes } from 'node:crypto'
import { basePath } from '#config/to-settings'
import type { Approvals, LinkView } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import type { Clock } from '#kernel/base/clock'
import { isSameSecret } from '#kernel/base/hash'
import { cleanText } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { KernelStore } from '#kernel/store/store'
import type { ApproverSignIn } from '#oauth/consent'
import type { Arrival } from '#oauth/round-trips'
import { html, pageReply } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, isFromOwnPage, readCookie } from '#protocols/http-exchange'
import type { ServerRoute } from '#server/http/router'
import {
  decidedPage,
  decidingPage,
  howToDecide,
  readPressed,
  refuseOnPage,
  STALE_TEXT,
  STATE_TEXT,
  showingPage,
  textPage,
} from './question-page.ts'

interface ApprovalLinkOptions {
  readonly approvals: Approvals
  readonly sign: KernelStore['sign']
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

/** Each page has a cookie of its own, or a second tab, of this link or another, would take the first one's. */
const cookieOf = (csrf: string): string => `collet_approver_${csrf.slice(0, 12)}`

/**
 * The page behind an approver's one-time link (rule 23). `GET` only shows; a decision is a `POST` from that page, in the
 * browser that opened it: its cookie and the form's token belong together, and another site can make neither. Where a
 * link is too little, only the browser that signed in as its approver gets the form.
 */
export function createApprovalLinks(options: ApprovalLinkOptions): ApprovalLinks {
  const shared = { access: 'open', refuse: refuseOnPage } as const
  return {
    finishSignIn: (arrival) => finishSignIn(arrival, options),
    routes: [
      {
        ...shared,
        method: 'GET',
        body: 'never',
        path: '/approve/:token',
        handle: (request) => showPage(request, options),
      },
      {
        ...shared,
        method: 'GET',
        body: 'never',
        path: '/approve/:token/sign-in',
        handle: (request) => startSignIn(request, options),
      },
      {
        ...shared,
        method: 'POST',
        body: 'form',
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
  if (view.link.power !== 'decide') return onlyShowing(view)
  if (!options.approvals.needsSignIn(view.approval))
    return formPage(view, token, { signedIn: undefined }, options)
  return options.signIn.isConfigured ? signInPage(view, pathOf(options, token)) : onlyShowing(view)
}

async function startSignIn({ params, query }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const opened = await open(token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide' || !options.signIn.isConfigured) return onlyShowing(view)
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
  if (view.link.power !== 'decide') return onlyShowing(view)
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
  const path = pathOf(options, token)
  const reply = decidingPage(view.shown, { as: view.link.approver, path, csrf })
  const set = `${cookieOf(csrf)}=${cookie}; Path=${path}; HttpOnly; SameSite=Strict${secure}`
  return { ...reply, headers: { ...reply.headers, 'set-cookie': set } }
}

/** Of a link: a proxy may serve us below a path of its own, which `publicUrl` then has. */
function pathOf({ publicUrl }: ApprovalLinkOptions, token: string): string {
  return `${basePath(publicUrl())}/approve/${token}`
}

async function decideFromPage(request: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const { token = '' } = request.params
  const view = await options.approvals.readLink(token)
  const decision = readPressed(request)
  if (view === undefined || decision === undefined) return textPage(404, 'Unknown link', UNKNOWN_LINK)
  const holder = holderOf(request, options, token)
  if (holder === undefined) {
    return textPage(403, 'Not decided', 'Open the link again and decide on that page. Nothing was decided.')
  }
  const result = await options.approvals.decideByLink(view, decision, holder.signedIn)
  return decidedPage(result, decision, view.approval.tool)
}

/** Its own page, in the browser that opened it: Fetch Metadata, and a cookie that fits the form's token. */
function holderOf(
  request: HttpRequest,
  { sign, clock }: ApprovalLinkOptions,
  token: string,
): PassHolder | undefined {
  if (!isFromOwnPage(request)) return undefined
  const csrf = request.query.get('csrf')
  if (csrf === null) return undefined
  const cookie = readCookie(request.headers.cookie, cookieOf(csrf))
  if (cookie === undefined) return undefined
  return readPass(sign, token, { cookie, csrf }, clock.nowMs())
}

const NONCE_BYTES = 18
const SIGNED_IN_MS = 10 * 60_000

type Sign = KernelStore['sign']

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

/** Shows, and says how to decide otherwise. */
function onlyShowing({ shown, link }: OpenLink): HttpReply {
  const next = html`<p>This link only shows the call. Deciding requires a credential.</p>
${howToDecide(shown.id)}`
  return showingPage(shown, link.approver, next)
}

/** Shows, and leads to the sign-in (rule 23). */
function signInPage({ shown, link }: OpenLink, path: string): HttpReply {
  const next = html`<p>This call can only be decided after signing in.</p>
<p><a href="${path}/sign-in" rel="noreferrer">Sign in as ${cleanText(link.approver)}</a></p>`
  return showingPage(shown, link.approver, next)
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
