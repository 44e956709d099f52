import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { type Logger, SILENT_LOGGER } from '#kernel/base/logger'
import { ANONYMOUS, LOCAL_CALLER, NO_ROLES, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import type { KeyOwner, KeyStore } from '#store/keys'
import { ApiKeys, isKeyShaped, KEY_PREFIX, StoredKeys } from './api-keys.ts'
import { OidcIssuer } from './oidc.ts'
import { JwtVerifier, Tokens } from './tokens.ts'

/**
 * Authenticates requests: with API keys from the configuration and the store, with JWTs, or as the anonymous or local caller while
 * no credential exists. Every HTTP route and the MCP server on stdio use it.
 * Invariant: once a credential exists, all credentials of a request must be valid, without a fallback to a weaker one (OTC/T-28).
 */

export type RequestHeaders = Readonly<Record<string, string | undefined>>

export interface Authenticator {
  /** False while no credential exists; then every caller is accepted without one (OTC-98). */
  readonly isConfigured: boolean
  /** The principal of a caller without a credential; `undefined` if every caller needs a credential. */
  readonly openCaller: Principal | undefined
  /** Throws `unauthenticated`, or `not_ready` if keys or tokens cannot be checked. */
  authenticate(headers: RequestHeaders): MaybePromise<Principal>
  /** The principal of a valid API key with this name, for an operator who acts as this principal. */
  callerNamed(owner: KeyOwner): Promise<Principal | undefined>
  /** Brings `isConfigured` up to date. */
  refresh(): MaybePromise<void>
  close(): Promise<void>
}

/** An authenticator whose settings a reload can replace while requests are authenticated. */
export class ReloadableAuthenticator implements Authenticator {
  readonly #open: (settings: Settings['auth']) => Authenticator
  #current: Authenticator
  readonly authenticate: Authenticator['authenticate'] = (headers) => this.#current.authenticate(headers)
  readonly callerNamed: Authenticator['callerNamed'] = (owner) => this.#current.callerNamed(owner)
  readonly refresh: Authenticator['refresh'] = () => this.#current.refresh()
  readonly close: Authenticator['close'] = () => this.#current.close()

  constructor(settings: Settings['auth'], open: (settings: Settings['auth']) => Authenticator) {
    this.#open = open
    this.#current = open(settings)
  }

  get isConfigured(): boolean {
    return this.#current.isConfigured
  }

  get openCaller(): Principal | undefined {
    return this.#current.openCaller
  }

  /**
   * Uses other settings from now on, unless `check` throws. Without settings the current authenticator is checked and kept,
   * with the issuers' keys and the valid tokens that it remembers.
   */
  async replace(
    settings: Settings['auth'] | undefined,
    check: (next: Authenticator) => Promise<void>,
  ): Promise<void> {
    const before = this.#current
    const next = settings === undefined ? before : this.#open(settings)
    try {
      await next.refresh()
      await check(next)
    } catch (error) {
      if (next !== before) await next.close()
      throw error
    }
    this.#current = next
    if (next !== before) await before.close()
  }
}

interface AuthenticatorParts {
  readonly store?: { readonly keys: KeyStore; digest(text: string): string }
  readonly fetch?: typeof fetch
  readonly log?: Logger
  /** True if the server can be reached only from this machine, so that a caller without a credential is its user (rule 28). */
  readonly isPrivate?: boolean
}

export function createAuthenticator(
  settings: Settings['auth'],
  clock: Clock,
  parts: AuthenticatorParts = {},
): Authenticator {
  const { store, log = SILENT_LOGGER, isPrivate = false } = parts
  const roles = settings.roles ?? NO_ROLES
  const keys = new ApiKeys(settings.apiKeys, clock, roles)
  const onFirstKey = (): void => void (needsCredential || log.warn({}, FIRST_KEY_NOTE))
  const common = { roles, clock, log, onFirstKey }
  const stored =
    store && new StoredKeys({ keys: store.keys, digest: (text) => store.digest(text), ...common })
  const tokens = createTokens(settings, clock, parts)
  const needsCredential = settings.required === true || keys.size > 0 || tokens !== undefined
  const openCaller = isPrivate ? LOCAL_CALLER : ANONYMOUS
  const isConfigured = (): boolean => needsCredential || stored?.hasAny === true
  const takesKeys = keys.size > 0 || stored !== undefined
  const expected = describeMethods(takesKeys, tokens !== undefined)

  const findKey = (presented: string): MaybePromise<Principal | undefined> => {
    if (stored === undefined || !presented.startsWith(KEY_PREFIX)) return keys.find(presented)
    return andThen(stored.find(presented), (found) => found ?? keys.find(presented))
  }

  /** All key headers must be valid and belong to one caller (OTC/T-28). */
  const byKeyHeaders = (headers: RequestHeaders): MaybePromise<Principal | undefined> => {
    let caller: MaybePromise<Principal | undefined>
    for (const name of API_KEY_HEADERS) {
      const presented = headers[name]
      if (presented === undefined) continue
      caller = andThen(caller, (known) => andThen(findKey(presented), (found) => sameCaller(known, found)))
    }
    return caller
  }

  const sameCaller = (known: Principal | undefined, found: Principal | undefined): Principal => {
    if (found === undefined) throw fault('unauthenticated', `The API key is not valid here. ${expected}`)
    if (known === undefined || (known.id === found.id && known.tenant === found.tenant)) return found
    throw fault('unauthenticated', `The request contains the keys of two callers. ${expected}`)
  }

  const byBearer = (authorization: string): MaybePromise<Principal> => {
    const token = readBearer(authorization)
    if (token === undefined) {
      throw fault('unauthenticated', `The Authorization header is not a bearer credential. ${expected}`)
    }
    const remembered = tokens?.recall(token)
    if (remembered !== undefined) return remembered
    return andThen(findKey(token), (byKey) => byKey ?? byToken(token))
  }

  const byToken = (token: string): MaybePromise<Principal> => {
    // A caller with a wrong key gets no message about tokens.
    if (tokens !== undefined && (!takesKeys || isJwtShaped(token))) return tokens.verify(token)
    throw fault('unauthenticated', `The bearer API key is not valid here. ${expected}`)
  }

  /**
   * While no credential exists, unknown tokens are ignored (OTC-98). A key in the form that `collet keys create` prints is
   * refused, because the caller expects it to be known here.
   */
  const withoutKeys = ({ authorization = '', ...headers }: RequestHeaders): MaybePromise<Principal> => {
    const presented = [readBearer(authorization), ...API_KEY_HEADERS.map((name) => headers[name])]
    const ours = presented.find((text) => text !== undefined && isKeyShaped(text))
    if (ours === undefined) return openCaller
    // The presented key may be the first key, created just now.
    return andThen(findKey(ours), (found) => {
      if (found !== undefined) return found
      throw fault(
        'unauthenticated',
        'The API key is not valid here: this server has no keys. Leave it out, or use the server that created it.',
      )
    })
  }

  const check = (headers: RequestHeaders): MaybePromise<Principal> => {
    if (!isConfigured()) return withoutKeys(headers)
    return andThen(byKeyHeaders(headers), (byHeader) => {
      const { authorization } = headers
      if (authorization !== undefined) return byBearer(authorization)
      if (byHeader !== undefined) return byHeader
      throw fault('unauthenticated', `This server needs a credential. ${expected}`)
    })
  }

  return {
    get isConfigured() {
      return isConfigured()
    },
    get openCaller() {
      return isConfigured() ? undefined : openCaller
    },
    authenticate(headers) {
      if (needsCredential || stored === undefined) return check(headers)
      return andThen(stored.refresh(), () => check(headers))
    },
    callerNamed: async (owner) => keys.findNamed(owner) ?? (await stored?.findNamed(owner)),
    refresh: () => stored?.refresh(),
    async close() {
      await stored?.close()
    },
  }
}

const FIRST_KEY_NOTE =
  'The first key was created. From now on every caller needs a key, including callers on this machine.'

/** Continues synchronously if possible: nearly every request is decided without a turn of the event loop. */
function andThen<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** Used without the server's guarded fetch: no issuer can be reached (rule 33). */
const refuseFetch = (): Promise<Response> => Promise.reject(new Error('no network access'))

function createTokens(
  settings: Settings['auth'],
  clock: Clock,
  { fetch: send = refuseFetch, log = SILENT_LOGGER }: AuthenticatorParts,
): Tokens | undefined {
  const { jwt, issuers = [], roles = NO_ROLES } = settings
  if (jwt === undefined && issuers.length === 0) return undefined
  return new Tokens({
    jwt: jwt === undefined ? undefined : new JwtVerifier(jwt, clock),
    issuers: new Map(
      issuers.map((issuer) => [issuer.issuer, new OidcIssuer(issuer, { roles, fetch: send, clock, log })]),
    ),
    clock,
  })
}

export function isJwtShaped(text: string): boolean {
  return text.split('.', 4).length === 3
}

function describeMethods(byKey: boolean, byJwt: boolean): string {
  if (!byJwt) return 'Send an API key in the header OXP-API-Key, or as "Authorization: Bearer <key>".'
  if (!byKey) return 'Send a JWT as "Authorization: Bearer <token>".'
  return 'Send an API key in the header OXP-API-Key, or a JWT or key as "Authorization: Bearer …".'
}

const SCHEME = 'bearer '

/** `undefined` for another scheme or an empty credential. */
export function readBearer(authorization: string): string | undefined {
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  const credential = authorization.slice(SCHEME.length).trim()
  return credential === '' ? undefined : credential
}
