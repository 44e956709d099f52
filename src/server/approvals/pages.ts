import { basePath } from '#config/to-settings'
import type { Approvals } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import { cleanText } from '#kernel/base/json'
import { consentRoutes } from '#oauth/consent'
import {
  FORM_PAGE_HEADERS,
  factsHtml,
  type Html,
  html,
  PAGE_HEADERS,
  pageReply,
  refuseOnPage,
  textPage,
  timeHtml,
} from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { approverOf, OPERATOR } from '#server/admin/access'
import type { BrowserSession, BrowserSessions } from '#server/console/sessions'
import type { StartLinks } from '#server/console/start-links'
import type { ServerHost } from '#server/host'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'
import type { ServerPart } from '#server/part'
import {
  type ApprovalPageOptions,
  approvalPageReply,
  commandsHtml,
  decideAt,
  decideByCommand,
  decidedPage,
  readPressedButton,
  STALE_TEXT,
  STATE_TEXT,
  UNKNOWN_APPROVAL,
} from './approval-page.ts'
import { createApprovalLinks } from './links.ts'

/*
 * Approval pages for the person at this machine, and the status page whose address callers get.
 * Served by `collet serve` beside the console and by `collet mcp` without it.
 * Invariant: only the operator's session, with the page's token, can decide.
 */

interface ApprovalPagesOptions extends ApprovalPageOptions {
  readonly approvals: Approvals
  /** How the person at this machine signs in; absent if other machines can reach the server, and these pages then decide nothing. */
  readonly startLinks: Pick<StartLinks, 'routes'> | undefined
  readonly sessions: BrowserSessions
  publicUrl(): string
  /** Whether there is a console, where signed-in people see and do more than here. Default: no. */
  hasConsole?(): boolean
}

const MAX_LISTED = 100

/** Opens the pages on which people decide about calls, by link or signed in, and give their consent to providers. */
export function openApprovalPages(host: ServerHost): ServerPart {
  const { clock, log, consents, trips, approverSignIn: signIn, console: webConsole } = host
  const { approvals, store } = host.services.gateway
  const { publicUrl } = host.address
  const { sessions, startLinks, approvalPage, isServed: hasConsole } = webConsole
  const links = createApprovalLinks({
    ...{ approvals, signIn, clock, log, publicUrl, approvalPage },
    sign: (purpose, text) => store.sign(purpose, text),
  })
  return {
    routes: [
      ...consentRoutes({ consents, trips, finishApprover: links.finishSignIn }),
      ...links.routes,
      ...createApprovalPages({ approvals, sessions, startLinks, publicUrl, hasConsole, approvalPage }),
    ],
  }
}

/**
 * The address that the caller of a waiting call gets. Its id cannot be guessed, so its holders may see the state of the
 * call; because the caller has it too, the address alone decides nothing (rule 23). In the browser of the person who
 * signed in with a start link it shows everything, and decides as the operator (rule 29).
 */
export function createApprovalPages(options: ApprovalPagesOptions): readonly ServerRoute[] {
  const get = { access: 'open', refuse: refuseOnPage, method: 'GET', body: 'never' } as const
  const post = { ...get, method: 'POST', body: 'form' } as const
  const page = (path: string, show: typeof showApproval): ServerRoute => ({
    ...get,
    path,
    handle: async (request) => (await redirectToConsole(request, options)) ?? (await show(request, options)),
  })
  const { startLinks } = options
  if (startLinks === undefined) return [page('/approvals/:id', showApproval)]
  return [
    page('/approvals/:id', showApproval),
    page('/approvals', listWaiting),
    { ...post, path: '/approvals/:id/:verb', handle: (request) => decideHere(request, options) },
    ...startLinks.routes(),
  ]
}

/** The operator's session. Other signed-in people have a name and a tenant, and decide in the console. */
async function operatorOf(
  request: HttpRequest,
  { sessions, startLinks }: ApprovalPagesOptions,
): Promise<BrowserSession | undefined> {
  const session = startLinks === undefined ? undefined : await sessions.confirmPage(request)
  return session?.kind === 'operator' ? session : undefined
}

/** Redirects a browser that is signed in to the console to the console's page for the approval. */
async function redirectToConsole(
  request: HttpRequest,
  { sessions, hasConsole, publicUrl }: ApprovalPagesOptions,
): Promise<HttpReply | undefined> {
  if (hasConsole?.() !== true || (await sessions.find(request)) === undefined) return undefined
  const { id } = request.params
  const subpath = id === undefined ? '' : `/${encodeURIComponent(id)}`
  const location = `${basePath(publicUrl())}/console/approvals${subpath}`
  return { status: 303, headers: { ...PAGE_HEADERS, location }, body: undefined }
}

async function showApproval(request: HttpRequest, options: ApprovalPagesOptions): Promise<HttpReply> {
  const { approvals, sessions, startLinks, publicUrl } = options
  const id = request.params.id ?? ''
  const found = await approvals.findById(id)
  if (found === undefined) return textPage(404, 'Unknown approval', UNKNOWN_APPROVAL)
  const shown = approvals.view(found)
  const session = await operatorOf(request, options)
  if (session === undefined)
    return statusPage(shown, startLinks === undefined ? '' : howToSignIn(id, publicUrl()))
  if (shown.state !== 'pending' || shown.isStale) return statusPage(shown, decisionsHtml(shown))
  const next = decideAt(pathTo(id, options), sessions.formToken(session, id), shown)
  return await approvalPageReply(shown, { as: OPERATOR.id, next, isLink: false }, options)
}

async function decideHere(request: HttpRequest, options: ApprovalPagesOptions): Promise<HttpReply> {
  const { approvals, sessions } = options
  const id = request.params.id ?? ''
  // Only a page that required the session's token contains the form's token, so the form's token is enough here.
  const session = await sessions.find(request)
  if (session?.kind !== 'operator' || !sessions.isOwnForm(request, session, id))
    return textPage(403, 'Not decided', 'Open the page again and decide there. Nothing was decided.')
  const decision = readPressedButton(request)
  const found = await approvals.findById(id)
  if (found === undefined || decision === undefined)
    return textPage(404, 'Unknown approval', UNKNOWN_APPROVAL)
  return decidedPage(await approvals.decide(approverOf(OPERATOR), found, decision), decision, found.tool)
}

async function listWaiting(request: HttpRequest, options: ApprovalPagesOptions): Promise<HttpReply> {
  const title = 'Calls waiting for approval'
  const session = await operatorOf(request, options)
  if (session === undefined) return pageReply(403, { title, content: howToSignIn('', options.publicUrl()) })
  const { approvals, sessions } = options
  const token = `?session=${sessions.tokenOf(session)}`
  const waiting = await approvals.list(approverOf(OPERATOR), { state: 'pending', limit: MAX_LISTED })
  const rows = waiting
    .map((approval) => approvals.view(approval))
    .filter(({ state }) => state === 'pending')
    .map(
      ({ id, tool, principal, isStale, expiresAtMs }) =>
        html`<li><a href="${pathTo(id, options)}${token}">${tool}</a>, called by ${cleanText(principal)}, open until ${timeHtml(expiresAtMs)}${isStale ? ' (stale)' : ''}</li>`,
    )
  const content = rows.length === 0 ? html`<p>No calls are waiting.</p>` : html`<ul>${rows}</ul>`
  return pageReply(200, { title, content }, FORM_PAGE_HEADERS)
}

function pathTo(id: string, { publicUrl }: ApprovalPagesOptions): string {
  return `${basePath(publicUrl())}/approvals/${id}`
}

/** The page for all holders of the id. It does not show the input, because the id is not a credential. */
function statusPage(shown: ApprovalView, next: Html | ''): HttpReply {
  const { id, tool, state, isStale, expiresAtMs, quorum, decisions } = shown
  const facts = factsHtml([
    ['Tool', tool],
    ['Open until', timeHtml(expiresAtMs)],
    ...(quorum > 1 ? [['Approvers', `${decisions.length} of ${quorum}`] as const] : []),
  ])
  const isOpen = state === 'pending' && !isStale
  const content = html`<p>${isStale ? STALE_TEXT : STATE_TEXT[state]}</p>
${facts}
${isOpen || state !== 'pending' ? next : ''}${isOpen ? commandsHtml(decideByCommand(id)) : ''}`
  return pageReply(200, { title: 'Approval', content })
}

function decisionsHtml({ decisions }: ApprovalView): Html {
  const items = decisions.map(
    ({ by, action, reason, atMs }) =>
      html`<li>${action === 'reject' ? 'Rejected' : 'Approved'} by ${cleanText(by)}, ${timeHtml(atMs)}${reason === undefined ? '' : `: ${cleanText(reason)}`}</li>`,
  )
  return html`<ul>${items}</ul>`
}

function howToSignIn(id: string, publicUrl: string): Html {
  return html`<p>To decide on this page, sign in once: run this in the folder of your config, and open the address that it prints:</p>
<pre>${commandOnPages()} sign-in ${id}${id === '' ? '' : ' '}--url ${publicUrl}</pre>`
}
