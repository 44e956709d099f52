import { createHmac, randomBytes } from 'node:crypto'
import { APPROVAL_ID, SIGN_IN_BROWSER } from '#admin-api/server'
import type { StartToken } from '#auth/start-token'
import { basePath } from '#config/to-settings'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { isSameSecret } from '#kernel/base/hash'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { PAGE_HEADERS, refuseOnPage, textPage } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { isOperator, type OperatorAccess } from '#server/admin/access'
import { serveOperation } from '#server/admin/admin-route'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'
import type { ProtocolSessionStore } from '#store/protocol-state'
import type { BrowserSessions, OpenedSession } from './sessions.ts'

/*
 * One-time links that sign the operator of this machine in to the pages, made by a holder of the start token (rule 29).
 * Used by `collet serve`, `collet sign-in` and the admin API.
 * Invariant: a link works once, on every worker, and only while the server that made it runs: it is signed with the start token.
 */

interface StartLinkOptions {
  readonly startToken: Pick<StartToken, 'token'>
  readonly sessions: BrowserSessions
  /** Records used links, for all processes that share the start token. */
  readonly callers: Pick<ProtocolSessionStore, 'spend'>
  readonly clock: Clock
  publicUrl(): string
  /** True if there is a console; otherwise there are only the approval pages. */
  hasConsole(): boolean
}

const LINK_LIFETIME_MS = 12 * 3_600_000
const NONCE_BYTES = 18
const MAX_CODE_LENGTH = 200

export class StartLinks {
  readonly #options: StartLinkOptions

  constructor(options: StartLinkOptions) {
    this.#options = options
  }

  /** The URL that signs one browser in and leads to an approval or to the console's start page. */
  make(approval?: string): string {
    const { publicUrl, clock } = this.#options
    const to = approval === undefined ? '' : `?approval=${encodeURIComponent(approval)}`
    const content = `${(clock.nowMs() + LINK_LIFETIME_MS).toString(36)}.${randomBytes(NONCE_BYTES).toString('base64url')}`
    return `${publicUrl()}/sign-in/${content}.${this.#sign(content)}${to}`
  }

  routes(): readonly ServerRoute[] {
    const shared = { access: 'open', body: 'never', refuse: refuseOnPage } as const
    return [{ ...shared, method: 'GET', path: '/sign-in/:code', handle: (request) => this.#enter(request) }]
  }

  /** Opening the link is enough: a confirmation would add nothing, because every holder of the link could click it. */
  async #enter(request: HttpRequest): Promise<HttpReply> {
    const { callers, clock, sessions, startToken } = this.#options
    const code = request.params.code ?? ''
    const expiresAtMs = this.#read(code)
    if (expiresAtMs === undefined) return textPage(404, 'Unknown link', `${UNKNOWN_LINK} ${ANOTHER_LINK}`)
    // A browser may prefetch a link, and a prefetch must not use it up.
    if (request.method === 'HEAD') return this.#redirect(request)
    const isSignedIn = (await sessions.find(request))?.kind === 'operator'
    const isFirst =
      expiresAtMs > clock.nowMs() && (await callers.spend(DEFAULT_TENANT, `sign-in:${code}`, expiresAtMs))
    // A signed-in browser may have lost the token of its page, so a new link begins a session anyway.
    if (isFirst)
      return this.#redirect(request, sessions.open({ kind: 'operator', credential: startToken.token }))
    if (isSignedIn) return this.#redirect(request)
    return textPage(410, 'Link already used', `${USED_LINK} ${ANOTHER_LINK}`)
  }

  /** The session token is in the fragment, which only the page reads; pages without a script need it in the query. */
  #redirect({ query }: HttpRequest, opened?: OpenedSession): HttpReply {
    const { publicUrl, hasConsole, sessions } = this.#options
    const approval = query.get('approval') ?? ''
    const home = hasConsole() ? '/console' : ''
    const path = APPROVAL_ID.test(approval) ? `${home}/approvals/${approval}` : home || '/approvals'
    const separator = hasConsole() ? '#' : '?'
    const token = opened === undefined ? '' : `${separator}session=${sessions.tokenOf(opened.session)}`
    const location = `${basePath(publicUrl())}${path}${token}`
    return { status: 303, headers: { ...PAGE_HEADERS, ...opened?.headers, location }, body: undefined }
  }

  #read(code: string): number | undefined {
    const end = code.lastIndexOf('.')
    if (end === -1 || code.length > MAX_CODE_LENGTH) return undefined
    const content = code.slice(0, end)
    if (!isSameSecret(code.slice(end + 1), this.#sign(content))) return undefined
    return Number.parseInt(content, 36)
  }

  #sign(text: string): string {
    const secret = this.#options.startToken.token.reveal()
    return createHmac('sha256', secret).update(`code:${text}`).digest('base64url')
  }
}

const UNKNOWN_LINK =
  'This link was not made by this server, or it was made before the server was last started.'
const USED_LINK = 'This link has been used, or is too old.'
const ANOTHER_LINK = `Run "${commandOnPages()} sign-in" in the folder of your config for another one.`

const ELSEWHERE =
  'Signing in by link does not work here, because other machines can reach this server. Sign in to the console with an API key; or decide with "collet approvals approve", or make a link for an approver with "collet approvals link".'

/** Creates another link, for a holder of the start token. */
export function signInRoute(links: StartLinks | undefined, access: OperatorAccess): ServerRoute {
  return serveOperation(access, SIGN_IN_BROWSER, async ({ principal, body }) => {
    if (!isOperator(principal))
      throw fault('not_authorized', 'Only the start token of this server can sign a browser in.')
    if (links === undefined) throw httpFault(409, ELSEWHERE)
    return { url: links.make(body.approval) }
  })
}
