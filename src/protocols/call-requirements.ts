import { NO_SECRETS } from '#core/call'
import { fault } from '#core/errors'
import { Secret } from '#core/secret'

/**
 * What a call needs beyond its arguments, where a protocol has no field for it. The first two repeat, each with
 * `<id>=<base64url of the UTF-8 text>`; ids and the user are percent-encoded.
 */
export const TOKEN_HEADER = 'collet-authorization'
export const SECRET_HEADER = 'collet-secret'
export const USER_HEADER = 'collet-user'

/** What a call brings besides its arguments. */
export interface Requirements {
  readonly tokens: ReadonlyMap<string, Secret>
  readonly secrets: ReadonlyMap<string, Secret>
  readonly userId: string | undefined
}

const NOTHING: Requirements = { tokens: NO_SECRETS, secrets: NO_SECRETS, userId: undefined }
/** Either alphabet: shells have a command for the older one only. */
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

/** Reads the requirement headers; throws a fault that never repeats a value. */
export function decodeRequirements(headers: Readonly<Record<string, string | undefined>>): Requirements {
  const tokens = headers[TOKEN_HEADER]
  const secrets = headers[SECRET_HEADER]
  const user = headers[USER_HEADER]
  if (tokens === undefined && secrets === undefined && user === undefined) return NOTHING
  return {
    // An empty token is no token: the caller gets the challenge.
    tokens: readPairs(tokens, 'Collet-Authorization', (text) => text !== ''),
    secrets: readPairs(secrets, 'Collet-Secret', () => true),
    userId: user === undefined || user.trim() === '' ? undefined : readUser(user),
  }
}

/** The same headers as a client sends them; texts may hold any character. */
export function encodeRequirements(given: {
  readonly tokens?: Readonly<Record<string, string>> | undefined
  readonly secrets?: Readonly<Record<string, string>> | undefined
  readonly userId?: string | undefined
}): Readonly<Record<string, string>> {
  return {
    ...pairsHeader(TOKEN_HEADER, given.tokens),
    ...pairsHeader(SECRET_HEADER, given.secrets),
    ...(given.userId === undefined ? {} : { [USER_HEADER]: encodeURIComponent(given.userId) }),
  }
}

function pairsHeader(
  name: string,
  given: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const pairs = Object.entries(given).map(([id, text]) => `${encodeURIComponent(id)}=${toBase64Url(text)}`)
  return pairs.length === 0 ? {} : { [name]: pairs.join(', ') }
}

/** A header sent twice arrives joined with commas, and neither ids nor values contain one. */
function readPairs(
  header: string | undefined,
  name: string,
  isGiven: (text: string) => boolean,
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
  return new Map([...found].filter(([, text]) => isGiven(text)).map(([id, text]) => [id, new Secret(text)]))
}

function readUser(header: string): string {
  // A comma stands for a second header, which could be somebody else's.
  const user = header.includes(',') ? undefined : percentDecoded(header.trim())
  if (user !== undefined) return user
  throw fault('request_invalid', 'Collet-User must be sent once, with one user id in percent-encoded UTF-8.')
}

function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function toBase64Url(text: string): string {
  const bytes = new TextEncoder().encode(text)
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
