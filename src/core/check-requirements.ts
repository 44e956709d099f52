import { isText } from './check-identity.ts'
import { copyJson } from './copy-json.ts'
import type { Report } from './finding.ts'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { misspelledName } from './nearest-name.ts'
import type { AuthorizationRequirement, SecretRequirement, ToolRequirements } from './tool.ts'

/** What a definition requires, and the same as it was written, for publishing and hashing. */
export interface CheckedRequirements {
  readonly requirements: ToolRequirements
  readonly json: JsonObject
}

const AUTHORIZATION_ENTRY = "`{ id: 'provider', oauth2: { scopes: ['…'] } }`"
const SECRET_ENTRY = "`{ id: 'NAME' }`"

/**
 * OTC-37…41: the object and its entries are open, but what we read must have the right form. `userIdKey` is
 * `userId` in code and `user_id` on the wire. `undefined` = needs nothing, or findings were reported.
 */
export function checkRequirements(
  value: unknown,
  userIdKey: 'userId' | 'user_id',
  report: Report,
): CheckedRequirements | undefined {
  if (value === undefined) return undefined
  const copied = copyJson(value)
  if (!copied.ok) {
    report(`requirements${copied.pointer}`, copied.problem, 'Write plain JSON values.')
    return undefined
  }
  const json = copied.value
  if (!isJsonObject(json)) {
    report(
      'requirements',
      'Is not an object.',
      'Write `{ authorization, secrets, userId }`, or leave it out.',
    )
    return undefined
  }
  const { authorization, secrets, [userIdKey]: userId, ...extra } = json
  checkUserId(userId, userIdKey, report)
  // Definitions that others publish may hold any name.
  if (userIdKey === 'userId') checkSpelling(extra, report)
  const needed = {
    authorization: readEntries(authorization, 'authorization', report, readAuthorization),
    secrets: readEntries(secrets, 'secrets', report, readSecret),
  }
  const needsUser = userId === true || userId === 'claimed'
  const nothing = needed.authorization.length + needed.secrets.length === 0 && !needsUser
  if (nothing && Object.keys(extra).length === 0) return undefined
  const requirements: ToolRequirements = {
    ...extra,
    ...(authorization === undefined ? {} : { authorization: needed.authorization }),
    ...(secrets === undefined ? {} : { secrets: needed.secrets }),
    ...(typeof userId === 'boolean' || userId === 'claimed' ? { userId } : {}),
  }
  return { requirements, json }
}

function checkUserId(userId: JsonValue | undefined, key: string, report: Report): void {
  if (userId === undefined || typeof userId === 'boolean') return
  // The wire knows only whether there has to be one (OTC-40).
  if (userId === 'claimed' && key === 'userId') return
  const claimed = key === 'userId' ? ", `'claimed'` where the caller's word is enough" : ''
  report(`requirements/${key}`, 'Is not true or false.', `Write \`${key}: true\`${claimed}, or leave it out.`)
}

/** OTC-41 keeps strangers, but a misspelled requirement would be published and never asked for: no protection at all. */
function checkSpelling(extra: JsonObject, report: Report): void {
  for (const name of Object.keys(extra)) {
    const meant = misspelledName(name, ['authorization', 'secrets', 'userId'])
    if (meant === undefined) continue
    const place = `requirements${childPointer('', name)}`
    report(place, `Is not a requirement that is checked. Did you mean "${meant}"?`, `Write \`${meant}\`.`)
  }
}

function readEntries<Entry extends { readonly id: string }>(
  value: JsonValue | undefined,
  kind: string,
  report: Report,
  read: (entry: JsonObject & { readonly id: string }, where: string, report: Report) => Entry,
): readonly Entry[] {
  if (value === undefined) return []
  const where = `requirements/${kind}`
  const form = kind === 'secrets' ? SECRET_ENTRY : AUTHORIZATION_ENTRY
  if (!Array.isArray(value)) {
    report(where, 'Is not a list.', `Write a list of ${form}.`)
    return []
  }
  const entries = new Map<string, Entry>()
  for (const [index, entry] of value.entries()) {
    const place = `${where}/${index}`
    if (!isJsonObject(entry)) report(place, 'Is not an object.', `Write ${form}.`)
    else if (!hasId(entry)) report(`${place}/id`, 'Is missing or not a text.', `Write ${form}.`)
    else if (entries.has(entry.id))
      report(`${place}/id`, `"${entry.id}" is already required.`, 'Join the two entries.')
    else entries.set(entry.id, read(entry, place, report))
  }
  return [...entries.values()]
}

function hasId(entry: JsonObject): entry is JsonObject & { readonly id: string } {
  return isText(entry.id)
}

function readSecret(entry: JsonObject & { readonly id: string }): SecretRequirement {
  return entry
}

function readAuthorization(
  entry: JsonObject & { readonly id: string },
  where: string,
  report: Report,
): AuthorizationRequirement {
  const { oauth2, ...rest } = entry
  if (oauth2 === undefined) return { ...rest, id: entry.id }
  const scopes = isJsonObject(oauth2) ? oauth2.scopes : undefined
  if (!isJsonObject(oauth2)) {
    report(`${where}/oauth2`, 'Is not an object.', "Write `oauth2: { scopes: ['…'] }`.")
    return { ...rest, id: entry.id }
  }
  if (scopes === undefined) return { ...rest, id: entry.id, oauth2: { ...oauth2, scopes: [] } }
  const texts = Array.isArray(scopes) ? scopes.filter(isText) : []
  if (!Array.isArray(scopes) || texts.length < scopes.length) {
    report(`${where}/oauth2/scopes`, 'Is not a list of texts.', "Write `scopes: ['…']`.")
  }
  return { ...rest, id: entry.id, oauth2: { ...oauth2, scopes: texts } }
}
