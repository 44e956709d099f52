import { randomBytes } from 'node:crypto'
import { jwtPrincipalId } from '#auth/tokens'
import type { OAuthSettings, SignInSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { isSameSecret } from '#kernel/base/hash'
import type { Logger } from '#kernel/base/logger'
import type { TokenSet } from '#kernel/base/token-broker'
import type { ChallengeNeed, ChallengeRecord } from '#kernel/call/stages'
import { factsHtml, html, pageReply } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, type HttpRoute, isFromOwnPage } from '#protocols/http-exchange'
import { type ConsentObstacle, obstacleOf } from '#stages/credentials/consent-obstacles'
import { packToken, userDigest } from '#stages/credentials/credentials'
import type { Store } from '#store/collet-store'
import type { ConsentEnd } from '#store/consents'
import type { VaultEntry } from '#store/vault'
import type { OAuthBroker } from './broker.ts'
import type { Exchanged, Return } from './client.ts'
import { type Arrival, cookieName, type Destination, type RoundTrips } from './round-trips.ts'

/**
 * The pages on which people allow a caller to use their account at a provider, and the sign-in that comes before consent and
 * before approvals. The server adds these routes and opens `/challenges/:id` through `ConsentFlow`.
 * Invariant: a token is stored only after its user has confirmed which caller gets it (rule 25).
 */

interface SignInParts {
  readonly broker: OAuthBroker
  readonly settings: OAuthSettings
  readonly trips: RoundTrips
  readonly log: Logger
}

interface ApproverSignInOptions extends SignInParts {
  readonly store: Pick<Store, 'digest'>
}

type SignInResult =
  | {
      readonly kind: 'signed_in'
      readonly token: string
      /** The approver's name, as approval links contain it. */
      readonly name: string
      readonly principal: string
    }
  | { readonly kind: 'failed'; readonly token: string }

/** The sign-in for approvers whose link alone may not decide (rule 23). */
export class ApproverSignIn {
  readonly #options: ApproverSignInOptions

  constructor(options: ApproverSignInOptions) {
    this.#options = options
  }

  get isConfigured(): boolean {
    return this.#options.broker.signIn !== undefined
  }

  /** Redirects the browser to the sign-in; `undefined` if none is configured or it does not answer. */
  async start(
    { tenant, token }: { readonly tenant: string; readonly token: string },
    { asOther }: { readonly asOther: boolean },
  ): Promise<HttpReply | undefined> {
    const { trips, store } = this.#options
    const to = signInDestination(this.#options, asOther)
    const challenge = store.digest(`approver link:${token}`)
    return to && (await trips.depart({ tenant, challenge, stage: 'approver', note: token }, to))
  }

  async finish({ back, note: token = '' }: Pick<Arrival, 'back' | 'note'>): Promise<SignInResult> {
    const { signIn } = this.#options.settings
    const claims = (await exchangeSignIn(this.#options, back)) ?? {}
    const name = signIn && signedInName(signIn, claims)
    const principal = signedInPrincipal(claims)
    if (name === undefined || principal === undefined) return { kind: 'failed', token }
    return { kind: 'signed_in', token, name, principal }
  }
}

function signInDestination({ broker, settings }: SignInParts, asOther: boolean): Destination | undefined {
  if (broker.signIn === undefined || settings.signIn === undefined) return undefined
  const parameters: Record<string, string> = asOther ? { prompt: 'login' } : {}
  return { client: broker.signIn, scopes: settings.signIn.scopes, parameters }
}

/** The claims of the person who signed in; `undefined` if the sign-in failed. */
async function exchangeSignIn(parts: SignInParts, back: Return): Promise<Claims | undefined> {
  const to = signInDestination(parts, false)
  const answer = await to?.client.exchange(back, { scopes: to.scopes, identify: true })
  if (answer?.kind === 'failed') parts.log.warn({ reason: answer.reason }, 'a sign-in failed')
  return answer?.kind === 'tokens' ? (answer.claims ?? {}) : undefined
}

type Claims = Readonly<Record<string, unknown>>

interface ConsentRoutesOptions {
  readonly consents: ConsentFlow
  readonly trips: RoundTrips
  /** Handles approvers who return from the sign-in. */
  finishApprover(arrival: Arrival): Promise<HttpReply>
}

/** Routes that need no API key: the id of a challenge, a cookie and a sign-in decide about access. */
export function consentRoutes(options: ConsentRoutesOptions): readonly HttpRoute[] {
  return [
    pageRoute('/challenges/:id/start', (request) => options.consents.start(request)),
    pageRoute('/oauth/callback', (request) => finish(request, options)),
  ]
}

async function finish(
  request: HttpRequest,
  { consents, trips, finishApprover }: ConsentRoutesOptions,
): Promise<HttpReply> {
  const arrival = await trips.arrive(request)
  if (arrival === undefined) return unknownReturnPage()
  return await (arrival.consent.stage === 'approver' ? finishApprover(arrival) : consents.finish(arrival))
}

function pageRoute(path: string, handle: HttpRoute['handle']): HttpRoute {
  return {
    method: 'GET',
    path,
    access: 'open',
    body: 'never',
    handle,
    refuse: (_request, error, status) =>
      pageReply(status, { title: 'This did not work', content: html`<p>${error.message}</p>` }),
  }
}

interface ConsentFlowOptions extends SignInParts {
  readonly store: Pick<Store, 'digest' | 'vault' | 'findChallenge' | 'endChallenge'>
  readonly runs: { resolve(need: ChallengeNeed, end: ConsentEnd): Promise<void> }
  readonly clock: Clock
  publicUrl(): string
  /** True if callers without a credential are the user of this machine (rule 28); false once there is a key. */
  hasLocalCaller(): boolean
}

export class ConsentFlow {
  readonly #options: ConsentFlowOptions

  constructor(options: ConsentFlowOptions) {
    this.#options = options
  }

  obstacle(challenge: ChallengeRecord): ConsentObstacle | undefined {
    const { broker, hasLocalCaller } = this.#options
    const ofProvider = broker.obstacle(challenge.provider, challenge.scopes)
    return obstacleOf(challenge, { ofProvider, hasLocalCaller: hasLocalCaller() })
  }

  /** `GET /challenges/:id`: the sign-in if there is one, then the page that names the caller (rule 25). */
  async open(challenge: ChallengeRecord, request: HttpRequest): Promise<HttpReply> {
    const to = signInDestination(this.#options, request.query.get('as') === 'other')
    return to === undefined ? await this.#showPage(challenge) : await this.#depart(challenge, 'sign_in', to)
  }

  /** `GET /challenges/:id/start`, which only a click on this server's own page can reach. */
  async start(request: HttpRequest): Promise<HttpReply> {
    const challenge = await this.#pending(request.params.id ?? '')
    if (challenge === undefined) return unknownReturnPage()
    const name = cookieName('seen', challenge.id)
    const seen = this.#options.trips.cookies().read(request.headers.cookie, name) ?? ''
    const isFromPage = isFromOwnPage(request) && isSameSecret(seen, this.#seenMark(challenge))
    return isFromPage ? await this.#departToProvider(challenge) : unknownReturnPage()
  }

  async finish(arrival: Arrival): Promise<HttpReply> {
    const challenge = await this.#pending(arrival.consent.challenge)
    if (challenge === undefined) return unknownReturnPage()
    return arrival.consent.stage === 'sign_in'
      ? await this.#finishSignIn(challenge, arrival)
      : await this.#finishConsent(challenge, arrival)
  }

  /**
   * Providers often grant access without asking, and a link may come from an attacker, so a person first reads which caller
   * would get access, and clicks. The cookie proves that the page was shown, and that the sign-in came before it.
   */
  async #showPage(challenge: ChallengeRecord): Promise<HttpReply> {
    const name = cookieName('seen', challenge.id)
    const cookie = this.#options.trips.cookies().set(name, this.#seenMark(challenge), 'Strict')
    const startUrl = `${this.#options.publicUrl()}/challenges/${challenge.id}/start`
    return requestPage(challenge, { scopes: await this.#scopesToRequest(challenge), startUrl }, cookie)
  }

  async #finishSignIn(challenge: ChallengeRecord, { back, clear }: Arrival): Promise<HttpReply> {
    const { settings, store, log } = this.#options
    const { signIn } = settings
    if (signIn === undefined) return unknownReturnPage()
    const claims = await exchangeSignIn(this.#options, back)
    // The challenge stays open for its user, because a visitor with the link must not be able to end it.
    if (claims === undefined) return providerFailedPage('The sign-in', clear)
    if (isConsenter(store, signIn, { challenge, claims })) return await this.#showPage(challenge)
    const { principal, provider } = challenge
    log.warn({ principal, provider }, 'a consent was opened by someone other than its user')
    return wrongUserPage(`${this.#options.publicUrl()}/challenges/${challenge.id}?as=other`, clear)
  }

  async #departToProvider(challenge: ChallengeRecord): Promise<HttpReply> {
    const found = this.#options.broker.provider(challenge.provider)
    if (found === undefined) return unknownReturnPage()
    const { client, settings } = found
    const scopes = await this.#scopesToRequest(challenge)
    return await this.#depart(challenge, 'provider', { client, scopes, parameters: settings.parameters })
  }

  async #depart(
    { tenant, id, provider }: ChallengeRecord,
    stage: 'sign_in' | 'provider',
    to: Destination,
  ): Promise<HttpReply> {
    const reply = await this.#options.trips.depart({ tenant, challenge: id, stage }, to)
    return reply ?? providerFailedPage(stage === 'sign_in' ? 'The sign-in' : provider)
  }

  async #finishConsent(challenge: ChallengeRecord, { back, clear }: Arrival): Promise<HttpReply> {
    const { broker, log } = this.#options
    const found = broker.provider(challenge.provider)
    if (found === undefined) return unknownReturnPage()
    const scopes = await this.#scopesToRequest(challenge)
    const answer: Exchanged = await found.client.exchange(back, { scopes, identify: false })
    if (answer.kind === 'denied') {
      await this.#end(challenge, { as: 'failed', reason: 'denied' })
      return outcomePage('denied', challenge, clear)
    }
    if (answer.kind === 'failed') {
      log.warn({ provider: challenge.provider, reason: answer.reason }, 'a consent could not be completed')
      return providerFailedPage(challenge.provider, clear)
    }
    const { scopes: granted } = answer.tokens
    const covers = challenge.scopes.every((scope) => granted.includes(scope))
    if (!covers && (await this.#removesScopes(challenge, granted))) {
      await this.#end(challenge, { as: 'failed', reason: 'scopes' })
      return outcomePage('tooLittle', challenge, clear)
    }
    const credential = { ref: await this.#keep(challenge, answer.tokens), scopes: granted }
    await this.#end(challenge, covers ? { as: 'completed', credential } : { as: 'failed', reason: 'scopes' })
    return outcomePage(covers ? 'completed' : 'tooLittle', challenge, clear)
  }

  /** True if storing this token, which the challenge's tool cannot use, would take scopes away from other tools. */
  async #removesScopes(challenge: ChallengeRecord, granted: readonly string[]): Promise<boolean> {
    const before = await this.#tokenOf(challenge)
    return before?.value !== undefined && before.scopes.some((scope) => !granted.includes(scope))
  }

  async #tokenOf({ tenant, principal, user, provider }: ChallengeRecord): Promise<VaultEntry | undefined> {
    return await this.#options.store.vault.find({ tenant, principal, user, provider, kind: 'token' })
  }

  /** Resolves runs first: after a crash in between, the next call that finds the token ends the challenge. */
  async #end(challenge: ChallengeRecord, end: Omit<ConsentEnd, 'atMs'>): Promise<void> {
    const { store, clock, runs } = this.#options
    const atMs = clock.nowMs()
    await runs.resolve(challenge, { ...end, atMs })
    await store.endChallenge(challenge, end.as, atMs)
  }

  /** Returns the reference of the stored credential. */
  async #keep(challenge: ChallengeRecord, tokens: TokenSet): Promise<string> {
    const { tenant, principal, user, provider } = challenge
    const ref = newCredentialRef()
    await this.#options.store.vault.put({
      ...{ tenant, principal, user, provider, kind: 'token' },
      ref,
      value: packToken(tokens),
      scopes: tokens.scopes,
      expiresAtMs: tokens.expiresAtMs,
      by: 'consent',
      atMs: this.#options.clock.nowMs(),
    })
    return ref
  }

  /** The tool's scopes and all scopes granted before, so that a new consent takes none away from other tools. */
  async #scopesToRequest(challenge: ChallengeRecord): Promise<readonly string[]> {
    const settings = this.#options.broker.provider(challenge.provider)?.settings
    const before = (await this.#tokenOf(challenge))?.scopes ?? []
    const allowed = before.filter(
      (scope) => settings?.scopes === undefined || settings.scopes.includes(scope),
    )
    return [...new Set([...(settings?.alwaysScopes ?? []), ...allowed, ...challenge.scopes])]
  }

  async #pending(id: string): Promise<ChallengeRecord | undefined> {
    const { store, clock } = this.#options
    const challenge = await store.findChallenge(id)
    const isOpen = challenge?.status === 'pending' && challenge.expiresAtMs > clock.nowMs()
    return isOpen && this.obstacle(challenge) === undefined ? challenge : undefined
  }

  #seenMark({ id }: ChallengeRecord): string {
    const { store, broker } = this.#options
    return store.digest(`consent ${broker.signIn === undefined ? 'seen' : 'signed in'}:${id}`)
  }
}

/** An opaque reference, which reveals nothing about the credential (OWP-74). */
export function newCredentialRef(): string {
  return `cred_${randomBytes(18).toString('base64url')}`
}

/**
 * True if the person who signed in may consent to the challenge (rule 25): its user, or for a challenge without a user the principal
 * itself, which is the subject of a JWT from the same issuer or a user that the config names.
 */
function isConsenter(
  store: Pick<Store, 'digest'>,
  signIn: SignInSettings,
  opened: { readonly challenge: ChallengeRecord; readonly claims: Claims },
): boolean {
  const { challenge, claims } = opened
  const userId = signedInName(signIn, claims)
  if (userId === undefined) return false
  if (challenge.user !== '') return userDigest(store, userId) === challenge.user
  const { principal } = challenge
  const owners = Object.hasOwn(signIn.owners, principal) ? signIn.owners[principal] : undefined
  return principal === signedInPrincipal(claims) || (owners?.includes(userId) ?? false)
}

/** The user id that the sign-in service states. An email address that it has not verified does not count. */
export function signedInName(
  { userClaim }: Pick<SignInSettings, 'userClaim'>,
  claims: Claims,
): string | undefined {
  const name = claims[userClaim]
  const isUnverified = userClaim === 'email' && String(claims.email_verified) === 'false'
  return typeof name === 'string' && name !== '' && !isUnverified ? name : undefined
}

/** The principal that a JWT with the same issuer and subject would have (rule 3). */
function signedInPrincipal({ iss, sub }: Claims): string | undefined {
  return typeof iss === 'string' && typeof sub === 'string' ? jwtPrincipalId(iss, sub) : undefined
}

type Headers = Readonly<Record<string, string>>

/** The page shown before every consent. It names the caller that would get access (rule 25). */
function requestPage(
  challenge: ChallengeRecord,
  { scopes, startUrl }: { readonly scopes: readonly string[]; readonly startUrl: string },
  headers: Headers,
): HttpReply {
  const { principal, tenant, tool, provider, user } = challenge
  const facts = factsHtml([
    ['Caller', principal],
    ['Tenant', tenant],
    ['For', user === '' ? 'the caller itself' : 'a user of the caller'],
    ['Tool', tool],
    ['Provider', provider],
    ['Scopes', scopes.length === 0 ? 'none named' : scopes.join(', ')],
  ])
  const content = html`<p>The caller below will be able to use your account at ${provider}. Continue only if you have just asked it to do something.</p>
${facts}
<p><a href="${startUrl}" rel="noreferrer">Continue to ${provider}</a></p>`
  return pageReply(200, { title: `Authorization for ${provider}`, content }, headers)
}

const OUTCOMES = {
  completed: { status: 200, text: 'Access has been granted. You can go back to your agent.' },
  denied: {
    status: 403,
    text: 'Access was not granted. Nothing was stored. To try again, ask your agent to call the tool again.',
  },
  tooLittle: {
    status: 403,
    text: 'The provider granted less than the tool needs. To try again, ask your agent to call the tool again.',
  },
}

function outcomePage(
  outcome: keyof typeof OUTCOMES,
  { provider }: ChallengeRecord,
  headers: Headers,
): HttpReply {
  const { status, text } = OUTCOMES[outcome]
  return textPage(status, `Authorization for ${provider}`, text, headers)
}

/** One text for every unknown return, so that the page reveals nothing to a guesser. */
function unknownReturnPage(): HttpReply {
  return textPage(
    400,
    'This link does not work',
    'It has already been used, has expired, or was opened in another browser first. Open the link from your agent again.',
  )
}

function providerFailedPage(name: string, headers?: Headers): HttpReply {
  const text = `${name} did not answer as expected. Nothing was stored. Open the link from your agent again later.`
  return textPage(502, 'No usable answer', text, headers)
}

function wrongUserPage(againUrl: string, headers: Headers): HttpReply {
  const content = html`<p>You are signed in as someone other than the user this authorization is for. Nothing was stored.</p>
<p><a href="${againUrl}" rel="noreferrer">Sign in as another user</a></p>`
  return pageReply(403, { title: 'Not for this user', content }, headers)
}

function textPage(status: number, title: string, text: string, headers: Headers = {}): HttpReply {
  return pageReply(status, { title, content: html`<p>${text}</p>` }, headers)
}
