import type { Authenticator } from '#auth/authenticator'
import type { StartToken } from '#auth/start-token'
import { fault, isToolError } from '#kernel/base/errors'
import { isJsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { isOperator, OPERATOR } from '#server/admin/access'
import { badRequest, NO_STORE, timeOf } from '#server/admin/admin-route'
import { httpFault, jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'
import { VERSION } from '#server/version'
import type { BrowserSession, BrowserSessions } from './sessions.ts'

/*
 * The routes of `/console/session`: show the session, sign in with a key, sign out. Used by the pages of the console.
 * Invariant: answers contain no credential.
 */

interface SessionRoutesOptions {
  readonly sessions: BrowserSessions
  readonly authenticator: Authenticator
  readonly startToken: Pick<StartToken, 'matches' | 'token'>
  /** True if start links work, because only this machine can reach the server. */
  readonly hasLinks: boolean
  readonly issuer: string | undefined
  publicUrl(): string
}

const MAX_KEY_LENGTH = 8_192

export function createSessionRoutes(options: SessionRoutesOptions): readonly ServerRoute[] {
  const shared = { path: '/console/session', access: 'open', refuse: refuseWithMessage } as const
  return [
    { ...shared, method: 'GET', body: 'never', handle: (request) => show(request, options) },
    { ...shared, method: 'POST', body: 'json', handle: (request) => signIn(request, options) },
    { ...shared, method: 'DELETE', body: 'never', handle: (request) => signOut(request, options) },
  ]
}

async function show(request: HttpRequest, options: SessionRoutesOptions): Promise<HttpReply> {
  const { sessions } = options
  const session = await sessions.confirm(request)
  if (session === undefined) return sessionReply(options)
  const principal = await principalOf(session, options)
  return principal === undefined
    ? sessionReply(options, undefined, sessions.clearing())
    : sessionReply(options, { session, principal })
}

/** The current principal of a session; `undefined` if its credential is no longer valid. */
async function principalOf(
  session: BrowserSession,
  { authenticator }: SessionRoutesOptions,
): Promise<Principal | undefined> {
  if (session.kind === 'operator') return OPERATOR
  if (!authenticator.isConfigured) return undefined
  try {
    return await authenticator.authenticate({ authorization: `Bearer ${session.credential.reveal()}` })
  } catch (error) {
    if (isToolError(error) && error.code === 'unauthenticated') return undefined
    throw error
  }
}

async function signIn({ body }: HttpRequest, options: SessionRoutesOptions): Promise<HttpReply> {
  const { sessions, authenticator, startToken, hasLinks } = options
  const { key } = isJsonObject(body) ? body : {}
  if (typeof key !== 'string' || key.trim() === '' || key.length > MAX_KEY_LENGTH)
    throw badRequest('`key` must be an API key of this server, as text.')
  const credential = new Secret(key.trim())
  const isStartToken = hasLinks && startToken.matches(credential.reveal())
  if (!isStartToken && !authenticator.isConfigured) throw fault('unauthenticated', NO_KEYS)
  const principal = isStartToken
    ? OPERATOR
    : await authenticator.authenticate({ authorization: `Bearer ${credential.reveal()}` })
  const opened = sessions.open({ kind: isStartToken ? 'operator' : 'key', credential })
  if (opened === undefined) throw httpFault(413, TOO_LONG)
  return sessionReply(options, { session: opened.session, principal }, opened.headers)
}

const NO_KEYS = `This server has no keys, so every caller may list and call tools. To manage it, open the link that "collet serve" printed, or run "${commandOnPages()} sign-in" for another one.`
const TOO_LONG = `This key is too long to be kept by a browser. Create a shorter key with "${commandOnPages()} keys create".`

async function signOut(request: HttpRequest, options: SessionRoutesOptions): Promise<HttpReply> {
  const { sessions } = options
  const confirmed = await sessions.confirm(request)
  if (confirmed === undefined && (await sessions.find(request)) !== undefined)
    throw fault('not_authorized', 'Sign out on a page of the console. You are still signed in.')
  if (confirmed !== undefined) await sessions.end(confirmed)
  return { status: 204, headers: { ...NO_STORE, ...sessions.clearing() }, body: undefined }
}

function sessionReply(
  { sessions, authenticator, hasLinks, issuer, publicUrl }: SessionRoutesOptions,
  signedIn?: { readonly session: BrowserSession; readonly principal: Principal },
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  const { session, principal } = signedIn ?? {}
  const body = {
    server: {
      version: VERSION,
      url: publicUrl(),
      command: commandOnPages(),
      isOpen: !authenticator.isConfigured,
      signIn: {
        link: hasLinks ? `${commandOnPages()} sign-in` : null,
        oidc: issuer === undefined ? null : new URL(issuer).host,
      },
    },
    principal: principal === undefined ? null : renderPrincipal(principal),
    csrf: session === undefined ? null : sessions.tokenOf(session),
    expiresAt: timeOf(session?.expiresAtMs),
  }
  return jsonReply(200, body, { ...NO_STORE, ...headers })
}

function renderPrincipal(principal: Principal) {
  const { id, tenant, scopes } = principal
  return { id, name: nameIn(id), tenant, scopes, isOperator: isOperator(principal) }
}

/** The name in a principal id: `ann` for `key:ann` and for `jwt:https://idp.example#ann`; every `#` in an issuer is escaped. */
function nameIn(id: string): string {
  return /^(?:key:|jwt:[^#]*#)(.+)$/s.exec(id)?.[1] ?? id
}
