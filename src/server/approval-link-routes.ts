import { type ApprovalDesk, type LinkView, stateOf } from '#core/approvals/approvals'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Clock, Logger } from '#core/runtime'
import type { ApproverSignIn } from '#oauth/consent'
import type { Arrival } from '#oauth/round-trips'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { STALE_TEXT, STATE_TEXT } from '#protocols/otc/pages'
import {
  decidingPage,
  LINK_ANSWERS,
  showingPage,
  signInFailedPage,
  signInPage,
  textPage,
  UNKNOWN_LINK,
  wrongApproverPage,
} from './approval-link-page.ts'
import { makePass, type PassHolder, readPass } from './approver-pass.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

export interface ApprovalLinkOptions {
  readonly approvals: ApprovalDesk
  readonly sign: ApprovalStore['sign']
  readonly signIn: ApproverSignIn
  readonly clock: Clock
  readonly log: Logger
  publicUrl(): string
}

export interface ApprovalLinks {
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

type Opened = { readonly view: LinkView } | { readonly over: HttpReply }

/** A link to a question that is still open, or the page that says what became of it. */
async function open(token: string, { approvals, clock }: ApprovalLinkOptions): Promise<Opened> {
  const view = await approvals.readLink(token)
  if (view === undefined) return { over: textPage(404, 'Unknown link', UNKNOWN_LINK) }
  const state = stateOf(view.approval, clock.nowMs())
  if (state === 'expired' || (view.isOver && state === 'pending')) {
    return { over: textPage(410, 'Approval', STATE_TEXT.expired) }
  }
  if (approvals.isStale(view.approval)) return { over: textPage(409, 'Approval', STALE_TEXT) }
  return state === 'pending' ? { view } : { over: textPage(409, 'Approval', STATE_TEXT[state]) }
}

async function showPage({ params }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const opened = await open(token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide') return showingPage(view)
  if (!options.approvals.needsSignIn(view.approval))
    return formPage(view, token, { signedIn: undefined }, options)
  return options.signIn.isThere ? signInPage(view, pathOf(options, token)) : showingPage(view)
}

async function startSignIn({ params, query }: HttpRequest, options: ApprovalLinkOptions): Promise<HttpReply> {
  const token = params.token ?? ''
  const opened = await open(token, options)
  if ('over' in opened) return opened.over
  const { view } = opened
  if (view.link.power !== 'decide' || !options.signIn.isThere) return showingPage(view)
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
    options.log.warn({ approval: view.approval.id }, 'an approval link was opened by somebody it is not for')
    return wrongApproverPage(pathOf(options, came.token))
  }
  return formPage(view, came.token, { signedIn: { principal: came.principal } }, options)
}

function formPage(
  view: LinkView,
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
