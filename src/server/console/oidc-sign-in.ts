import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { Authenticator } from '#auth/authenticator'
import type { ConsoleSignInSettings } from '#config/settings'
import { basePath, portOf } from '#config/to-settings'
import { isToolError } from '#kernel/base/errors'
import { isSameSecret } from '#kernel/base/hash'
import { parseJson } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Secret } from '#kernel/base/secret'
import type { Exchanged, OAuthClient } from '#oauth/client'
import { FlowCookies } from '#oauth/round-trips'
import { html, PAGE_HEADERS, pageReply, refuseOnPage } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import type { ServerRoute } from '#server/http/router'
import type { BrowserSessions } from './sessions.ts'

/*
 * Sign-in to the console at an identity provider (OpenID Connect code flow with PKCE). Used by the routes of the console.
 * The result is a token that callers could send in a header, verified by the same `auth.issuers`, so that identity and permissions are
 * decided in one place.
 * Invariant: a sign-in ends in the console and never redirects elsewhere. The server stores nothing about it, because any visitor may begin one.
 */

interface OidcSignInOptions {
  readonly settings: ConsoleSignInSettings
  readonly client: OAuthClient
  readonly sessions: BrowserSessions
  readonly authenticator: Authenticator
  readonly log: Logger
  publicUrl(): string
}

/**
 * State of a sign-in, which the browser keeps in a cookie. `to` is the path in the console to return to. `pageNonce` is a random value from the
 * page that began the sign-in: another program on this host can plant a cookie, but does not know this value.
 */
const FLOW_STATE = z.record(z.enum(['state', 'verifier', 'nonce', 'to', 'pageNonce']), z.string())
type FlowState = z.infer<typeof FLOW_STATE>

const HOME = '/console'
const PATH = '/console/sign-in'
const COOKIE = 'console-sign-in'
const LIFETIME_SECONDS = 600
/** Maximum number of open sign-ins of one browser, one per tab. Beyond it the oldest is dropped, because a request's cookies are limited. */
const MAX_OPEN = 5
const FLOW_NAME_CHARACTERS = 16
const MAX_PATH_LENGTH = 1_000
const PAGE_NONCE = /^[\w-]{20,100}$/

export function createOidcSignIn(options: OidcSignInOptions): readonly ServerRoute[] {
  const shared = { method: 'GET', access: 'open', body: 'never', refuse: refuseOnPage } as const
  return [
    { ...shared, path: PATH, handle: (request) => startSignIn(request, options) },
    { ...shared, path: `${PATH}/callback`, handle: (request) => finishSignIn(request, options) },
  ]
}

async function startSignIn(
  { query, headers: sent }: HttpRequest,
  options: OidcSignInOptions,
): Promise<HttpReply> {
  const { client, settings, publicUrl } = options
  const to = pathWithin(query.get('to') ?? HOME, basePath(publicUrl()))
  const pageNonce = query.get('page_nonce') ?? ''
  // Only a page can begin a sign-in: it has to recognise its own sign-in when the browser returns.
  if (!PAGE_NONCE.test(pageNonce)) return redirect(to, options)
  const flow: FlowState = { state: randomText(), verifier: randomText(), nonce: randomText(), to, pageNonce }
  const departure = { ...flow, redirectUri: redirectUri(options) }
  const location = await client.authorizationUrl(departure, { scopes: settings.scopes, parameters: {} })
  if (location === undefined) return failedPage(options, NO_ANSWER)
  const encoded = Buffer.from(JSON.stringify(flow)).toString('base64url')
  const jar = cookiesOf(options)
  const headers = { ...PAGE_HEADERS, ...jar.set(flowName(options, flow.state), encoded, 'Lax'), location }
  const excess = jar.names(sent.cookie, flowName(options, '')).slice(0, -(MAX_OPEN - 1))
  return { status: 302, headers, cookies: excess.map((name) => jar.clearing(name)), body: undefined }
}

async function finishSignIn(request: HttpRequest, options: OidcSignInOptions): Promise<HttpReply> {
  const state = request.query.get('state') ?? ''
  const [jar, cookie] = [cookiesOf(options), flowName(options, state)]
  const flow = readFlowState(jar.read(request.headers.cookie, cookie))
  if (flow === undefined || !isSameSecret(state, flow.state)) return failedPage(options, UNKNOWN_RETURN, 400)
  const reply = await completeSignIn(flow, request, options)
  return { ...reply, cookies: [jar.clearing(cookie)] }
}

/** Exchanges the returned code for tokens and opens a session. */
async function completeSignIn(
  flow: FlowState,
  request: HttpRequest,
  options: OidcSignInOptions,
): Promise<HttpReply> {
  const { client, settings, sessions, log } = options
  const back = { ...flow, redirectUri: redirectUri(options), parameters: request.query }
  const answer = await client.exchange(back, { scopes: settings.scopes, identify: true })
  if (answer.kind === 'denied') return failedPage(options, DENIED, 403)
  if (answer.kind === 'failed') {
    log.warn({ reason: answer.reason }, 'a sign-in to the console failed')
    return failedPage(options, NO_ANSWER)
  }
  const found = await findCredential(answer, options)
  if (typeof found === 'string') {
    log.warn({ reason: found }, 'a sign-in to the console returned no token that auth.issuers accepts')
    return failedPage(options, `${NOT_ACCEPTED} ${found}`, 403)
  }
  const opened = sessions.open({ kind: 'token', ...found })
  if (opened === undefined) return failedPage(options, TOO_LONG, 502)
  const token = `#session=${sessions.tokenOf(opened.session)}&page_nonce=${encodeURIComponent(flow.pageNonce)}`
  return redirect(`${pathWithin(flow.to, '')}${token}`, options, opened.headers)
}

function redirect(
  path: string,
  { publicUrl }: OidcSignInOptions,
  headers: HttpReply['headers'] = {},
): HttpReply {
  const location = `${basePath(publicUrl())}${path}`
  return { status: 303, headers: { ...PAGE_HEADERS, ...headers, location }, body: undefined }
}

/** Returns the access token if callers could send it, else the ID token; or the reason why neither is accepted. */
async function findCredential(
  { tokens, idToken }: Extract<Exchanged, { readonly kind: 'tokens' }>,
  { authenticator }: OidcSignInOptions,
): Promise<{ readonly credential: Secret; readonly endsAtMs: number | undefined } | string> {
  let reason = ''
  const candidates = [tokens.accessToken, ...(idToken === undefined ? [] : [idToken])]
  for (const credential of candidates) {
    // Only its issuer can verify a token that is not a JWT.
    if (credential.reveal().split('.', 4).length !== 3) continue
    try {
      await authenticator.authenticate({ authorization: `Bearer ${credential.reveal()}` })
      return { credential, endsAtMs: await endOf(credential) }
    } catch (error) {
      if (!isToolError(error) || error.code !== 'unauthenticated') throw error
      reason = error.message
    }
  }
  return reason
}

async function endOf(token: Secret): Promise<number | undefined> {
  const { decodeJwt } = await import('jose')
  const { exp } = decodeJwt(token.reveal())
  return exp === undefined ? undefined : exp * 1_000
}

function readFlowState(encoded = ''): FlowState | undefined {
  return FLOW_STATE.safeParse(parseJson(Buffer.from(encoded, 'base64url').toString())).data
}

/** Returns the console's home for a path that is not in the console, so that no request redirects to another site. */
function pathWithin(requested: string, base: string): string {
  const path = requested.startsWith(`${base}${HOME}`) ? requested.slice(base.length) : requested
  const url = path.length > MAX_PATH_LENGTH ? null : URL.parse(path, 'http://console.invalid')
  const isWithin =
    url?.host === 'console.invalid' && (url.pathname === HOME || url.pathname.startsWith(`${HOME}/`))
  return isWithin ? `${url.pathname}${url.search}` : HOME
}

function redirectUri({ publicUrl }: OidcSignInOptions): string {
  return `${publicUrl()}${PATH}/callback`
}

/** Each sign-in has its own cookie, so that tabs and servers on one host do not collide: browsers send cookies to every port. */
function flowName({ publicUrl }: OidcSignInOptions, state: string): string {
  return `${COOKIE}-${portOf(new URL(publicUrl()))}-${state.slice(0, FLOW_NAME_CHARACTERS)}`
}

function cookiesOf({ publicUrl }: OidcSignInOptions): FlowCookies {
  const isSecure = publicUrl().startsWith('https:')
  return new FlowCookies({ isSecure, maxAgeSeconds: LIFETIME_SECONDS })
}

function randomText(): string {
  return randomBytes(32).toString('base64url')
}

const NO_ANSWER = 'The sign-in service did not answer as expected. Try again later; the log has the reason.'
const UNKNOWN_RETURN = 'This sign-in began in another browser, was already finished, or took too long.'
const DENIED = 'The sign-in was cancelled.'
const NOT_ACCEPTED =
  'You signed in, but this server accepts neither the access token nor the ID token that you got. An operator has to check auth.issuers: its audience must be that of the token; for an ID token that is the client id.'
const TOO_LONG =
  'You signed in, but the token is too long for a browser to keep. An operator can make the identity provider put less into it (lists of groups are the usual cause), or request an access token with console.signIn.resource.'

function failedPage(options: OidcSignInOptions, text: string, status = 502): HttpReply {
  const path = basePath(options.publicUrl())
  const content = html`<p>${text}</p>
<p><a href="${path}${HOME}" rel="noreferrer">Go to the console</a>, where you can sign in again</p>`
  return pageReply(status, { title: 'Not signed in', content })
}
