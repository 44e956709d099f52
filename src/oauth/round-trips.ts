import { randomBytes } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { isSameSecret } from '#kernel/base/hash'
import { Secret } from '#kernel/base/secret'
import { PAGE_HEADERS } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, readCookie } from '#protocols/http-exchange'
import type { Store } from '#store/collet-store'
import type { Consent } from '#store/consents'
import type { Departure, ProviderClient, Return } from './client.ts'

/**
 * A browser's round trips to an authorization server and back, with their cookies. Consents, approvals and the console's sign-in
 * use it. The data of a round trip is in the store, under its `state`.
 * Invariant: a return is accepted once, within ten minutes, and only in the browser that started the round trip.
 */

const LIFETIME_MS = 10 * 60_000
/** Maximum number of open round trips per challenge and stage, so that opening a link repeatedly cannot fill the store. */
const MAX_OPEN = 10
const MAX_STATE_LENGTH = 200
const COOKIE_NAME_CHARACTERS = 16

interface RoundTripOptions {
  readonly store: Pick<Store, 'digest' | 'consents'>
  readonly clock: Clock
  publicUrl(): string
}

/** The purpose of a round trip. `note` is stored encrypted and returned with the arrival. */
interface Trip extends Pick<Consent, 'tenant' | 'challenge' | 'stage'> {
  readonly note?: string
}

export interface Destination {
  readonly client: Pick<ProviderClient, 'authorizationUrl' | 'exchange'>
  readonly scopes: readonly string[]
  readonly parameters: Readonly<Record<string, string>>
}

export interface Arrival {
  readonly consent: Consent
  readonly back: Return
  readonly note: string | undefined
  /** Headers that remove the cookie of the round trip. */
  readonly clear: Readonly<Record<string, string>>
}

export class RoundTrips {
  readonly #options: RoundTripOptions

  constructor(options: RoundTripOptions) {
    this.#options = options
  }

  /** Redirects the browser; `undefined` if the endpoints of the server cannot be found. */
  async depart({ note, ...trip }: Trip, to: Destination): Promise<HttpReply | undefined> {
    const { store, clock } = this.#options
    const departure: Departure = {
      state: randomText(),
      verifier: randomText(),
      nonce: to.scopes.includes('openid') ? randomText() : undefined,
      redirectUri: this.#redirectUri(),
    }
    const location = await to.client.authorizationUrl(departure, to)
    if (location === undefined) return undefined
    const cookies = this.cookies()
    const secret = randomText()
    const id = this.#stateDigest(departure.state)
    const consent: Consent = {
      ...trip,
      id,
      browser: this.#browserDigest(secret),
      held: new Secret(JSON.stringify([departure.verifier, departure.nonce ?? null, note ?? null])),
      expiresAtMs: clock.nowMs() + LIFETIME_MS,
    }
    await store.consents.begin(consent, MAX_OPEN)
    const headers = { ...PAGE_HEADERS, ...cookies.set(cookieName('consent', id), secret, 'Lax'), location }
    return { status: 302, headers, body: undefined }
  }

  /** `undefined` for a return that is unknown, repeated or late, or whose round trip started in another browser. */
  async arrive(request: HttpRequest): Promise<Arrival | undefined> {
    const { store, clock } = this.#options
    const state = request.query.get('state') ?? ''
    if (state === '' || state.length > MAX_STATE_LENGTH) return undefined
    const consent = await store.consents.find(this.#stateDigest(state))
    if (consent === undefined || !this.#isSameBrowser(consent, request)) return undefined
    if (!(await store.consents.take(consent.id)) || consent.expiresAtMs <= clock.nowMs()) return undefined
    const [verifier, nonce, note]: readonly unknown[] = JSON.parse(consent.held.reveal())
    const back: Return = {
      state,
      verifier: typeof verifier === 'string' ? verifier : '',
      nonce: typeof nonce === 'string' ? nonce : undefined,
      redirectUri: this.#redirectUri(),
      parameters: request.query,
    }
    const clear = this.cookies().clear(cookieName('consent', consent.id))
    return { consent, back, note: typeof note === 'string' ? note : undefined, clear }
  }

  cookies(): FlowCookies {
    const isSecure = this.#options.publicUrl().startsWith('https:')
    return new FlowCookies({ isSecure, maxAgeSeconds: LIFETIME_MS / 1_000 })
  }

  #isSameBrowser(consent: Consent, request: HttpRequest): boolean {
    const secret = this.cookies().read(request.headers.cookie, cookieName('consent', consent.id))
    return secret !== undefined && isSameSecret(this.#browserDigest(secret), consent.browser)
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
}

/** The cookie name for one consent or challenge. */
export function cookieName(purpose: 'consent' | 'seen', id: string): string {
  return `${purpose}-${id.slice(0, COOKIE_NAME_CHARACTERS)}`
}

/** Random text that is also valid as a code verifier (RFC 7636 §4.1). */
function randomText(): string {
  return randomBytes(32).toString('base64url')
}

interface FlowCookiesOptions {
  /** True if browsers use https; only then can a cookie be bound to this host. */
  readonly isSecure: boolean
  readonly maxAgeSeconds: number
}

/** One cookie per flow, with its own name, unreadable for scripts, and valid for minutes (rule 25). */
export class FlowCookies {
  readonly #options: FlowCookiesOptions

  constructor(options: FlowCookiesOptions) {
    this.#options = options
  }

  /** Browsers send `Strict` cookies only for clicks on this server's pages, and `Lax` cookies also for a return from another site. */
  set(name: string, value: string, sameSite: 'Lax' | 'Strict'): Readonly<Record<string, string>> {
    return { 'set-cookie': this.#cookie(name, value, this.#options.maxAgeSeconds, sameSite) }
  }

  clear(name: string): Readonly<Record<string, string>> {
    return { 'set-cookie': this.clearing(name) }
  }

  /** The header value alone, for a reply that also sets another cookie. */
  clearing(name: string): string {
    return this.#cookie(name, '', 0, 'Lax')
  }

  read(header: string | undefined, name: string): string | undefined {
    return readCookie(header, this.#nameOf(name))
  }

  /** The names that begin with `start`, oldest first, because browsers send cookies in this order. */
  names(header: string | undefined, start: string): readonly string[] {
    const prefix = this.#nameOf(start)
    return (header ?? '')
      .split(';')
      .map((pair) => pair.trim().split('=', 1)[0] ?? '')
      .filter((name) => name.startsWith(prefix))
      .map((name) => start + name.slice(prefix.length))
  }

  #cookie(name: string, value: string, maxAgeSeconds: number, sameSite: 'Lax' | 'Strict'): string {
    const attributes = `Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=${sameSite}`
    return `${this.#nameOf(name)}=${value}; ${attributes}${this.#options.isSecure ? '; Secure' : ''}`
  }

  #nameOf(name: string): string {
    return this.#options.isSecure ? `__Host-collet-${name}` : `collet-${name}`
  }
}
