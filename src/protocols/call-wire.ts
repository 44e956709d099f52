import {
  type Challenge,
  describeIssue,
  type ErrorCode,
  fault,
  type InputIssue,
  type MissingRequirements,
  ToolError,
} from '#kernel/base/errors'
import { checkCallKey, checkRunId, newCallId } from '#kernel/base/ids'
import { Secret } from '#kernel/base/secret'
import { type CallReply, type CallRequest, NO_SECRETS } from '#kernel/call/call'

/*
 * The request and response headers that carry a call's credentials, key, run, session and outcome on every
 * protocol, and the wire form of missing requirements.
 * Servers of all protocols decode with it and the client encodes with it, so both directions stay in one
 * file. Invariant: no error message repeats a credential, and no id can end a header line.
 */

/**
 * Headers for a call's requirements, where a protocol has no field for them. The first two may be repeated, each with
 * `<id>=<base64url of the UTF-8 text>`; ids and the user are percent-encoded.
 */
const TOKEN_HEADER = 'collet-authorization'
const SECRET_HEADER = 'collet-secret'
const USER_HEADER = 'collet-user'

interface Requirements {
  readonly tokens: ReadonlyMap<string, Secret>
  readonly secrets: ReadonlyMap<string, Secret>
  readonly userId: string | undefined
}

const NO_REQUIREMENTS: Requirements = { tokens: NO_SECRETS, secrets: NO_SECRETS, userId: undefined }
/** Accepts base64 and base64url, because shell tools commonly write only the first. */
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

/** Reads the requirement headers; throws a fault that never repeats a value. */
export function decodeRequirements(headers: Readonly<Record<string, string | undefined>>): Requirements {
  const tokens = headers[TOKEN_HEADER]
  const secrets = headers[SECRET_HEADER]
  const user = headers[USER_HEADER]
  if (tokens === undefined && secrets === undefined && user === undefined) return NO_REQUIREMENTS
  return {
    // An empty token counts as missing, so that the caller gets the challenge.
    tokens: readPairs(tokens, 'Collet-Authorization', (text) => text !== ''),
    secrets: readPairs(secrets, 'Collet-Secret', () => true),
    userId: user === undefined || user.trim() === '' ? undefined : readUser(user),
  }
}

/** Encodes requirements as a client sends them; texts may contain any character. */
export function encodeRequirements(requirements: {
  readonly tokens?: Readonly<Record<string, string>> | undefined
  readonly secrets?: Readonly<Record<string, string>> | undefined
  readonly userId?: string | undefined
}): Readonly<Record<string, string>> {
  return {
    ...pairsHeader(TOKEN_HEADER, requirements.tokens),
    ...pairsHeader(SECRET_HEADER, requirements.secrets),
    ...(requirements.userId === undefined ? {} : { [USER_HEADER]: encodeURIComponent(requirements.userId) }),
  }
}

function pairsHeader(
  name: string,
  values: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const pairs = Object.entries(values).map(
    ([id, text]) => `${encodeURIComponent(id)}=${toBase64Url(new TextEncoder().encode(text))}`,
  )
  return pairs.length === 0 ? {} : { [name]: pairs.join(', ') }
}

/** A header sent twice arrives joined with commas, and neither ids nor values contain one. */
function readPairs(
  header: string | undefined,
  name: string,
  isPresent: (text: string) => boolean,
): ReadonlyMap<string, Secret> {
  if (header === undefined) return NO_SECRETS
  const found = new Map<string, string>()
  for (const pair of header.split(',').map((text) => text.trim())) {
    if (pair === '') continue
    const end = pair.indexOf('=')
    const id = end < 1 ? undefined : percentDecoded(pair.slice(0, end))
    const text = fromBase64Url(pair.slice(end + 1))
    if (id === undefined || text === undefined) {
      throw fault('request_invalid', `Each ${name} header must be <id>=<base64url of the UTF-8 text>.`)
    }
    const earlier = found.get(id)
    if (earlier !== undefined && earlier !== text) {
      throw fault('request_invalid', `${name} names ${JSON.stringify(id)} twice with different values.`)
    }
    found.set(id, text)
  }
  return new Map([...found].filter(([, text]) => isPresent(text)).map(([id, text]) => [id, new Secret(text)]))
}

function readUser(header: string): string {
  // A comma means that the header was sent twice, possibly by another party.
  const user = header.includes(',') ? undefined : percentDecoded(header.trim())
  if (user?.includes('\0') === false) return user
  throw fault(
    'request_invalid',
    'Collet-User must be sent once, with one user id in percent-encoded UTF-8, without NUL.',
  )
}

function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

export function toBase64Url(bytes: Uint8Array): string {
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

function fromBase64Url(text: string): string | undefined {
  if (!BASE64.test(text)) return undefined
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      Uint8Array.from(binary, (unit) => unit.charCodeAt(0)),
    )
  } catch {
    return undefined
  }
}

/** Header names shared by all protocols, in lower case as requests are read. */
export const IDEMPOTENCY_KEY_HEADER = 'idempotency-key'
export const CALL_ID_HEADER = 'collet-call-id'
export const ERROR_CODE_HEADER = 'collet-error-code'
export const RUN_HEADER = 'collet-run'
export const SESSION_HEADER = 'collet-session'
/** Present if the outcome was recorded by an earlier request with the same key. */
const REPLAYED_HEADER = 'collet-replayed'
/** Marks answers with text from third parties: nothing in them is an instruction (OWP-58). */
const TRUST_HEADER = 'collet-content-trust'
const PREFER_HEADER = 'prefer'

/** Limits the tools a request sees and calls to one toolset, on every protocol; a path parameter `:toolset` does the same. */
export const TOOLSET_HEADER = 'collet-toolset'

/** All headers of this module that a caller sends, and all that it reads. */
export const CALL_HEADERS = {
  sent: [
    TOKEN_HEADER,
    SECRET_HEADER,
    USER_HEADER,
    IDEMPOTENCY_KEY_HEADER,
    RUN_HEADER,
    SESSION_HEADER,
    TOOLSET_HEADER,
  ],
  read: [CALL_ID_HEADER, ERROR_CODE_HEADER, RUN_HEADER, REPLAYED_HEADER, TRUST_HEADER],
} as const

const HEADER_SAFE = /^[\x21-\x24\x26-\x7e]*$/
const HEADER_UNSAFE = /[^\x21-\x24\x26-\x7e]/gu

/**
 * Encodes a call id as a header value. Everything but visible ASCII, and `%` itself, is percent-encoded
 * UTF-8, so `decodeURIComponent` returns the exact id and no id can end the header line.
 */
export function callIdToHeader(callId: string): string {
  return HEADER_SAFE.test(callId) ? callId : callId.toWellFormed().replace(HEADER_UNSAFE, encodeURIComponent)
}

/** The idempotency key in the header, decoded to the spelling that it has in a body (rule 4). */
export function readKeyHeader(headers: Readonly<Record<string, string | undefined>>): string | undefined {
  const header = headers[IDEMPOTENCY_KEY_HEADER]
  return header === undefined ? undefined : headerText(header)
}

/** Headers of a refusal whose call was never read: the call id is the key in its header, or a new id (rule 6). */
export function unreadCallHeaders(
  headers: Readonly<Record<string, string | undefined>>,
  code: ErrorCode,
): Record<string, string> {
  const callId = usableKey(readKeyHeader(headers)) ?? newCallId()
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}

function usableKey(key: string | undefined): string | undefined {
  try {
    return key === undefined ? undefined : checkCallKey(key)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}

/** Upper limit of `Prefer: wait`. */
const MAX_WAIT_S = 60
const WAIT = /^wait\s*=\s*"?([0-9]{1,9})"?$/i

/**
 * `Prefer: wait=N` (RFC 7240): hold the answer until an approver decides, for at most N seconds. Other
 * preferences are ignored.
 */
export function readWait(request: {
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Aborted when the client disconnects. The getter creates the signal, so only a request that waits reads it. */
  readonly signal?: AbortSignal | undefined
}): Pick<CallRequest, 'waitMs' | 'gone'> | undefined {
  const preferred = request.headers[PREFER_HEADER]
  if (preferred === undefined) return undefined
  const seconds = preferred
    .split(',')
    .map((preference) => WAIT.exec(preference.split(';', 1)[0]?.trim() ?? '')?.[1])
  const requested = seconds.find((found) => found !== undefined)
  if (requested === undefined) return undefined
  const waitMs = Math.min(Number(requested), MAX_WAIT_S) * 1_000
  const { signal } = request
  return signal === undefined ? { waitMs } : { waitMs, gone: signal }
}

/** Reads the run and the session of a call from headers, because no protocol has members for them. */
export function readCallScope(
  headers: Readonly<Record<string, string | undefined>>,
): Pick<CallRequest, 'runId' | 'sessionId'> | undefined {
  const runId = headers[RUN_HEADER]
  const sessionId = headers[SESSION_HEADER]
  if (runId === undefined && sessionId === undefined) return undefined
  return {
    ...(runId === undefined ? {} : { runId: checkRunId(decodeHeaderId(headerText(runId))) }),
    ...(sessionId === undefined ? {} : { sessionId }),
  }
}

/** Encodes run and session as a client sends them. */
export function callScopeHeaders(scope: {
  readonly runId?: string | undefined
  readonly sessionId?: string | undefined
}): Record<string, string> {
  return {
    ...(scope.runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(scope.runId) }),
    ...(scope.sessionId === undefined ? undefined : { [SESSION_HEADER]: scope.sessionId }),
  }
}

/** Headers of every answer to a call (rule 6): its id, its run, and its error code; added to `first`. */
export function callReplyHeaders(
  { callId, runId, outcome, replayed, untrusted }: CallReply,
  first: Readonly<Record<string, string>> = {},
): Record<string, string> {
  // Headers are assigned one by one: an object literal built from spreads costs several times as much, and every reply
  // needs this.
  const headers: Record<string, string> = { ...first }
  headers[CALL_ID_HEADER] = callIdToHeader(callId)
  if (runId !== undefined) headers[RUN_HEADER] = callIdToHeader(runId)
  if (!outcome.ok) headers[ERROR_CODE_HEADER] = outcome.error.code
  if (replayed) headers[REPLAYED_HEADER] = 'true'
  if (untrusted !== undefined) headers[TRUST_HEADER] = UNTRUSTED
  return headers
}

export function trustHeader(untrusted: true | undefined): Record<string, string> | undefined {
  return untrusted === undefined ? undefined : { [TRUST_HEADER]: UNTRUSTED }
}

const UNTRUSTED = 'untrusted'

/** Reads the run of a reply, for clients. */
export function runOf(headers: Pick<Headers, 'get'>): { readonly runId?: string } {
  const run = headers.get(RUN_HEADER)
  return run === null ? {} : { runId: decodeHeaderId(run) }
}

/** Whether a reply repeats a recorded outcome, for clients. */
export function isReplay(headers: Pick<Headers, 'get'>): boolean {
  return headers.get(REPLAYED_HEADER) === 'true'
}

/** Decodes the id of a call or run in a header; clients send a run id back in the encoding of the reply's header. */
export function decodeHeaderId(text: string): string {
  return percentDecoded(text) ?? text
}

const LATIN1_ABOVE_ASCII = /[\x80-\xff]/

/** Header bytes arrive as Latin-1. Valid UTF-8 is decoded, so that one id has one spelling. */
export function headerText(value: string): string {
  if (!LATIN1_ABOVE_ASCII.test(value)) return value
  try {
    const bytes = Uint8Array.from(value, (character) => character.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return value
  }
}

/** A URL for a person to open, and a URL that reports whether the challenge is done. */
interface WireChallenge {
  /** Identifies the challenge, not its provider (OTC-76). */
  readonly id: string
  readonly url: string
  readonly check_url: string
}

/**
 * The missing requirements of a call, in one form for every protocol that can express them (OTC-75). `secrets` and `approval` are
 * extensions of Collet: OTC requires a 400 for them but defines no member (OTC/C-28).
 */
export interface WireMissing {
  readonly authorization?: readonly WireChallenge[]
  readonly secrets?: readonly { readonly id: string }[]
  readonly user_id?: true
  /** An approver has to decide (rule 6). */
  readonly approval?: WireChallenge
}

/** Provider and scopes of each challenge, by its id. They are in a separate map because the challenge object is closed (OTC-76). */
export type WireChallenges = Readonly<
  Record<string, { readonly provider: string; readonly scopes: readonly string[] }>
>

export function toChallenges({ authorization = [] }: MissingRequirements): WireChallenges | undefined {
  if (authorization.length === 0) return undefined
  return Object.fromEntries(authorization.map(({ id, provider, scopes }) => [id, { provider, scopes }]))
}

/** Messages by top-level parameter; `undefined` if only the input as a whole is wrong (OTC-82). */
export function toParameterErrors(issues: readonly InputIssue[]): Record<string, string> | undefined {
  const texts = new Map<string, string>()
  for (const issue of issues) {
    const { parameter } = issue
    if (parameter === undefined) continue
    const earlier = texts.get(parameter)
    const text = describeIssue(issue)
    texts.set(parameter, earlier === undefined ? text : `${earlier}; ${text}`)
  }
  return texts.size === 0 ? undefined : Object.fromEntries(texts)
}

export function toMissing({ authorization, secrets, userId, approval }: MissingRequirements): WireMissing {
  return {
    ...(authorization === undefined ? {} : { authorization: authorization.map(toWireChallenge) }),
    ...(secrets === undefined ? {} : { secrets: secrets.map(({ id }) => ({ id })) }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(approval === undefined ? {} : { approval: toWireChallenge(approval) }),
  }
}

function toWireChallenge({ id, url, checkUrl }: Challenge): WireChallenge {
  return { id, url, check_url: checkUrl }
}
