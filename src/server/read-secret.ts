import { fault, type ToolError } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import type { CredentialKind } from '#core/ports/vault-store'
import { ANONYMOUS, DEFAULT_TENANT } from '#core/principal'
import { Secret } from '#core/secret'

/** What an operator puts into the vault. */
export interface SecretToSet {
  readonly tenant: string
  readonly principal: string
  readonly userId: string | undefined
  readonly name: string
  readonly kind: CredentialKind
  readonly scopes: readonly string[]
  readonly value: Secret
}

const MEMBERS: ReadonlySet<string> = new Set([
  'kind',
  'name',
  'principal',
  'scopes',
  'tenant',
  'user_id',
  'value',
])
/** A name without its kind is no principal (rule 3), so nobody could use what is kept for it. */
const PRINCIPAL = /^[a-z]+:./
const LONGEST_NAME = 256
const LONGEST_VALUE = 64 * 1_024

/** Checks what was sent; texts of refusals never repeat it. `ownTenant` is the only one its sender may write to. */
export function readSecretToSet(body: JsonValue | undefined, ownTenant: string | undefined): SecretToSet {
  if (!isJsonObject(body))
    throw wrong(
      'Send a JSON object with `name`, `principal`, `value`, and perhaps `user_id`, `kind`, `scopes` and `tenant`.',
    )
  if (Object.keys(body).some((name) => !MEMBERS.has(name)))
    throw wrong(`Only ${[...MEMBERS].join(', ')} may be sent.`)
  const { kind = 'secret', scopes = [], value } = body
  const tenant = body.tenant === undefined ? (ownTenant ?? DEFAULT_TENANT) : readName(body.tenant, 'tenant')
  if (ownTenant !== undefined && tenant !== ownTenant)
    throw fault('not_authorized', 'This credential may only write to its own tenant.')
  const principal = readName(body.principal, 'principal')
  if (principal === ANONYMOUS.id)
    throw wrong('`anonymous` is shared by everybody, so it has no vault (rule 3).')
  if (!PRINCIPAL.test(principal))
    throw wrong('`principal` begins with its kind: "key:<id>", or "jwt:<issuer>#<sub>".')
  if (kind !== 'secret' && kind !== 'token') throw wrong('`kind` is "secret" or "token".')
  if (!Array.isArray(scopes) || !scopes.every((scope) => typeof scope === 'string' && scope !== ''))
    throw wrong('`scopes` is a list of texts.')
  if (kind === 'secret' && scopes.length > 0) throw wrong('`scopes` goes only with `kind: "token"`.')
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_VALUE)
    throw wrong(`\`value\` is a text of 1 to ${LONGEST_VALUE} characters.`)
  const userId = body.user_id === undefined ? undefined : readName(body.user_id, 'user_id')
  const name = readName(body.name, 'name')
  return {
    tenant,
    principal,
    userId,
    name,
    kind,
    scopes: scopes.filter((scope) => typeof scope === 'string'),
    value: new Secret(value),
  }
}

function readName(text: JsonValue | undefined, member: string): string {
  const isName = typeof text === 'string' && text !== '' && text.length <= LONGEST_NAME && !hasControl(text)
  if (isName) return text
  throw wrong(`\`${member}\` is a text of 1 to ${LONGEST_NAME} characters.`)
}

function hasControl(text: string): boolean {
  return /\p{Cc}/u.test(text)
}

function wrong(message: string): ToolError {
  return fault('request_invalid', message)
}
