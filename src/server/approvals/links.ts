import { randomBytes } from 'node:crypto'
import { basePath } from '#config/to-settings'
import type { Approvals, LinkView } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import type { Clock } from '#kernel/base/clock'
import { isSameSecret } from '#kernel/base/hash'
import type { Logger } from '#kernel/base/logger'
import type { KernelStore } from '#kernel/store/store'
import type { ApproverSignIn } from '#oauth/consent'
import type { Arrival } from '#oauth/round-trips'
import { html, pageReply, refuseOnPage, textPage } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, isFromOwnPage, readCookie } from '#protocols/http-exchange'
import type { ServerRoute } from '#server/http/router'
import {
  type ApprovalPageOptions,
  approvalPageReply,
  closedPage,
  decideAt,
  decideByCommand,
  decidedPage,
  type NextStep,
  readPressedButton,
  STALE_TEXT,
} from './approval-page.ts'

/*
 * One-time links for approvers (rule 23). `GET` only shows the call; a decision is a `POST` from that page, in the browser that
 * opened it: the page's cookie and the token in its form belong together, and another site can forge neither.
 * If a link alone may not decide, only the browser that signed in as the link's approver gets the form.
 * Used by `pages.ts`; the OAuth callback calls `finishSignIn`.
 */

interface ApprovalLinkOptions extends ApprovalPageOptions {
  readonly approvals: Approvals
  readonly sign: KernelStore['sign']
  readonly signIn: ApproverSignIn
  readonly clock: Clock
  readonly log: Logger
  publicUrl(): string
}

/** Each page has its own cookie name, so that several open tabs do not overwrite each other's cookies. */
const cookieNameFor = (csrf: string): string => `collet_approver_${csrf.slice(0, 12)}`

export function createApprovalLinks(options: ApprovalLinkOptions) {
  const get = { access: 'open', refuse: refuseOnPage, method: 'GET', body: 'never' } as const
  const post = { ...get, method: 'POST', body: 'form' } as const
  const routes: readonly ServerRoute[] = [
    { ...get, path: '/approve/:token', handle: (request) => showPage(request, options) },
    { ...get, path: '/approve/:token/sign-in', handle: (request) => startSignIn(request, options) },
    { ...post, path: '/approve/:token/:verb', handle: (request) => decideFromPage(request, options) },
  ]
  /** Handles an approver who returns from the sign-in. */
  return { routes, finishSignIn: (arrival: Arrival) => finishSignIn(arrival, options) }
}

interface OpenLink extends LinkView {
  readonly token: string
  readonly shown: ApprovalView
}

/** Finds the approval of a link; returns a page that shows its state if it can no longer be decided. */
async function openLink(token: string, { approvals }: ApprovalLinkOptions): Promise<OpenLink | HttpReply> {
  const view = await approvals.readLink(token)
  if (view === undefined) return textPage(404, 'Unknown link', UNKNOWN_LINK)
  const shown = approvals.view(view.approval)
  const { state, isStale } = shown
  if (state === 'expired' || (view.isExpired && state === 'pending')) return closedPage('expired')
  if (isStale) return textPage(409, 'Approval', STALE_TEXT)
  return state === 'pending' ? { ...view, token, shown } : closedPage(state)
}

async function showPage({ params }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const opened = await openLink(params.token ?? '', options)
  if ('status' in opened) return opened
  if (opened.link.power !== 'decide') return await showOnly(opened, options)
  if (!options.approvals.needsSignIn(opened.approval))
    return await showForm(opened, { signedIn: undefined }, options)
  if (!options.signIn.isConfigured) return await showOnly(opened, options)
  return await show(opened, { kind: 'sign_in', url: `${pathOf(options, opened.token)}/sign-in` }, options)
}

async function startSignIn({ params, query }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const opened = await openLink(params.token ?? '', options)
  if ('status' in opened) return opened
  const { link, approval, token } = opened
  if (link.power !== 'decide' || !options.signIn.isConfigured) return await showOnly(opened, options)
  const asOther = query.get('as') === 'other'
  const departure = await options.signIn.start({ tenant: approval.tenant, token }, { asOther })
  return departure ?? signInFailedPage()
}

/** The form is in this reply: after a redirect from another site the browser would not send our strict cookie. */
async function finishSignIn(arrival: Arrival, options: ApprovalLinkOptions): Promise<HttpReply> {
  const signIn = await options.signIn.finish(arrival)
  if (signIn.kind === 'failed') return signInFailedPage()
  const opened = await openLink(signIn.token, options)
  if ('status' in opened) return opened
  const { link, approval } = opened
  if (link.power !== 'decide') return await showOnly(opened, options)
  if (signIn.name !== link.approver) {
    options.log.warn(
      { approval: approval.id },
      'an approval link was opened by someone other than its approver',
    )
    return wrongApproverPage(pathOf(options, signIn.token))
  }
  return await showForm(opened, { signedIn: { principal: signIn.principal } }, options)
}

function showOnly(opened: OpenLink, options: ApprovalLinkOptions): Promise<HttpReply> {
  return show(opened, decideByCommand(opened.shown.id), options)
}

function show({ shown, link }: OpenLink, next: NextStep, options: ApprovalLinkOptions): Promise<HttpReply> {
  return approvalPageReply(shown, { as: link.approver, next, isLink: true }, options)
}

async function showForm(
  opened: OpenLink,
  holder: PassHolder,
  options: ApprovalLinkOptions,
): Promise<HttpReply> {
  const { sign, clock, publicUrl } = options
  const { token, shown } = opened
  const { cookie, csrf } = makePass(sign, token, holder, clock.nowMs())
  const secure = publicUrl().startsWith('https:') ? '; Secure' : ''
  const path = pathOf(options, token)
  const reply = await show(opened, decideAt(path, csrf, shown), options)
  const set = `${cookieNameFor(csrf)}=${cookie}; Path=${path}; HttpOnly; SameSite=Strict${secure}`
  return { ...reply, headers: { ...reply.headers, 'set-cookie': set } }
}

/** The path as browsers see it. A proxy may serve this server below a path, which `publicUrl` then includes. */
function pathOf({ publicUrl }: ApprovalLinkOptions, token: string): string {
  return `${basePath(publicUrl())}/approve/${token}`
}

async function decideFromPage(request: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const { token = '' } = request.params
  const view = await options.approvals.readLink(token)
  const decision = readPressedButton(request)
  if (view === undefined || decision === undefined) return textPage(404, 'Unknown link', UNKNOWN_LINK)
  const holder = findHolder(request, options, token)
  if (holder === undefined)
    return textPage(403, 'Not decided', 'Open the link again and decide on that page. Nothing was decided.')
  const result = await options.approvals.decideByLink(view, decision, holder.signedIn)
  return decidedPage(result, decision, view.approval.tool)
}

/** Checks that the post came from its own page in the browser that opened it: Fetch Metadata, and a cookie that matches the token. */
function findHolder(
  request: HttpRequest,
  { sign, clock }: ApprovalLinkOptions,
  token: string,
): PassHolder | undefined {
  if (!isFromOwnPage(request)) return undefined
  const csrf = request.query.get('csrf') ?? ''
  const cookie = readCookie(request.headers.cookie, cookieNameFor(csrf))
  return cookie === undefined ? undefined : readPass(sign, token, { cookie, csrf }, clock.nowMs())
}

const NONCE_BYTES = 18
const SIGNED_IN_MS = 10 * 60_000

type Sign = KernelStore['sign']

/** The person who may press a button on the page: any holder of the link, or only the person who signed in. */
interface PassHolder {
  readonly signedIn: { readonly principal: string } | undefined
}

/** Makes the cookie for a page and the token for its form. */
export function makePass(sign: Sign, token: string, { signedIn }: PassHolder, nowMs: number) {
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  const rest =
    signedIn === undefined
      ? []
      : [String(nowMs + SIGNED_IN_MS), Buffer.from(signedIn.principal).toString('base64url')]
  const cookie = [nonce, ...rest].join('.')
  return { cookie, csrf: sign('csrf', JSON.stringify([token, cookie])) }
}

/** Returns `undefined` if cookie, token and link do not match, or if the sign-in has expired. */
export function readPass(
  sign: Sign,
  token: string,
  { cookie, csrf }: ReturnType<typeof makePass>,
  nowMs: number,
): PassHolder | undefined {
  if (!isSameSecret(csrf, sign('csrf', JSON.stringify([token, cookie])))) return undefined
  const [, until, principal] = cookie.split('.')
  if (until === undefined || principal === undefined) return { signedIn: undefined }
  if (Number(until) <= nowMs) return undefined
  return { signedIn: { principal: Buffer.from(principal, 'base64url').toString() } }
}

const UNKNOWN_LINK = 'This link was not made by this server, or its approval is no longer kept.'

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
