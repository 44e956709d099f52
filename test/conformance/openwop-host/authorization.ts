import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { isJsonObject } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import {
  coversScope,
  grantedScopes,
  makePrincipal,
  NO_ROLES,
  type Principal,
  principalIdOf,
  type RoleTable,
} from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { jsonReply, refuse } from '#protocols/openwop/errors'
import type { NoteDenial } from '#server/telemetry/denials'
import type { KeyStore } from '#store/keys'

const SYSTEM_ROLE = 'system'
const ROLES: RoleTable = new Map([[SYSTEM_ROLE, { scopes: ['*'] }]])
const ROLES_OF: ReadonlyMap<string, readonly string[]> = new Map([['core.system', [SYSTEM_ROLE]]])

/** A principal of the suite. Without a role it has no scope (OWP-60). */
export function seededPrincipal(name: string, tenant: string): Principal {
  const scopes = grantedScopes(ROLES, { scopes: [], roles: ROLES_OF.get(name) ?? [] })
  return makePrincipal({ id: `conformance:${name}`, tenant, scopes })
}

const PATH = '/v1/host/sample/authorization/decide'

interface AuthorizationParts {
  readonly gateway: Pick<Gateway, 'catalogFor'>
  readonly auth: Settings['auth']
  readonly keys: Pick<KeyStore, 'keysOf'>
  readonly clock: Clock
  readonly log: Logger
  readonly noteDenial: NoteDenial
}

/** OWP-106: whether a principal of the caller's tenant may do something, by its production keys and roles. */
export function authorizationRoutes(parts: AuthorizationParts): readonly HttpRoute[] {
  return [
    {
      method: 'POST',
      path: PATH,
      access: 'authenticated',
      body: 'json',
      handle: async (request) => jsonReply(200, { allowed: await isAllowed(request, parts) }),
      refuse,
    },
  ]
}

/** An undecidable request is denied (OWP-60). */
async function isAllowed(
  { principal: asker, body }: HttpRequest,
  parts: AuthorizationParts,
): Promise<boolean> {
  const { principal: name, action, resource } = isJsonObject(body) ? body : {}
  if (typeof name !== 'string' || typeof action !== 'string') return false
  try {
    const principals = await principalsOf(name, asker.tenant, parts)
    const isGranted = principals.some((each) => covers(each, action, resource, parts))
    if (!isGranted) noteDenied(principals[0] ?? seededPrincipal(name, asker.tenant), parts)
    return isGranted
  } catch (err) {
    parts.log.warn({ err }, 'a decision could not be made, so the request is denied')
    return false
  }
}

/** One for each valid key of the principal, from the configuration and from the store. */
async function principalsOf(
  name: string,
  tenant: string,
  { auth, keys, clock }: AuthorizationParts,
): Promise<readonly Principal[]> {
  const { roles = NO_ROLES } = auth
  const owner = name.replace(/^key:/, '')
  const nowMs = clock.nowMs()
  const configured = auth.apiKeys.filter((key) => key.id === owner && key.tenant === tenant)
  const stored = (await keys.keysOf({ tenant, name: owner })).filter(
    ({ revokedAtMs }) => revokedAtMs === undefined,
  )
  return [...configured, ...stored]
    .filter(({ expiresAtMs = Number.POSITIVE_INFINITY }) => nowMs < expiresAtMs)
    .map(({ scopes, roles: held = [], tools }) =>
      makePrincipal({
        id: principalIdOf(owner),
        tenant,
        scopes: grantedScopes(roles, { scopes, roles: held }),
        tools,
      }),
    )
}

/** Checks the scope of the action and, where the resource is a tool, that it is visible to the principal. */
function covers(
  principal: Principal,
  action: string,
  resource: unknown,
  { gateway }: AuthorizationParts,
): boolean {
  if (!coversScope(principal.scopes, action)) return false
  if (typeof resource !== 'string') return true
  const everything = { ...principal, scopes: ['*'], tools: undefined }
  return (
    gateway.catalogFor(makePrincipal(everything)).find(resource) === undefined ||
    gateway.catalogFor(principal).find(resource) !== undefined
  )
}

/** OWP-62, without text from the caller. */
function noteDenied(principal: Principal, { noteDenial }: AuthorizationParts): void {
  noteDenial(principal, { action: 'conformance.decide', resource: PATH, reason: 'scope' })
}
