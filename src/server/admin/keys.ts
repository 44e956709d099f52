import { z } from 'zod'
import { type MadeKey, makeKey } from '#auth/api-keys'
import { NAME, SCOPE as SCOPE_NAME } from '#config/schema'
import type { ApiKeySettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault, isToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { ANONYMOUS, DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import { FORMS, readSelector, TOOLSET_PREFIX } from '#kernel/tool/toolsets'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { Store } from '#store/collet-store'
import type { KeyChange, KeyGrant, KeyOwner, KeyRecord } from '#store/keys'
import { adminRoute, isOperator, momentOf, NO_STORE, type OperatorAccess } from './access.ts'
import { checkBounds, checkGrant, type KnownGrants } from './key-grants.ts'

const SCOPE = 'admin:keys'
const MAX_LISTED = 1_000
/** Calls that are counted. */
const MAX_COUNTED = 1_000
/** Keys over HTTP: for the start token everywhere, for the scope `admin:keys` in its own tenant. */
export function createKeyRoutes(apiKeys: ApiKeys, access: OperatorAccess): readonly ServerRoute[] {
  const route = (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    handle: (request: HttpRequest, actor: KeyActor) => Promise<HttpReply>,
  ): ServerRoute =>
    adminRoute(access, method, path, async (request) => {
      access.requireScope(request.principal, SCOPE)
      try {
        return await handle(request, actorOf(request.principal))
      } catch (error) {
        if (isToolError(error) && error.code === 'not_authorized') access.noteDenied(request.principal, SCOPE)
        throw error
      }
    })
  return [
    route('GET', '/admin/keys', async (_request, actor) =>
      jsonReply(
        200,
        {
          keys: (await apiKeys.list(actor, MAX_LISTED)).map(renderKey),
          configured: apiKeys.configured(actor),
        },
        NO_STORE,
      ),
    ),
    route('POST', '/admin/keys', async ({ body }, actor) =>
      jsonReply(201, renderIssued(await apiKeys.create(body, actor)), NO_STORE),
    ),
    route('DELETE', '/admin/keys/:keyId', async ({ params: { keyId = '' } }, actor) => {
      await apiKeys.revoke(keyId, actor)
      return jsonReply(200, { key_id: keyId, revoked: true })
    }),
    route('POST', '/admin/principals/:principal/keys', async ({ params, body }, actor) =>
      jsonReply(201, renderIssued(await apiKeys.rotate(params.principal ?? '', body, actor)), NO_STORE),
    ),
    route('DELETE', '/admin/principals/:principal', async ({ params, query }, actor) => {
      const tenant = query.get('tenant') ?? actor.bounds?.tenant ?? DEFAULT_TENANT
      const name = params.principal ?? ''
      await apiKeys.endPrincipal({ tenant, name }, actor)
      return jsonReply(200, { tenant, principal: name, ended: true })
    }),
  ]
}

function actorOf(principal: Principal): KeyActor {
  return { id: principal.id, bounds: isOperator(principal) ? undefined : principal }
}

/** A new key, with the key itself: it is shown this once. */
export type RenderedNewKey = ReturnType<typeof renderIssued>

function renderIssued({ tenant, name, keyId, key, expiresAtMs, warnings }: IssuedKey) {
  return {
    tenant,
    principal: name,
    key_id: keyId,
    key: key.reveal(),
    expires_at: momentOf(expiresAtMs),
    warnings,
  }
}

/** Everything about a key but the key. */
export type RenderedKey = ReturnType<typeof renderKey>

function renderKey(key: KeyRecord) {
  return {
    key_id: key.keyId,
    tenant: key.tenant,
    principal: key.name,
    label: key.label ?? null,
    scopes: key.scopes,
    roles: key.roles,
    tools: key.tools?.filter((text) => !text.startsWith(TOOLSET_PREFIX)) ?? null,
    toolsets: toolsetsOf(key),
    created_at: new Date(key.createdAtMs).toISOString(),
    expires_at: momentOf(key.expiresAtMs),
    revoked_at: momentOf(key.revokedAtMs),
    last_used_at: momentOf(key.lastUsedAtMs),
  }
}

/** Names of the toolsets it was given. */
function toolsetsOf({ tools = [] }: Pick<KeyRecord, 'tools'>): readonly string[] {
  return tools.flatMap((text) => (text.startsWith(TOOLSET_PREFIX) ? [text.slice(TOOLSET_PREFIX.length)] : []))
}

/** Who changes keys. */
interface KeyActor {
  /** Named in the journal. */
  readonly id: string
  /** Whose own power bounds what may be given on; `undefined` = an operator, who may do anything in every tenant. */
  readonly bounds: Principal | undefined
}

/** A key as it is shown once. */
interface IssuedKey extends KeyOwner {
  readonly keyId: string
  readonly key: Secret
  readonly expiresAtMs: number | undefined
  /** What it was given that opens nothing as things are. */
  readonly warnings: readonly string[]
}

/** A key of the configuration: it can be listed, and only changed there. */
type ConfiguredKey = Pick<ApiKeySettings, 'id' | 'tenant' | 'scopes' | 'roles' | 'tools' | 'expiresAtMs'>

export interface ApiKeysOptions {
  readonly store: Pick<Store, 'keys' | 'digest' | 'list'>
  readonly clock: Clock
  /** `undefined` = without a configuration, so any name is taken; one that the server does not know grants nothing (OWP-60). */
  readonly known: (() => KnownGrants) | undefined
  /** The keys of the configuration, where it is known. */
  configured?(): readonly ConfiguredKey[]
  /** Whether the configuration has keys of this principal; `undefined` = not known here. */
  readonly isConfigured: ((owner: KeyOwner) => boolean) | undefined
  /** Whether the configuration lets callers in without a credential; `undefined` = not known here. */
  readonly isOpen: (() => boolean) | undefined
}

/** Everything that happens to the keys of the store, the same for the command line and the admin API. */
export class ApiKeys {
  readonly #options: ApiKeysOptions

  constructor(options: ApiKeysOptions) {
    this.#options = options
  }

  async create(body: JsonValue | undefined, actor: KeyActor): Promise<IssuedKey> {
    const { store, clock } = this.#options
    const atMs = clock.nowMs()
    const { grant, ...request } = readNewKey(body, { tenant: actor.bounds?.tenant, nowMs: atMs })
    const owner = { tenant: request.tenant, name: request.name }
    checkTenant(owner.tenant, actor)
    const known = this.#options.known?.()
    const warnings = known === undefined ? [] : checkGrant(grant, owner.tenant, known)
    this.#checkBounds(grant, actor)
    // A second key of a configured principal would open its calls and its vault to the one who makes it (rule 3).
    if (this.#options.isConfigured?.(owner) === true) throw configuredFault(owner)
    const isFirst = this.#options.isOpen?.() !== false && (await store.keys.epoch()) === 0
    const made = this.#make()
    const { label, expiresAtMs } = request
    const key = { ...owner, ...grant, label, expiresAtMs, keyId: made.keyId, digest: made.digest }
    const result = await store.keys.createKey({ ...key, by: actor.id, atMs })
    if (result === 'exists') {
      throw httpFault(
        400,
        `The principal "${owner.name}" already exists. Rotate its keys to give it another one.`,
      )
    }
    if (result === 'ended') throw endedFault(owner)
    const changes = isFirst ? [await this.#firstKeyText(atMs)] : []
    return { ...owner, keyId: made.keyId, key: made.key, expiresAtMs, warnings: [...changes, ...warnings] }
  }

  /** What the first key changes for those who called without one. */
  async #firstKeyText(atMs: number): Promise<string> {
    const sinceMs = new Date(atMs).setUTCHours(0, 0, 0, 0)
    const { calls } = await this.#options.store.list({ principal: ANONYMOUS.id, sinceMs, limit: MAX_COUNTED })
    const more = calls.length === MAX_COUNTED ? ' or more' : ''
    const count = `${calls.length} ${calls.length === 1 ? 'call' : 'calls'}${more}`
    return `From now on every caller needs a key. Until now callers without one were "anonymous" (${count} today). What is stored for it stays, for the operator alone: collet secrets list. A store that has had a key never lets callers in without one again; to undo it, start the server on another store (--store).`
  }

  async rotate(name: string, body: JsonValue | undefined, actor: KeyActor): Promise<IssuedKey> {
    const { store, clock } = this.#options
    const atMs = clock.nowMs()
    const { label, expiresAtMs, oldEndAtMs, tenant } = readRotation(body, {
      tenant: actor.bounds?.tenant,
      nowMs: atMs,
    })
    const owner = { tenant, name }
    checkTenant(tenant, actor)
    const mine = await store.keys.keysOf(owner)
    // A caller who gets a new key of a principal can do what the principal can.
    for (const key of mine) this.#checkBounds(key, actor)
    const made = this.#make()
    const secret = { label, expiresAtMs, keyId: made.keyId, digest: made.digest }
    const result = await store.keys.rotateKey({ ...owner, ...secret, oldEndAtMs, by: actor.id, atMs })
    if (result === 'not_found') throw noSuchPrincipal()
    if (result === 'ended') throw endedFault(owner)
    return { ...owner, keyId: made.keyId, key: made.key, expiresAtMs, warnings: [] }
  }

  async revoke(keyId: string, actor: KeyActor): Promise<void> {
    const { keys } = this.#options.store
    const found = await keys.findKey(keyId)
    const isTheirs = found !== undefined && isWithin(found.tenant, actor)
    if (isTheirs) this.#checkStrength(found, actor)
    if (!isTheirs || !(await keys.revokeKey({ tenant: found.tenant, keyId, ...this.#by(actor) }))) {
      throw httpFault(404, 'There is no key with this id, or it has already been revoked.')
    }
  }

  async endPrincipal(owner: KeyOwner, actor: KeyActor): Promise<void> {
    checkTenant(owner.tenant, actor)
    const { keys } = this.#options.store
    // An end is for good: nobody ends whom they could not be (rule 3).
    for (const key of await keys.keysOf(owner)) this.#checkStrength(key, actor)
    if (!(await keys.endPrincipal({ ...owner, ...this.#by(actor) }))) throw noSuchPrincipal()
  }

  async list(actor: KeyActor, limit: number): Promise<readonly KeyRecord[]> {
    const tenant = actor.bounds?.tenant
    return await this.#options.store.keys.listKeys(tenant === undefined ? { limit } : { tenant, limit })
  }

  /** The keys of the configuration that this actor may see, without the keys themselves. */
  configured({ bounds }: KeyActor) {
    return (this.#options.configured?.() ?? [])
      .filter(({ tenant }) => bounds === undefined || bounds.tenant === tenant)
      .map(({ id, tenant, scopes, roles = [], tools, expiresAtMs }) => ({
        principal: id,
        tenant,
        scopes,
        roles,
        tools: tools ?? null,
        expires_at: momentOf(expiresAtMs),
      }))
  }

  #make(): MadeKey {
    const { store } = this.#options
    return makeKey((text) => store.digest(text))
  }

  #by(actor: KeyActor): KeyChange {
    return { by: actor.id, atMs: this.#options.clock.nowMs() }
  }

  /** Nobody takes away what is more than they have. */
  #checkStrength(grant: KeyGrant, actor: KeyActor): void {
    try {
      this.#checkBounds(grant, actor)
    } catch (error) {
      if (!isToolError(error)) throw error
      throw fault(
        'not_authorized',
        'You cannot revoke keys of a principal that may do more than you. Ask someone with the same rights, or use the start token.',
      )
    }
  }

  #checkBounds(grant: KeyGrant, { bounds }: KeyActor): void {
    if (bounds !== undefined) checkBounds(grant, bounds, this.#options.known?.())
  }
}

function isWithin(tenant: string, { bounds }: KeyActor): boolean {
  return bounds === undefined || bounds.tenant === tenant
}

function checkTenant(tenant: string, actor: KeyActor): void {
  if (!isWithin(tenant, actor))
    throw fault('not_authorized', 'You can only change the keys of your own tenant.')
}

function noSuchPrincipal() {
  return httpFault(404, 'There is no principal with this name that has keys here.')
}

function configuredFault({ name }: KeyOwner) {
  return httpFault(400, `The principal "${name}" has its keys in the configuration. Choose another name.`)
}

/** Rule 3. */
function endedFault({ name }: KeyOwner) {
  return httpFault(
    400,
    `The principal "${name}" has been ended, and names are never used again. Choose another name.`,
  )
}

const MAX_ENTRIES = 1_000
const MAX_LABEL_LENGTH = 200
const MAX_OVERLAP_SECONDS = 366 * 86_400

/** What can be no name would open nothing, and nobody would notice (OWP-57). */
const SELECTOR = z.string().refine((text) => readSelector(text) !== undefined, {
  error: `is no name of a tool and no pattern. ${FORMS}`,
})
const MOMENT = z.iso.datetime({ offset: true })

const KEY_TERMS = {
  tenant: NAME.optional(),
  label: z
    .string()
    .min(1)
    .max(MAX_LABEL_LENGTH)
    .refine((text) => !text.includes('\0'), { error: 'a text cannot hold NUL.' })
    .optional(),
  expires_at: MOMENT.optional(),
}

const NEW_KEY = z.strictObject({
  ...KEY_TERMS,
  principal: NAME,
  scopes: z.array(SCOPE_NAME).max(MAX_ENTRIES).default([]),
  roles: z.array(NAME).max(MAX_ENTRIES).default([]),
  tools: z.array(SELECTOR).max(MAX_ENTRIES).optional(),
  toolsets: z.array(NAME).max(MAX_ENTRIES).optional(),
})

const ROTATION = z.strictObject({
  ...KEY_TERMS,
  old_ends_in_seconds: z.int().min(0).max(MAX_OVERLAP_SECONDS).optional(),
})

interface KeyTerms {
  readonly tenant: string
  readonly label: string | undefined
  readonly expiresAtMs: number | undefined
}

interface Reading {
  /** Where the asker is, if it is somewhere; what it may not leave. */
  readonly tenant: string | undefined
  readonly nowMs: number
}

/** What is wrong with a request for a new key, as far as the request alone tells; `undefined` when nothing is. */
export function newKeyProblem(body: JsonValue, nowMs: number): string | undefined {
  try {
    readNewKey(body, { tenant: undefined, nowMs })
    return undefined
  } catch (error) {
    if (isToolError(error)) return error.message
    throw error
  }
}

/** What a request for a new principal with a key says; throws a 400 that names the member. */
function readNewKey(
  body: JsonValue | undefined,
  reading: Reading,
): KeyTerms & { readonly name: string; readonly grant: KeyGrant } {
  const { principal, scopes, roles, tools: written, toolsets, ...terms } = parse(NEW_KEY, body)
  const isBound = written !== undefined || toolsets !== undefined
  const tools = [...(written ?? []), ...(toolsets ?? []).map((name) => TOOLSET_PREFIX + name)]
  return {
    ...readTerms(terms, reading),
    name: principal,
    grant: { scopes, roles, tools: isBound ? [...new Set(tools)] : undefined },
  }
}

/** What a request for another key of a principal says. */
function readRotation(
  body: JsonValue | undefined,
  reading: Reading,
): KeyTerms & { readonly oldEndAtMs: number | undefined } {
  const { old_ends_in_seconds: seconds, ...terms } = parse(ROTATION, body ?? {})
  const oldEndAtMs = seconds === undefined ? undefined : reading.nowMs + seconds * 1_000
  return { ...readTerms(terms, reading), oldEndAtMs }
}

function readTerms(
  terms: { tenant?: string | undefined; label?: string | undefined; expires_at?: string | undefined },
  { tenant, nowMs }: Reading,
): KeyTerms {
  const expiresAtMs = terms.expires_at === undefined ? undefined : Date.parse(terms.expires_at)
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs)
    throw httpFault(400, 'expires_at: has passed already.')
  return { tenant: terms.tenant ?? tenant ?? DEFAULT_TENANT, label: terms.label, expiresAtMs }
}

function parse<Schema extends z.ZodType>(schema: Schema, body: JsonValue | undefined): z.output<Schema> {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? 'The body' : issue.path.join('.')
  throw httpFault(400, `${where}: ${issue?.message ?? 'is not as expected.'}`)
}
