import { randomBytes } from 'node:crypto'
import { generateRandomCodeVerifier, generateRandomNonce, generateRandomState } from 'oauth4webapi'
import type { OAuthSettings } from '#config/settings'
import { packToken } from '#core/credentials/token-value'
import type { Clock } from '#core/ports/clock'
import type { Consent, ConsentEnd, ConsentStage } from '#core/ports/consent-store'
import type { Logger } from '#core/ports/logger'
import type { ChallengeNeed, ChallengeRecord, Store } from '#core/ports/store'
import type { TokenSet } from '#core/ports/token-broker'
import { Secret } from '#core/secret'
import { PAGE_HEADERS } from '#protocols/html-page'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import {
  askingPage,
  completedPage,
  deniedPage,
  providerFailedPage,
  tooLittlePage,
  unknownReturnPage,
  wrongUserPage,
} from './consent-pages.ts'
import { FlowCookies, isSameText } from './flow-cookie.ts'
import { isConsenter } from './is-consenter.ts'
import type { OAuthBroker } from './oauth-broker.ts'
import type { Departure, Exchanged, OAuthClient } from './oauth-client.ts'

const LIFETIME_MS = 10 * 60_000
/** Opening a link many times must not fill the store. */
const MOST_OPEN = 10
const LONGEST_STATE = 200
const COOKIE_NAME_CHARACTERS = 16

export interface ConsentDeskOptions {
  readonly store: Pick<Store, 'digest' | 'consents' | 'vault' | 'findChallenge' | 'endChallenge'>
  readonly broker: OAuthBroker
  /** Tells the runs that wait for a consent how it ended. */
  readonly runs: { resolve(need: ChallengeNeed, end: ConsentEnd): Promise<void> }
  readonly settings: OAuthSettings
  readonly clock: Clock
  readonly log: Logger
  publicUrl(): string
}

/** Where people are sent out to providers and come back. All that `state` stands for stays here. */
export class ConsentDesk {
  readonly #options: ConsentDeskOptions

  constructor(options: ConsentDeskOptions) {
    this.#options = options
  }

  /** `GET /challenges/:id`: to the sign-in if there is one, then the page that says for whom this is (rule 25). */
  async open(challenge: ChallengeRecord, request: HttpRequest): Promise<HttpReply> {
    const { broker, settings } = this.#options
    if (broker.signIn === undefined || settings.signIn === undefined) return await this.#showAsking(challenge)
    const parameters: Record<string, string> = request.query.get('as') === 'other' ? { prompt: 'login' } : {}
    return await this.#depart(challenge, 'sign_in', {
      client: broker.signIn,
      scopes: settings.signIn.scopes,
      parameters,
    })
  }

  /** `GET /challenges/:id/start`, which only a click on our own page reaches. */
  async start(request: HttpRequest): Promise<HttpReply> {
    const challenge = await this.#pending(request.params.id ?? '')
    if (challenge === undefined) return unknownReturnPage()
    const site = request.headers['sec-fetch-site']
    const seen = this.#cookies().read(request.headers.cookie, seenName(challenge)) ?? ''
    const isFromPage =
      (site === undefined || site === 'same-origin') && isSameText(seen, this.#seenMark(challenge))
    return isFromPage ? await this.#departToProvider(challenge) : unknownReturnPage()
  }

  /** `GET /oauth/callback`, of both stages. */
  async finish(request: HttpRequest): Promise<HttpReply> {
    const { store, clock } = this.#options
    const state = request.query.get('state') ?? ''
    if (state === '' || state.length > LONGEST_STATE) return unknownReturnPage()
    const consent = await store.consents.find(this.#stateDigest(state))
    if (consent === undefined || !this.#isSameBrowser(consent, request)) return unknownReturnPage()
    if (!(await store.consents.take(consent.id)) || consent.expiresAtMs <= clock.nowMs())
      return unknownReturnPage()
    const challenge = await this.#pending(consent.challenge)
    if (challenge === undefined) return unknownReturnPage()
    const departure = this.#departureOf(state, consent)
    const back = { ...departure, parameters: request.query }
    return consent.stage === 'sign_in'
      ? await this.#finishSignIn(challenge, back)
      : await this.#finishConsent(challenge, back)
  }

  /**
   * Providers often let people through without a word, and a link may come from anybody: so a person reads which caller
   * would get the access, and clicks. The cookie is the proof of that, and of the sign-in before.
   */
  async #showAsking(challenge: ChallengeRecord): Promise<HttpReply> {
    const cookie = this.#cookies().set(seenName(challenge), this.#seenMark(challenge), 'Strict')
    const startUrl = `${this.#options.publicUrl()}/challenges/${challenge.id}/start`
    return askingPage(challenge, { scopes: await this.#scopesToAsk(challenge), startUrl }, cookie)
  }

  async #finishSignIn(
    challenge: ChallengeRecord,
    back: Parameters<OAuthClient['exchange']>[0],
  ): Promise<HttpReply> {
    const { broker, settings, store, log } = this.#options
    const { signIn } = settings
    if (broker.signIn === undefined || signIn === undefined) return unknownReturnPage()
    const clear = this.#clear(back)
    const answer = await broker.signIn.exchange(back, { scopes: signIn.scopes, identify: true })
    if (answer.kind === 'failed') log.warn({ reason: answer.reason }, 'a sign-in failed')
    // Whoever only has the link can end nothing: the challenge stays open for its user.
    if (answer.kind !== 'tokens') return providerFailedPage('The sign-in', clear)
    if (isConsenter(store, signIn, { challenge, claims: answer.claims ?? {} }))
      return await this.#showAsking(challenge)
    const { principal, provider } = challenge
    log.warn({ principal, provider }, 'a consent was opened by somebody it is not for')
    return wrongUserPage(`${this.#options.publicUrl()}/challenges/${challenge.id}?as=other`, clear)
  }

  async #departToProvider(challenge: ChallengeRecord): Promise<HttpReply> {
    const found = this.#options.broker.provider(challenge.provider)
    if (found === undefined) return unknownReturnPage()
    const { client, settings } = found
    const scopes = await this.#scopesToAsk(challenge)
    return await this.#depart(challenge, 'provider', { client, scopes, parameters: settings.parameters })
  }

  async #depart(
    challenge: ChallengeRecord,
    stage: ConsentStage,
    to: {
      readonly client: OAuthClient
      readonly scopes: readonly string[]
      readonly parameters: Readonly<Record<string, string>>
    },
  ): Promise<HttpReply> {
    const { store, clock } = this.#options
    const cookies = this.#cookies()
    const departure: Departure = {
      state: generateRandomState(),
      verifier: generateRandomCodeVerifier(),
      nonce: to.scopes.includes('openid') ? generateRandomNonce() : undefined,
      redirectUri: this.#redirectUri(),
    }
    const location = await to.client.authorizationUrl(departure, to)
    if (location === undefined)
      return providerFailedPage(stage === 'sign_in' ? 'The sign-in' : challenge.provider)
    const secret = cookies.newSecret()
    const id = this.#stateDigest(departure.state)
    const consent: Consent = {
      id,
      tenant: challenge.tenant,
      challenge: challenge.id,
      stage,
      browser: this.#browserDigest(secret),
      held: new Secret(JSON.stringify([departure.verifier, departure.nonce ?? null])),
      expiresAtMs: clock.nowMs() + LIFETIME_MS,
    }
    await store.consents.begin(consent, MOST_OPEN)
    const headers = { ...PAGE_HEADERS, ...cookies.set(flowName(id), secret, 'Lax'), location }
    return { status: 302, headers, body: undefined }
  }

  async #finishConsent(
    challenge: ChallengeRecord,
    back: Parameters<OAuthClient['exchange']>[0],
  ): Promise<HttpReply> {
    const { broker, log } = this.#options
    const found = broker.provider(challenge.provider)
    if (found === undefined) return unknownReturnPage()
    const clear = this.#clear(back)
    const scopes = await this.#scopesToAsk(challenge)
    const answer: Exchanged = await found.client.exchange(back, { scopes, identify: false })
    if (answer.kind === 'denied') {
      await this.#end(challenge, { as: 'failed', reason: 'denied' })
      return deniedPage(challenge, clear)
    }
    if (answer.kind === 'failed') {
      log.warn({ provider: challenge.provider, reason: answer.reason }, 'a consent could not be completed')
      return providerFailedPage(challenge.provider, clear)
    }
    const { scopes: given } = answer.tokens
    const credential = { ref: await this.#keep(challenge, answer.tokens), scopes: given }
    const covers = challenge.scopes.every((scope) => given.includes(scope))
    await this.#end(challenge, covers ? { as: 'completed', credential } : { as: 'failed', reason: 'scopes' })
    return covers ? completedPage(challenge, clear) : tooLittlePage(challenge, clear)
  }

  /** Its runs hear first: what a crash cuts off here is told with the next call that finds the token. */
  async #end(challenge: ChallengeRecord, end: Omit<ConsentEnd, 'atMs'>): Promise<void> {
    const { store, clock, runs } = this.#options
    const atMs = clock.nowMs()
    await runs.resolve(challenge, { ...end, atMs })
    await store.endChallenge(challenge, end.as, atMs)
  }

  /** Gives the reference that the credential has from now on. */
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

  /** What the tool needs and what was given before: a new consent never takes away from other tools. */
  async #scopesToAsk({
    tenant,
    principal,
    user,
    provider,
    scopes,
  }: ChallengeRecord): Promise<readonly string[]> {
    const { broker, store } = this.#options
    const settings = broker.provider(provider)?.settings
    const before =
      (await store.vault.find({ tenant, principal, user, provider, kind: 'token' }))?.scopes ?? []
    const allowed = before.filter(
      (scope) => settings?.scopes === undefined || settings.scopes.includes(scope),
    )
    return [...new Set([...(settings?.alwaysScopes ?? []), ...allowed, ...scopes])]
  }

  async #pending(id: string): Promise<ChallengeRecord | undefined> {
    const { store, clock } = this.#options
    const challenge = await store.findChallenge(id)
    const isOpen = challenge?.status === 'pending' && challenge.expiresAtMs > clock.nowMs()
    return isOpen && challenge.consent === true ? challenge : undefined
  }

  #isSameBrowser(consent: Consent, request: HttpRequest): boolean {
    const secret = this.#cookies().read(request.headers.cookie, flowName(consent.id))
    return secret !== undefined && isSameText(this.#browserDigest(secret), consent.browser)
  }

  #departureOf(state: string, { held }: Consent): Departure {
    const [verifier, nonce]: readonly unknown[] = JSON.parse(held.reveal())
    return {
      state,
      verifier: typeof verifier === 'string' ? verifier : '',
      nonce: typeof nonce === 'string' ? nonce : undefined,
      redirectUri: this.#redirectUri(),
    }
  }

  #clear({ state }: Departure): Readonly<Record<string, string>> {
    return this.#cookies().clear(flowName(this.#stateDigest(state)))
  }

  #cookies(): FlowCookies {
    const isSecure = this.#options.publicUrl().startsWith('https:')
    return new FlowCookies({ isSecure, maxAgeSeconds: LIFETIME_MS / 1_000 })
  }

  #redirectUri(): string {
    return `${this.#options.publicUrl()}/oauth/callback`
  }

  #stateDigest(state: string): string {
    return this.#options.store.digest(`consent state:${state}`)
  }

  #browserDigest(secret: string): string {
    return this.#options.store.digest(`consent browser:${secret}`)
  }

  #seenMark({ id }: ChallengeRecord): string {
    const { store, broker } = this.#options
    return store.digest(`consent ${broker.signIn === undefined ? 'seen' : 'signed in'}:${id}`)
  }
}

function flowName(consentId: string): string {
  return `consent-${consentId.slice(0, COOKIE_NAME_CHARACTERS)}`
}

function seenName({ id }: ChallengeRecord): string {
  return `seen-${id.slice(0, COOKIE_NAME_CHARACTERS)}`
}

/** An opaque name: nothing about the credential can be read from it (OWP-74). */
export function newCredentialRef(): string {
  return `cred_${randomBytes(18).toString('base64url')}`
}
