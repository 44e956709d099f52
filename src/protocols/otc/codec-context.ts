import { NO_SECRETS } from '#core/call'
import { fault, type ToolError } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { Secret } from '#core/secret'

/** What a request supplies beyond its input. */
export interface DecodedContext {
  readonly tokens: ReadonlyMap<string, Secret>
  readonly secrets: ReadonlyMap<string, Secret>
  readonly userId: string | undefined
  /** What the caller says about that user. */
  readonly userInfo: JsonValue | undefined
  /** A token that names no provider: it belongs to the single one the tool requires (C-26). */
  readonly loneToken: Secret | undefined
}

const NO_CONTEXT: DecodedContext = {
  tokens: NO_SECRETS,
  secrets: NO_SECRETS,
  userId: undefined,
  userInfo: undefined,
  loneToken: undefined,
}

/** Reads `context`; unknown members are left alone (OTC-56). */
export function decodeContext(context: JsonValue | undefined): DecodedContext {
  if (context === undefined || context === null) return NO_CONTEXT
  if (!isJsonObject(context)) throw invalid('"context" must be an object; leave it out when there is none.')
  const { authorization, secrets, user_id: userId, user_info: userInfo } = withoutNulls(context)
  if (userId !== undefined && typeof userId !== 'string') {
    throw invalid('"context.user_id" must be a string; leave it out when there is none.')
  }
  const loneToken = readLoneToken(authorization)
  return {
    tokens: loneToken === undefined ? readTokens(authorization) : NO_SECRETS,
    secrets: readSecrets(secrets),
    // An empty text names no user, so a tool that needs one says so (OTC-79).
    userId: userId === '' ? undefined : userId,
    userInfo: readUserInfo(userInfo),
    loneToken,
  }
}

/** null is absent, as generated clients write it (T-24). */
export function withoutNulls(members: JsonObject): JsonObject {
  for (const name in members) {
    if (members[name] === null) return Object.fromEntries(Object.entries(members).filter(isPresent))
  }
  return members
}

function isPresent([, value]: readonly [string, JsonValue | undefined]): boolean {
  return value !== null
}

/** It goes to the tool as it is, so nobody may send a book. */
const LONGEST_USER_INFO = 16_384

function readUserInfo(userInfo: JsonValue | undefined): JsonValue | undefined {
  if (userInfo === undefined) return undefined
  if (JSON.stringify(userInfo).length <= LONGEST_USER_INFO) return userInfo
  throw invalid(`"context.user_info" is longer than ${LONGEST_USER_INFO} characters of JSON.`)
}

/** The form of 4 March 2025: `authorization: { token }` (C-26). */
function readLoneToken(authorization: JsonValue | undefined): Secret | undefined {
  if (!isJsonObject(authorization) || (authorization.id ?? undefined) !== undefined) return undefined
  if (typeof authorization.token !== 'string') {
    throw invalid(
      '"context.authorization" must be an array of { "id", "token" } objects, or one { "token" }.',
    )
  }
  return new Secret(authorization.token)
}

function readTokens(authorization: JsonValue | undefined): ReadonlyMap<string, Secret> {
  if (authorization === undefined) return NO_SECRETS
  const tokens = readItems(isJsonObject(authorization) ? [authorization] : authorization, AUTHORIZATION)
  // An empty token is no token: the caller gets the challenge (OTC-73).
  return new Map(
    [...tokens].filter(([, token]) => token !== '').map(([id, token]) => [id, new Secret(token)]),
  )
}

function readSecrets(secrets: JsonValue | undefined): ReadonlyMap<string, Secret> {
  if (secrets === undefined) return NO_SECRETS
  const items = isJsonObject(secrets)
    ? Object.entries(secrets).map(([id, value]) => ({ id, value }))
    : secrets
  return new Map([...readItems(items, SECRETS)].map(([id, value]) => [id, new Secret(value)]))
}

interface ItemKind {
  readonly where: string
  readonly member: 'token' | 'value'
}

const AUTHORIZATION: ItemKind = { where: 'context.authorization', member: 'token' }
const SECRETS: ItemKind = { where: 'context.secrets', member: 'value' }

/** Items need two strings (OTC-54, OTC-55); one id with two values is refused (T-21). */
function readItems(items: JsonValue, kind: ItemKind): ReadonlyMap<string, string> {
  if (!Array.isArray(items)) {
    throw invalid(
      `"${kind.where}" must be an array of { "id", "${kind.member}" } objects; leave it out when there is none.`,
    )
  }
  const found = new Map<string, string>()
  for (const item of items) {
    const [id, text] = readItem(item, kind)
    const earlier = found.get(id)
    if (earlier !== undefined && earlier !== text) {
      throw invalid(`"${kind.where}" names ${JSON.stringify(id)} twice with different values; send it once.`)
    }
    found.set(id, text)
  }
  return found
}

function readItem(item: JsonValue, kind: ItemKind): readonly [string, string] {
  if (!isJsonObject(item)) throw malformed(kind)
  const id: JsonObject[string] | undefined = item.id
  const text = item[kind.member]
  if (typeof id !== 'string' || typeof text !== 'string') throw malformed(kind)
  return [id, text]
}

function malformed({ where, member }: ItemKind): ToolError {
  return invalid(`Each item of "${where}" must be an object with the strings "id" and "${member}".`)
}

function invalid(message: string): ToolError {
  return fault('request_invalid', message)
}
