import { newCallId } from '#kernel/base/ids'
import { TOOLSET_HEADER } from '#protocols/call-wire'
import {
  CLIENT_DIALECTS,
  type ClientDialect,
  type RemoteAuthorization,
  type RemoteTool,
} from '#protocols/otc/codec-client'
import type { RemoteChallenge } from '#protocols/otc/codec-client-reply'
import { type Credentials, type JwtOption, readCredentials } from './credentials.ts'
import { configFailure } from './failure.ts'
import { type Fetch, type HttpLimits, type Sleep, sleep, withHeader } from './http.ts'

/**
 * Options of the client: their types, defaults and checks. `connect` reads them once into `ClientSettings`.
 * Invariant: an invalid option throws a `CallFailure` of class `config` before anything is sent.
 */

type Resolved = string | undefined | Promise<string | undefined>

/**
 * Functions that resolve a tool's requirements before each call. If one returns nothing, the call is still sent by default, because
 * the server may have the value in its vault or know the user.
 */
export interface RequirementResolvers {
  /** Returns a token for this provider. */
  authorization?(id: string, requirement: RemoteAuthorization, tool: RemoteTool): Resolved
  /** Returns the value of this secret. */
  secrets?(id: string, tool: RemoteTool): Resolved
  /** Returns the user that the call is made for. */
  userId?(): Resolved
}

const CLIENT_PROTOCOLS = ['otc', 'opentool'] as const
export type ClientProtocol = (typeof CLIENT_PROTOCOLS)[number]

export interface ClientOptions {
  readonly apiKey?: string | undefined
  /** A token, a function that returns a token, or a secret to sign tokens with. Takes precedence over `apiKey`. */
  readonly jwt?: JwtOption | undefined
  /** Limits the client to the tools of this toolset, on a Collet server. */
  readonly toolset?: string | undefined
  /** Skips detection of the protocol; `otc` includes OXP. */
  readonly protocol?: ClientProtocol
  /** Skips detection of the server's OTC dialect. */
  readonly dialect?: ClientDialect
  readonly requirements?: RequirementResolvers
  /**
   * What to do if no resolver returns a required token, secret or user id. Default `send`: the server may have the value, and
   * otherwise reports what is missing.
   */
  readonly missingRequirements?: 'send' | 'refuse'
  /** Called once for each page that a user has to open. */
  readonly onChallenge?: (challenge: RemoteChallenge) => void | Promise<void>
  /** True to wait until every challenge is completed, and then to repeat the call once with the same id. */
  readonly pollChallenges?: boolean
  /** How long to poll, default five minutes. */
  readonly challengeTimeoutMs?: number
  /** Time limit for one HTTP exchange, default two minutes. */
  readonly timeoutMs?: number
  /** How often a request is resent after a transport failure, 0 to 10, default 2; 0 turns all resending off. */
  readonly maxRetries?: number
  /** Maximum size of an answer, default 64 MiB. */
  readonly maxResponseBytes?: number
  /** Aborts everything this client does. */
  readonly signal?: AbortSignal
  readonly fetch?: Fetch
  readonly sleep?: Sleep
  readonly randomId?: () => string
  /** Returns the time in milliseconds since 1970. */
  readonly now?: () => number
}

type WithoutDefault = 'apiKey' | 'jwt' | 'toolset' | 'protocol' | 'dialect' | 'signal'

export interface ClientSettings extends Required<Omit<ClientOptions, WithoutDefault>> {
  readonly server: ServerUrl
  readonly credentials: Credentials
  readonly protocol: ClientProtocol | undefined
  readonly dialect: ClientDialect | undefined
  readonly signal: AbortSignal | undefined
  readonly readJson?: HttpLimits['readJson']
}

const MAX_RETRIES = 10
/** Maximum delay of a timer on every platform. */
const MAX_TIMER_MS = 2 ** 31 - 1

export function readOptions(url: string | URL, options: ClientOptions): ClientSettings {
  const server = parseServerUrl(url)
  const now = options.now ?? Date.now
  if (options.dialect !== undefined && !CLIENT_DIALECTS.includes(options.dialect)) {
    throw configFailure(`dialect must be one of ${CLIENT_DIALECTS.join(', ')}.`)
  }
  return {
    server,
    protocol: readProtocol(options, server),
    credentials: readCredentials(options, server, now),
    dialect: options.dialect,
    requirements: options.requirements ?? {},
    missingRequirements: options.missingRequirements ?? 'send',
    onChallenge: options.onChallenge ?? (() => undefined),
    pollChallenges: options.pollChallenges ?? false,
    challengeTimeoutMs: readNumber('challengeTimeoutMs', options.challengeTimeoutMs ?? 300_000, MAX_TIMER_MS),
    timeoutMs: readTimeoutMs(options.timeoutMs ?? 120_000),
    maxRetries: readNumber('maxRetries', options.maxRetries ?? 2, MAX_RETRIES),
    maxResponseBytes: readNumber('maxResponseBytes', options.maxResponseBytes ?? 64 * 1024 * 1024, 2 ** 40),
    signal: options.signal,
    fetch: readFetch(options),
    sleep: options.sleep ?? sleep,
    randomId: options.randomId ?? makeCallId,
    now,
  }
}

/** Adds the toolset to every request. */
function readFetch({
  toolset,
  fetch: send = (address, init) => globalThis.fetch(address, init),
}: ClientOptions): Fetch {
  return toolset === undefined ? send : withHeader(send, TOOLSET_HEADER, toolset)
}

/** A dialect implies OTC; a path that ends in `/opentool` implies OpenTool (OTS-30). */
function readProtocol({ protocol, dialect }: ClientOptions, { base }: ServerUrl): ClientProtocol | undefined {
  if (protocol !== undefined && !CLIENT_PROTOCOLS.includes(protocol)) {
    throw configFailure(`protocol must be one of ${CLIENT_PROTOCOLS.join(', ')}.`)
  }
  if (protocol === 'opentool' && dialect !== undefined) {
    throw configFailure('dialect is for the protocol otc; OpenTool has none.')
  }
  if (protocol !== undefined) return protocol
  if (dialect !== undefined) return 'otc'
  return base.endsWith('/opentool') ? 'opentool' : undefined
}

export function readTimeoutMs(value: number): number {
  return readNumber('timeoutMs', value, MAX_TIMER_MS)
}

function makeCallId(): string {
  if (globalThis.crypto?.randomUUID !== undefined) return newCallId()
  throw configFailure('This page cannot make call ids (no crypto.randomUUID outside https); pass randomId.')
}

function readNumber(name: string, value: number, max: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= max) return value
  throw configFailure(`${name} must be a whole number from 0 to ${max}.`)
}

/** The base address of a server, without a trailing slash. */
export interface ServerUrl {
  readonly base: string
  readonly origin: string
  /** True if credentials may be sent to it: over TLS or loopback (OTC-101). */
  readonly mayCarryCredentials: boolean
}

export function parseServerUrl(text: string | URL): ServerUrl {
  const url = URL.parse(String(text))
  if (url === null) {
    throw configFailure(
      'The server URL is not an absolute URL; write for example https://tools.example.com or http://127.0.0.1:4100.',
    )
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw configFailure(`The server URL must start with https:// or http://, not ${url.protocol}//.`)
  }
  if (url.username !== '' || url.password !== '') {
    throw configFailure(
      'The server URL must not contain a user name or password; pass apiKey or jwt instead.',
    )
  }
  if (url.search !== '' || url.hash !== '') {
    throw configFailure('The server URL must end with its path; remove the part that begins with ? or #.')
  }
  return {
    base: url.origin + url.pathname.replace(/\/+$/, ''),
    origin: url.origin,
    mayCarryCredentials: url.protocol === 'https:' || isLoopback(url.hostname),
  }
}

function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(?:\.\d{1,3}){3}$/.test(hostname)
  )
}
