/**
 * Lists, creates, rotates and revokes the store's API keys over HTTP, and ends principals. The server and `collet keys` serve the same
 * routes. A credential grants and revokes only rights that it has itself, in its own tenant (rule 3); the operator may do everything in
 * every tenant.
 */
import { z } from 'zod'
import { type ApiKey, CREATE_KEY, END_PRINCIPAL, LIST_KEYS, REVOKE_KEY, ROTATE_KEY } from '#admin-api/keys'
import type { BodyOf } from '#admin-api/operation'
import { makeKey } from '#auth/api-keys'
import { NAME, SCOPE } from '#config/schema'
import type { ApiKeySettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import { FORMS, readSelector, TOOLSET_PREFIX } from '#kernel/tool/toolsets'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { Store } from '#store/collet-store'
import type { KeyGrant, KeyOwner, KeyRecord } from '#store/keys'
import { isOperator, type OperatorAccess, tenantFor, visibleTenant } from './access.ts'
import { badRequest, readAs, serveOperation, timeOf } from './admin-route.ts'
import { checkBounds, checkGrant, type KnownGrants } from './key-grants.ts'

const MAX_LISTED = 1_000
/** Maximum number of anonymous calls that the warning about a first key counts. */
const MAX_COUNTED = 1_000

export interface KeyRoutesOptions {
  readonly store: Pick<Store, 'keys' | 'digest' | 'list'>
  readonly clock: Clock
  /** `undefined` without a configuration: any name is then accepted, and a name that the server does not know grants nothing (OWP-60). */
  readonly known: (() => KnownGrants) | undefined
  /** The keys in the configuration, if it is known. They are listed here, but changed only in the configuration. */
  configured?(): readonly Pick<
    ApiKeySettings,
    'id' | 'tenant' | 'scopes' | 'roles' | 'tools' | 'expiresAtMs'
  >[]
  /** Whether the configuration has keys for this principal; `undefined` if it is not known here. */
  readonly isConfigured: ((owner: KeyOwner) => boolean) | undefined
  /** Whether the configuration accepts callers without a credential; `undefined` if it is not known here. */
  readonly isOpen: (() => boolean) | undefined
}

export function createKeyRoutes(access: OperatorAccess, options: KeyRoutesOptions): readonly ServerRoute[] {
  const { store, clock } = options
  const { keys } = store

  const checkHeld = (grant: KeyGrant, actor: Principal): void => {
    if (!isOperator(actor)) checkBounds(grant, actor, options.known?.())
  }
  /** A credential cannot revoke keys with more rights than its own. */
  const checkStrength = (grant: KeyGrant, actor: Principal): void => {
    try {
      checkHeld(grant, actor)
    } catch (error) {
      if (!isToolError(error)) throw error
      throw fault(
        'not_authorized',
        'You cannot revoke keys of a principal that may do more than you. Ask someone with the same rights, or use the start token.',
      )
    }
  }
  /** Explains what the first key changes for callers without a key. */
  const firstKeyText = async (atMs: number): Promise<string> => {
    const sinceMs = new Date(atMs).setUTCHours(0, 0, 0, 0)
    const { calls } = await store.list({ principal: ANONYMOUS.id, sinceMs, limit: MAX_COUNTED })
    const more = calls.length === MAX_COUNTED ? ' or more' : ''
    const count = `${calls.length} ${calls.length === 1 ? 'call' : 'calls'}${more}`
    return `From now on every caller needs a key. Until now callers without one were "anonymous" (${count} today). Secrets stored for this principal remain, visible only to the operator: collet secrets list. A store that has had a key never again accepts callers without one; to undo this, start the server on another store (--store).`
  }

  return [
    serveOperation(access, LIST_KEYS, async ({ principal }) => {
      const tenant = visibleTenant(principal)
      const isVisible = (key: { readonly tenant: string }) => tenant === undefined || key.tenant === tenant
      return {
        keys: (await keys.listKeys(defined({ limit: MAX_LISTED, tenant }))).map(renderKey),
        configured: (options.configured?.() ?? []).filter(isVisible).map((key) => ({
          principal: key.id,
          tenant: key.tenant,
          scopes: key.scopes,
          roles: key.roles ?? [],
          tools: key.tools ?? null,
          expires_at: timeOf(key.expiresAtMs),
        })),
      }
    }),
    serveOperation(access, CREATE_KEY, async ({ principal: actor, body }) => {
      const atMs = clock.nowMs()
      const grant = readGrant(body)
      const terms = readTerms(body, actor, atMs)
      const owner = { tenant: terms.tenant, name: body.principal }
      const known = options.known?.()
      const warnings = known === undefined ? [] : checkGrant(grant, owner.tenant, known)
      checkHeld(grant, actor)
      // The creator of a second key could use it to read the calls of the configured principal and to use its vault (rule 3).
      if (options.isConfigured?.(owner) === true)
        throw badRequest(
          `The principal "${owner.name}" has its keys in the configuration. Choose another name.`,
        )
      const isFirst = options.isOpen?.() !== false && (await keys.epoch()) === 0
      const { key, ...made } = makeKey((text) => store.digest(text))
      const result = await keys.createKey({ ...terms, ...owner, ...grant, ...made, by: actor.id, atMs })
      if (result === 'exists')
        throw badRequest(
          `The principal "${owner.name}" already exists. Rotate its keys to give it another one.`,
        )
      if (result === 'ended') throw endedFault(owner)
      const changes = isFirst ? [await firstKeyText(atMs)] : []
      return {
        ...renderNewKey(terms, made.keyId, key),
        principal: owner.name,
        warnings: [...changes, ...warnings],
      }
    }),
    serveOperation(access, ROTATE_KEY, async ({ principal: actor, id: name, body }) => {
      const atMs = clock.nowMs()
      const { old_ends_in_seconds: seconds } = body
      const terms = readTerms(body, actor, atMs)
      const owner = { tenant: terms.tenant, name }
      // The holder of a new key has all rights of its principal.
      for (const key of await keys.keysOf(owner)) checkHeld(key, actor)
      const { key, ...made } = makeKey((text) => store.digest(text))
      const oldEndAtMs = seconds === undefined ? undefined : atMs + seconds * 1_000
      const result = await keys.rotateKey({ ...terms, ...owner, ...made, oldEndAtMs, by: actor.id, atMs })
      if (result === 'not_found') throw noSuchPrincipal()
      if (result === 'ended') throw endedFault(owner)
      return { ...renderNewKey(terms, made.keyId, key), principal: name, warnings: [] }
    }),
    serveOperation(access, REVOKE_KEY, async ({ principal: actor, id: keyId }) => {
      const found = await keys.findKey(keyId)
      const mayRevoke = found !== undefined && (isOperator(actor) || found.tenant === actor.tenant)
      if (mayRevoke) checkStrength(found, actor)
      const change = { keyId, by: actor.id, atMs: clock.nowMs() }
      if (!mayRevoke || !(await keys.revokeKey({ tenant: found.tenant, ...change })))
        throw httpFault(404, 'There is no key with this id, or it has already been revoked.')
      return { key_id: keyId, revoked: true }
    }),
    serveOperation(access, END_PRINCIPAL, async ({ principal: actor, id: name, query }) => {
      const owner = { tenant: tenantFor(query.tenant, actor, OWN_TENANT_ONLY), name }
      // Ending a principal is permanent, so it requires the rights of that principal (rule 3).
      for (const key of await keys.keysOf(owner)) checkStrength(key, actor)
      if (!(await keys.endPrincipal({ ...owner, by: actor.id, atMs: clock.nowMs() }))) throw noSuchPrincipal()
      return { tenant: owner.tenant, principal: name, ended: true }
    }),
  ]
}

function renderKey(key: KeyRecord): ApiKey {
  const isToolset = (text: string) => text.startsWith(TOOLSET_PREFIX)
  return {
    key_id: key.keyId,
    tenant: key.tenant,
    principal: key.name,
    label: key.label ?? null,
    scopes: key.scopes,
    roles: key.roles,
    tools: key.tools?.filter((text) => !isToolset(text)) ?? null,
    toolsets: (key.tools ?? []).filter(isToolset).map((text) => text.slice(TOOLSET_PREFIX.length)),
    created_at: timeOf(key.createdAtMs),
    expires_at: timeOf(key.expiresAtMs),
    revoked_at: timeOf(key.revokedAtMs),
    last_used_at: timeOf(key.lastUsedAtMs),
  }
}

function renderNewKey({ tenant, expiresAtMs }: ReturnType<typeof readTerms>, keyId: string, key: Secret) {
  return { tenant, key_id: keyId, key: key.reveal(), expires_at: timeOf(expiresAtMs) }
}

const OWN_TENANT_ONLY = 'You can only change the keys of your own tenant.'

function noSuchPrincipal(): ToolError {
  return httpFault(404, 'There is no principal with this name that has keys here.')
}

/** The name of a principal is never reused (rule 3). */
function endedFault({ name }: KeyOwner): ToolError {
  return badRequest(
    `The principal "${name}" has been ended, and names are never used again. Choose another name.`,
  )
}

/** A selector that cannot match would grant nothing, and the key's owner would not notice (OWP-57). */
const SELECTOR = z.string().refine((text) => readSelector(text) !== undefined, {
  error: `is neither a tool name nor a pattern. ${FORMS}`,
})
const GRANT = z.object({
  principal: NAME,
  tenant: NAME.optional(),
  scopes: z.array(SCOPE).default([]),
  roles: z.array(NAME).default([]),
  tools: z.array(SELECTOR).optional(),
  toolsets: z.array(NAME).optional(),
})

/** Returns the first problem in a request for a new key that can be found without a store. */
export function newKeyProblem(body: unknown, nowMs: number): string | undefined {
  try {
    const wanted = readAs(CREATE_KEY.body(), body, 'The body')
    readGrant(wanted)
    readExpiry(wanted, nowMs)
    return undefined
  } catch (error) {
    if (isToolError(error)) return error.message
    throw error
  }
}

function readGrant(body: object): KeyGrant {
  const { scopes, roles, tools, toolsets } = readAs(GRANT, body, 'The body')
  const isBound = tools !== undefined || toolsets !== undefined
  const listed = [...(tools ?? []), ...(toolsets ?? []).map((name) => TOOLSET_PREFIX + name)]
  return { scopes, roles, tools: isBound ? [...new Set(listed)] : undefined }
}

type TermsBody = Pick<BodyOf<typeof CREATE_KEY>, 'tenant' | 'label' | 'expires_at'>

function readTerms(body: TermsBody, actor: Principal, nowMs: number) {
  const expiresAtMs = readExpiry(body, nowMs)
  return { tenant: tenantFor(body.tenant, actor, OWN_TENANT_ONLY), label: body.label, expiresAtMs }
}

function readExpiry({ expires_at: text }: TermsBody, nowMs: number): number | undefined {
  const expiresAtMs = text === undefined ? undefined : Date.parse(text)
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs)
    throw badRequest('expires_at: must be in the future.')
  return expiresAtMs
}
