import { hash, randomBytes } from 'node:crypto'
import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import type { StartToken } from '#auth/start-token'
import { portOf } from '#config/to-settings'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { isSameSecret } from '#kernel/base/hash'
import { DEFAULT_TENANT, operatedBy, type Principal, principalIdOf } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { sealOnce, unseal } from '#kernel/store/key-ring'
import type { KernelStore } from '#kernel/store/store'
import { API_KEY_HEADERS, type HttpRequest, isFromOwnPage, readCookie } from '#protocols/http-exchange'
import { OPERATOR } from '#server/admin/access'
import { percentDecoded } from '#server/http/router'
import type { KeyOwner } from '#store/keys'
import type { ProtocolSessionStore } from '#store/protocol-state'

/*
 * Browser sessions of the console and the approval pages, and the caller in whose name an operator runs tools.
 * The HTTP server replaces a session with its credential before authentication.
 * Invariant: a session has exactly the permissions of its credential, verified with each request.
 */

interface BrowserSessionOptions {
  readonly startToken: Pick<StartToken, 'token'>
  /** Signs with the store's keys, so that every replica can open all sessions. */
  readonly sign: KernelStore['sign']
  /** Records sessions that were ended early. */
  readonly callers: Pick<ProtocolSessionStore, 'spend' | 'isSpent'>
  readonly clock: Clock
  publicUrl(): string
}

/** How the user signed in. `operator`: by a start link, with the permissions of the start token (rule 29). */
const KINDS = ['key', 'token', 'operator'] as const
type SessionKind = (typeof KINDS)[number]

export interface BrowserSession {
  readonly kind: SessionKind
  /** Verified with each request, so that a revoked key or an expired token ends the session too. */
  readonly credential: Secret
  readonly id: string
  readonly expiresAtMs: number
}

interface NewSession extends Pick<BrowserSession, 'kind' | 'credential'> {
  /** Expiry of the credential; the session does not outlive it. */
  readonly endsAtMs?: number | undefined
}

export interface OpenedSession {
  readonly session: BrowserSession
  readonly headers: Readonly<Record<string, string>>
}

/**
 * The header that must accompany the cookie. Its value is returned once, to the page that signs in, which keeps it where
 * only its own origin can read it. Browsers send the cookie to other ports of the host as well.
 */
const CSRF_HEADER = 'collet-csrf'

const LIFETIME_MS = 12 * 3_600_000
const ID_BYTES = 18
/** Browsers keep at most 4096 bytes of name, value and attributes. */
const MAX_COOKIE_LENGTH = 3_900
const COOKIE = 'collet_session'

/**
 * Browser sessions on the pages of this server. The whole session is sealed in its cookie, so nothing is stored while it
 * lasts and any replica can serve the next request. The cookie alone gives no access: a request for data also needs the
 * token of the session, which no request can get with the cookie alone.
 */
export class BrowserSessions {
  readonly #options: BrowserSessionOptions

  constructor(options: BrowserSessionOptions) {
    this.#options = options
  }

  /** Returns `undefined` if the credential is too long for a cookie. */
  open({ kind, credential, endsAtMs = Number.POSITIVE_INFINITY }: NewSession): OpenedSession | undefined {
    const expiresAtMs = Math.min(this.#options.clock.nowMs() + LIFETIME_MS, endsAtMs)
    const session = { kind, credential, id: randomBytes(ID_BYTES).toString('base64url'), expiresAtMs }
    const text = this.#seal(session)
    if (text.length > MAX_COOKIE_LENGTH) return undefined
    return { session, headers: this.#setCookie(text, expiresAtMs) }
  }

  /** The session in the cookie alone. Another program on this host may have the cookie, so decisions need a token too. */
  async find({ headers }: Pick<HttpRequest, 'headers'>): Promise<BrowserSession | undefined> {
    const { callers, clock } = this.#options
    const text = readCookie(headers.cookie, this.#cookieName)
    const session = text === undefined ? undefined : this.#unseal(text)
    if (session === undefined || session.expiresAtMs <= clock.nowMs()) return undefined
    return (await callers.isSpent(DEFAULT_TENANT, markOf(session))) ? undefined : session
  }

  /**
   * The headers of a request with the credential of its session in place of the cookie; unchanged without a session, or
   * if they have a credential already. The authentication of callers thus does not have to know about browsers.
   */
  async present({ headers }: { readonly headers: RequestHeaders }): Promise<RequestHeaders> {
    const session = hasCredential(headers) ? undefined : await this.confirm({ headers })
    if (session === undefined) return headers
    return { ...headers, authorization: `Bearer ${session.credential.reveal()}` }
  }

  /** True if a page of the signed-in operator sent this request, without another credential. */
  async isOperator(headers: RequestHeaders): Promise<boolean> {
    if (hasCredential(headers) || headers[CSRF_HEADER]?.startsWith('operator.') !== true) return false
    return (await this.confirm({ headers }))?.kind === 'operator'
  }

  /** The session of a request from a script on our own pages, whose cookie and header match. */
  async confirm(request: Pick<HttpRequest, 'headers'>): Promise<BrowserSession | undefined> {
    const csrf = request.headers[CSRF_HEADER]
    if (csrf === undefined || !isFromOwnPage(request)) return undefined
    const session = await this.find(request)
    return session !== undefined && isSameSecret(csrf, this.tokenOf(session)) ? session : undefined
  }

  /** The session of a page without a script, which passes the token in its URL. */
  async confirmPage(request: Pick<HttpRequest, 'headers' | 'query'>): Promise<BrowserSession | undefined> {
    const sent = request.query.get('session')
    if (sent === null) return undefined
    const session = await this.find(request)
    return session !== undefined && isSameSecret(sent, this.tokenOf(session)) ? session : undefined
  }

  /** The token that requests of this session must send. It begins with the kind, because a page accepts only an operator's token from a link. */
  tokenOf({ kind, id }: BrowserSession): string {
    return `${kind}.${this.#options.sign('browser session', JSON.stringify([kind, id]))}`
  }

  formToken({ id }: BrowserSession, subject: string): string {
    return this.#options.sign('form', JSON.stringify([id, subject]))
  }

  /** True if a form came from our own page, with this session and subject. */
  isOwnForm(request: HttpRequest, session: BrowserSession, subject: string): boolean {
    const sent = request.query.get('csrf')
    return isFromOwnPage(request) && sent !== null && isSameSecret(sent, this.formToken(session, subject))
  }

  /** Ends the session on every replica, for all copies of the cookie. */
  async end(session: BrowserSession): Promise<void> {
    await this.#options.callers.spend(DEFAULT_TENANT, markOf(session), session.expiresAtMs)
  }

  /** The header that deletes the cookie. */
  clearing(): Readonly<Record<string, string>> {
    return this.#setCookie('', 0)
  }

  /** The cookie is `Lax`, because users follow links in other programs: to an approval in a chat, or back from a sign-in elsewhere. */
  #setCookie(text: string, expiresAtMs: number): Readonly<Record<string, string>> {
    const seconds = Math.max(0, Math.floor((expiresAtMs - this.#options.clock.nowMs()) / 1_000))
    const secure = this.#isSecure ? '; Secure' : ''
    const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`
    return { 'set-cookie': `${this.#cookieName}=${text}; ${attributes}` }
  }

  /** A browser sends the cookies of a host to every port, so each server has its own cookie name. */
  get #cookieName(): string {
    const name = `${COOKIE}_${portOf(new URL(this.#options.publicUrl()))}`
    return this.#isSecure ? `__Host-${name}` : name
  }

  get #isSecure(): boolean {
    return this.#options.publicUrl().startsWith('https:')
  }

  #seal({ kind, credential, id, expiresAtMs }: BrowserSession): string {
    // An operator's cookie does not contain the start token, which the server knows.
    const text = kind === 'operator' ? '' : credential.reveal()
    const plain = Buffer.from(JSON.stringify([id, expiresAtMs, text]))
    return `${kind}.${sealOnce(this.#key, plain, this.#contextOf(kind)).toString('base64url')}`
  }

  #unseal(text: string): BrowserSession | undefined {
    const [named, sealed = '', ...more] = text.split('.')
    const kind = KINDS.find((known) => known === named)
    if (kind === undefined || more.length > 0 || text.length > MAX_COOKIE_LENGTH) return undefined
    const bytes = Buffer.from(sealed, 'base64url')
    // Only the canonical encoding of a session is accepted.
    if (bytes.toString('base64url') !== sealed) return undefined
    try {
      const plain = unseal(this.#key, bytes, this.#contextOf(kind))
      const [id, expiresAtMs, held]: readonly unknown[] = JSON.parse(plain.toString())
      if (typeof id !== 'string' || typeof expiresAtMs !== 'number' || typeof held !== 'string')
        return undefined
      const credential = kind === 'operator' ? this.#options.startToken.token : new Secret(held)
      return { kind, credential, id, expiresAtMs }
    } catch {
      return undefined
    }
  }

  /** Derived only from the current keys: a rotation ends all sessions, because a holder of the old key could have forged sessions. */
  get #key(): Buffer {
    return Buffer.from(this.#options.sign('browser session key', ''), 'base64url')
  }

  /** The kind of a cookie is part of its signature; an operator's cookie is valid for one start of the server. */
  #contextOf(kind: SessionKind): string {
    const start = kind === 'operator' ? hash('sha256', this.#options.startToken.token.reveal()) : ''
    return JSON.stringify(['browser session', kind, start])
  }
}

function hasCredential(headers: RequestHeaders): boolean {
  return headers.authorization !== undefined || API_KEY_HEADERS.some((name) => headers[name] !== undefined)
}

function markOf({ id }: BrowserSession): string {
  return `browser session:${id}`
}

/**
 * Names the caller in whose name the operator, signed in to the console by the printed link, runs tools. The permissions and limits of
 * that caller apply, and the record names the operator beside it. An open server does not need the header: the caller is then the person
 * at this machine. No other request may carry the header.
 */
export const RUN_AS_HEADER = 'collet-run-as'

/** The caller in whose name the operator's page calls tools. */
export async function callerForOperator(
  authenticator: Pick<Authenticator, 'openCaller' | 'callerNamed' | 'refresh'>,
  headers: RequestHeaders,
): Promise<Principal> {
  await authenticator.refresh()
  const named = headers[RUN_AS_HEADER]
  const caller =
    named === undefined ? authenticator.openCaller : await authenticator.callerNamed(readOwner(named))
  if (caller !== undefined) return operatedBy(OPERATOR, caller)
  throw fault('not_authorized', named === undefined ? NAMES_NO_CALLER : NO_SUCH_CALLER)
}

/** The refusal of a request that names another caller without permission. */
export function runAsRefusal(): ToolError {
  return fault('not_authorized', NOT_OPERATOR)
}

/** Reads `tenant/key:name`, with both parts percent-encoded. */
function readOwner(text: string): KeyOwner {
  const [tenant = '', id = '', ...more] = text.split('/').map((part) => percentDecoded(part) ?? '')
  const prefix = principalIdOf('')
  if (tenant === '' || !id.startsWith(prefix) || id === prefix || more.length > 0)
    throw fault(
      'request_invalid',
      `${RUN_AS_HEADER}: expected TENANT/key:NAME, for example default/key:alice.`,
    )
  return { tenant, name: id.slice(prefix.length) }
}

const NAMES_NO_CALLER =
  'You are signed in as the operator, who has none of the permissions of callers. Choose a caller in the console to run the tool as. Sign in with an API key to call tools under your own name.'
const NO_SUCH_CALLER =
  'No caller with this name has a key that is valid now. Choose another caller to run the tool as.'
const NOT_OPERATOR =
  'Only the operator, signed in to the console by the link that the server printed, may run a tool as another caller, and only in the console. Leave out the header Collet-Run-As.'
