import { isToolError } from '#core/errors'
import type { KeyRecord } from '#core/ports/key-store'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import type { IssuedKey, KeyActor, KeyDesk } from './key-desk.ts'
import { jsonReply } from './message-reply.ts'
import { isOperator, type OperatorAccess } from './operator-access.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

const SCOPE = 'admin:keys'
const MOST_LISTED = 1_000
/** A key is shown once, and nobody on the way keeps it. */
const NO_STORE = { 'cache-control': 'no-store' }

/** Keys over HTTP: for the start token everywhere, for the scope `admin:keys` in its own tenant. */
export function createKeyRoutes(desk: KeyDesk, access: OperatorAccess): readonly ServerRoute[] {
  const handled = (handle: (request: HttpRequest, actor: KeyActor) => Promise<HttpReply>) => {
    return async (request: HttpRequest): Promise<HttpReply> => {
      access.requireScope(request.principal, SCOPE)
      try {
        return await handle(request, actorOf(request.principal))
      } catch (error) {
        if (isToolError(error) && error.code === 'not_authorized') access.noteDenied(request.principal, SCOPE)
        throw error
      }
    }
  }
  const shared = {
    access: 'authenticated',
    authenticate: access.authenticate,
    refuse: refuseWithMessage,
  } as const
  return [
    {
      ...shared,
      method: 'GET',
      path: '/admin/keys',
      body: 'never',
      handle: handled(async (_request, actor) =>
        jsonReply(200, { keys: (await desk.list(actor, MOST_LISTED)).map(renderKey) }, NO_STORE),
      ),
    },
    {
      ...shared,
      method: 'POST',
      path: '/admin/keys',
      body: 'json',
      handle: handled(async ({ body }, actor) => issuedReply(await desk.create(body, actor))),
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/admin/keys/:keyId',
      body: 'never',
      handle: handled(async ({ params }, actor) => {
        const keyId = params.keyId ?? ''
        await desk.revoke(keyId, actor)
        return jsonReply(200, { key_id: keyId, revoked: true })
      }),
    },
    {
      ...shared,
      method: 'POST',
      path: '/admin/principals/:principal/keys',
      body: 'json',
      handle: handled(async ({ params, body }, actor) =>
        issuedReply(await desk.rotate(params.principal ?? '', body, actor)),
      ),
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/admin/principals/:principal',
      body: 'never',
      handle: handled(async ({ params, query }, actor) => {
        const tenant = query.get('tenant') ?? actor.bounds?.tenant ?? DEFAULT_TENANT
        const name = params.principal ?? ''
        await desk.endPrincipal({ tenant, name }, actor)
        return jsonReply(200, { tenant, principal: name, ended: true })
      }),
    },
  ]
}

function actorOf(principal: Principal): KeyActor {
  return { id: principal.id, bounds: isOperator(principal) ? undefined : principal }
}

function issuedReply({ tenant, name, keyId, key, expiresAtMs }: IssuedKey): HttpReply {
  const body = {
    tenant,
    principal: name,
    key_id: keyId,
    key: key.reveal(),
    expires_at: momentOf(expiresAtMs),
  }
  return jsonReply(201, body, NO_STORE)
}

/** Everything about a key but the key. */
export function renderKey(key: KeyRecord) {
  return {
    key_id: key.keyId,
    tenant: key.tenant,
    principal: key.name,
    label: key.label ?? null,
    scopes: key.scopes,
    roles: key.roles,
    tools: key.tools ?? null,
    created_at: new Date(key.createdAtMs).toISOString(),
    expires_at: momentOf(key.expiresAtMs),
    revoked_at: momentOf(key.revokedAtMs),
    last_used_at: momentOf(key.lastUsedAtMs),
  }
}

function momentOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}
