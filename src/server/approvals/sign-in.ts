import { createHmac, randomBytes } from 'node:crypto'
import type { StartToken } from '#auth/start-token'
import { portOf } from '#config/to-settings'
import { fault } from '#core/errors'
import { isSameSecret } from '#core/hash'
import { isJsonObject } from '#core/json'
import type { ProtocolSessionStore } from '#core/ports/protocol-store'
import { DEFAULT_TENANT } from '#core/principal'
import type { Clock } from '#core/runtime'
import { PAGE_HEADERS } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { adminRoute, badRequest, isOperator, NO_STORE, type OperatorAccess } from '#server/admin/access'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { refuseOnPage, textPage } from './question-page.ts'

interface StartLinkOptions {
  readonly startToken: Pick<StartToken, 'token'>
  /** Remembers which links were used, for all processes that share the start token. */
  readonly callers: Pick<ProtocolSessionStore, 'spend'>
  readonly clock: Clock
  publicUrl(): string
}

const LINK_LIFETIME_MS = 12 * 3_600_000
const SESSION_LIFETIME_MS = 12 * 3_600_000
const NONCE_BYTES = 18
const LONGEST_CODE = 200
const APPROVAL_ID = /^[\w-]{1,64}$/

/**
 * How the person at this machine gets into the pages: by a link that works once, made by whoever has the start token
 * (rule 29). Links and sessions are signed with it, so that they end with the server, and every worker knows them.
 */
export class StartLinks {
  readonly #options: StartLinkOptions

  constructor(options: StartLinkOptions) {
    this.#options = options
  }

  /** The address that lets one browser in, and leads to an approval or to the list of them. */
  make(approval?: string): string {
    const { publicUrl, clock } = this.#options
    const to = approval === undefined ? '' : `?approval=${encodeURIComponent(approval)}`
    return `${publicUrl()}/sign-in/${this.#mint('code', clock.nowMs() + LINK_LIFETIME_MS)}${to}`
  }

  /** What the browser of a person who signed in has to send with a form about this subject; `undefined` for every other browser. */
  tokenFor({ headers }: Pick<HttpRequest, 'headers'>, subject: string): string | undefined {
    const session = this.#sessionOf(headers.cookie)
    return session === undefined ? undefined : this.#sign('form', `${session}:${subject}`)
  }

  /** Whether a form came from our own page in such a browser. */
  isOwnForm(request: HttpRequest, subject: string): boolean {
    const site = request.headers['sec-fetch-site']
    const expected = this.tokenFor(request, subject)
    const sent = request.query.get('csrf')
    const isOwnPage = site === undefined || site === 'same-origin'
    return isOwnPage && expected !== undefined && sent !== null && isSameSecret(sent, expected)
  }

  routes(): readonly ServerRoute[] {
    const shared = { access: 'open', body: 'never', refuse: refuseOnPage } as const
    return [{ ...shared, method: 'GET', path: '/sign-in/:code', handle: (request) => this.#enter(request) }]
  }

  /** Opening it is enough: a page that asked again would be one click more, and whoever has the link could click it. */
  async #enter(request: HttpRequest): Promise<HttpReply> {
    const { callers, clock } = this.#options
    const code = request.params.code ?? ''
    const expiresAtMs = this.#read('code', code)
    if (expiresAtMs === undefined) return textPage(404, 'Unknown link', `${UNKNOWN_LINK} ${ANOTHER_LINK}`)
    const isIn = this.#sessionOf(request.headers.cookie) !== undefined
    // A browser may look before its user does, and what only looks must not use the link up.
    if (request.method === 'HEAD') return this.#leadOn(request)
    const isFirst =
      expiresAtMs > clock.nowMs() && (await callers.spend(DEFAULT_TENANT, `sign-in:${code}`, expiresAtMs))
    // Spent also by whoever is in already: it must not let somebody else in later.
    if (isIn) return this.#leadOn(request)
    if (!isFirst) return textPage(410, 'Link already used', `${USED_LINK} ${ANOTHER_LINK}`)
    return this.#leadOn(request, this.#mint('session', clock.nowMs() + SESSION_LIFETIME_MS))
  }

  #leadOn({ query }: HttpRequest, session?: string): HttpReply {
    const approval = query.get('approval') ?? ''
    const path = APPROVAL_ID.test(approval) ? `/approvals/${approval}` : '/approvals'
    const secure = this.#options.publicUrl().startsWith('https:') ? '; Secure' : ''
    // `Lax`, because people come to an approval by an address that another program shows them.
    const attributes = `Path=/; Max-Age=${SESSION_LIFETIME_MS / 1_000}; HttpOnly; SameSite=Lax${secure}`
    const set = session === undefined ? {} : { 'set-cookie': `${this.#cookieName}=${session}; ${attributes}` }
    const location = `${basePath(this.#options.publicUrl())}${path}`
    return { status: 303, headers: { ...PAGE_HEADERS, ...set, location }, body: undefined }
  }

  /** A browser sends the cookies of a host to each of its ports, so each server has a name of its own. */
  get #cookieName(): string {
    return `collet_operator_${portOf(new URL(this.#options.publicUrl()))}`
  }

  /** `undefined` when the browser sent none of ours, or two: nobody may plant a second one. */
  #sessionOf(header: string | undefined): string | undefined {
    const start = `${this.#cookieName}=`
    const [session, ...others] = (header ?? '')
      .split(/[;,]/)
      .map((pair) => pair.trim())
      .filter((pair) => pair.startsWith(start))
      .map((pair) => pair.slice(start.length))
    if (session === undefined || others.length > 0) return undefined
    const expiresAtMs = this.#read('session', session)
    return expiresAtMs !== undefined && expiresAtMs > this.#options.clock.nowMs() ? session : undefined
  }

  #mint(purpose: 'code' | 'session', expiresAtMs: number): string {
    const content = `${expiresAtMs.toString(36)}.${randomBytes(NONCE_BYTES).toString('base64url')}`
    return `${content}.${this.#sign(purpose, content)}`
  }

  /** Until when it is good, if it is one of ours. */
  #read(purpose: 'code' | 'session', text: string): number | undefined {
    const end = text.lastIndexOf('.')
    if (end === -1 || text.length > LONGEST_CODE) return undefined
    const content = text.slice(0, end)
    if (!isSameSecret(text.slice(end + 1), this.#sign(purpose, content))) return undefined
    return Number.parseInt(content, 36)
  }

  #sign(purpose: 'code' | 'session' | 'form', text: string): string {
    const secret = this.#options.startToken.token.reveal()
    return createHmac('sha256', secret).update(`${purpose}:${text}`).digest('base64url')
  }
}

const UNKNOWN_LINK = 'This link was not made by this server since it was started.'
const USED_LINK = 'This link has been used, or is too old.'
const ANOTHER_LINK = 'Run "npx collet sign-in" in the folder of your config for another one.'

/** Below which path of its host the server is seen. */
export function basePath(publicUrl: string): string {
  return new URL(publicUrl).pathname.replace(/\/$/, '')
}

const ELSEWHERE =
  'Signing in by link works on the machine of the server alone, and this one is reached from elsewhere. Decide with "collet approvals approve", or make a link for somebody with "collet approvals link".'

/** `POST /admin/sign-in` `{ approval? }`: another link, for who has the start token. */
export function signInRoute(
  links: StartLinks | undefined,
  access: Pick<OperatorAccess, 'authenticate'>,
): ServerRoute {
  return adminRoute(access, 'POST', '/admin/sign-in', async ({ principal, body }) => {
    if (!isOperator(principal))
      throw fault('not_authorized', 'Only the start token of this server can sign a browser in.')
    if (links === undefined) throw httpFault(409, ELSEWHERE)
    const { approval } = isJsonObject(body) ? body : {}
    if (approval !== undefined && (typeof approval !== 'string' || !APPROVAL_ID.test(approval)))
      throw badRequest('`approval` is the id of an approval.')
    return jsonReply(200, { url: links.make(approval) }, NO_STORE)
  })
}
