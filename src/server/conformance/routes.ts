import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { type CallError, type CallRequest, NO_SECRETS, type Outcome } from '#core/call'
import {
  type Gateway,
  openGateway,
  type RunningGateway,
  type RunningGatewayOptions,
} from '#core/calls/gateway'
import { argsHash, identifyCall } from '#core/calls/identity'
import { fault } from '#core/errors'
import { LATEST } from '#core/ids'
import { principalIdOf } from '#core/journal/append'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { type LimitSettings, NO_LIMITS, UNLIMITED } from '#core/limits/settings'
import type { KeyStore } from '#core/ports/key-store'
import type { Store } from '#core/ports/store'
import {
  coversScope,
  grantedScopes,
  makePrincipal,
  NO_ROLES,
  type Principal,
  type RoleTable,
} from '#core/principal'
import { namedScope } from '#core/runs/runs'
import type { Clock, Logger } from '#core/runtime'
import { isSecretName, Secret } from '#core/secret'
import { type Tool, transportOf } from '#core/tool'
import { Registry } from '#core/tools/catalog'
import { tool } from '#core/tools/define'
import { requireTools } from '#core/tools/prepare-tools'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Lookup } from '#egress/policy'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeRunEvents } from '#protocols/openwop/codec-run'
import { jsonReply, refuse } from '#protocols/openwop/errors'
import type { WireRunEvent } from '#protocols/openwop/wire'
import type { NoteDenial } from '#server/telemetry/observe'

const SYSTEM_ROLE = 'system'
const ROLES: RoleTable = new Map([[SYSTEM_ROLE, ['*']]])
const ROLES_OF: ReadonlyMap<string, readonly string[]> = new Map([['core.system', [SYSTEM_ROLE]]])

/** Somebody the suite speaks of. Who has no role here has no scope either (OWP-60). */
function seededPrincipal(name: string, tenant: string): Principal {
  const scopes = grantedScopes(ROLES, { scopes: [], roles: ROLES_OF.get(name) ?? [] })
  return makePrincipal({ id: `seam:${name}`, tenant, scopes })
}

const PATH = '/v1/host/sample/authorization/decide'

interface AuthorizationSeam {
  readonly gateway: Pick<Gateway, 'catalogFor'>
  readonly auth: Settings['auth']
  readonly keys: Pick<KeyStore, 'keysOf'>
  readonly clock: Clock
  readonly log: Logger
  readonly noteDenial: NoteDenial
}

/** OWP-106: whether a principal of the asker's tenant may do something, as its keys and roles of production say. */
function authorizationRoutes(seam: AuthorizationSeam): readonly HttpRoute[] {
  return [
    {
      method: 'POST',
      path: PATH,
      access: 'authenticated',
      body: 'json',
      handle: async (request) => jsonReply(200, { allowed: await isAllowed(request, seam) }),
      refuse,
    },
  ]
}

/** What cannot be decided is denied (OWP-60). */
async function isAllowed({ principal: asker, body }: HttpRequest, seam: AuthorizationSeam): Promise<boolean> {
  const { principal: name, action, resource } = isJsonObject(body) ? body : {}
  if (typeof name !== 'string' || typeof action !== 'string') return false
  try {
    const principals = await principalsOf(name, asker.tenant, seam)
    const isGranted = principals.some((each) => covers(each, action, resource, seam))
    if (!isGranted) noteDenied(principals[0] ?? seededPrincipal(name, asker.tenant), seam)
    return isGranted
  } catch (err) {
    seam.log.warn({ err }, 'a decision could not be made, so it is a no')
    return false
  }
}

/** One for each good key it has, those of the configuration and those of the store; nobody knows any other name. */
async function principalsOf(
  name: string,
  tenant: string,
  { auth, keys, clock }: AuthorizationSeam,
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

/** The scope of the action, and where the resource is a tool, that it is there for this principal. */
function covers(
  principal: Principal,
  action: string,
  resource: unknown,
  { gateway }: AuthorizationSeam,
): boolean {
  if (!coversScope(principal.scopes, action)) return false
  if (typeof resource !== 'string') return true
  const everything = { ...principal, scopes: ['*'], tools: undefined }
  return (
    gateway.catalogFor(makePrincipal(everything)).find(resource) === undefined ||
    gateway.catalogFor(principal).find(resource) !== undefined
  )
}

/** OWP-62, without a word of the asker's. */
function noteDenied(principal: Principal, { noteDenial }: AuthorizationSeam): void {
  noteDenial(principal, { action: 'seam.decide', resource: PATH, reason: 'scope' })
}

/** Nobody is granted it: only the seams ask with it. */
export const SEAM_SCOPE = 'collet-test-seams'
const SAFE_FETCH_TOOL = 'Seam.SafeFetch'

/** What the suite wants fetched, as a tool: so each is a recorded call with its pair of events (OWP-83). */
export function safeFetchTool(): readonly Tool[] {
  const definition = tool({
    id: `${SAFE_FETCH_TOOL}@1.0.0`,
    catalogId: 'connector:collet.safe-fetch',
    description: 'Fetches a URL through the guard. For conformance tests only.',
    input: z.object({
      url: z.string().describe('An absolute URL.'),
      method: z.string().optional().describe('Its method.'),
      headers: z.record(z.string(), z.string()).optional().describe('Its headers.'),
      rebindTo: z.string().optional().describe('The address its name has when it is connected to.'),
    }),
    output: z.object({ status: z.number().describe('What was answered.') }),
    policy: {
      safetyTier: 'read',
      replay: 'non-deterministic',
      egress: 'safe-fetch',
      scopes: [SEAM_SCOPE],
      // No caller has it: `*` covers every scope, but no tenant is another one.
      tenants: [SEAM_SCOPE],
      timeoutMs: 35_000,
    },
    async run({ url, method = 'GET', headers = {}, rebindTo }, context) {
      const request = { method, headers, signal: context.signal }
      const reply = await (rebindTo === undefined
        ? context.fetch(url, request)
        : fetchRebound(rebindTo, url, request))
      await reply.body?.cancel()
      return { status: reply.status }
    },
  })
  return requireTools([definition], { source: 'connector' })
}

/** The same guard, with a name server that has changed its mind. */
async function fetchRebound(address: string, url: string, request: RequestInit): Promise<Response> {
  const lookup: Lookup = async () => [address]
  const rebound = createGuardedFetch({ lookup })
  try {
    return await rebound(url, request)
  } finally {
    await rebound.close()
  }
}

const PATH_IN_SAFE_FETCH_ROUTES = '/v1/host/sample/http/safe-fetch'

/** OWP-104: fetches through the production guard, as a call in a run of its own that the asker can read. */
function safeFetchRoutes(gateway: Gateway): readonly HttpRoute[] {
  const route = (path: string, handle: (request: HttpRequest) => Promise<HttpReply>): HttpRoute => ({
    method: 'POST',
    path,
    access: 'authenticated',
    body: 'json',
    handle,
    refuse,
  })
  return [
    route(PATH_IN_SAFE_FETCH_ROUTES, async (request) => {
      const { runId, ...shown } = await fetchInRun(request, gateway)
      const events = await eventsOf(gateway, request.principal, runId)
      const [toolCalled, toolReturned] = events.map(({ payload }) => payload)
      return jsonReply(200, { ...shown, toolCalled, toolReturned })
    }),
    route(`${PATH_IN_SAFE_FETCH_ROUTES}-run`, async (request) => {
      const { runId, outcome } = await fetchInRun(request, gateway)
      return jsonReply(200, { runId, outcome })
    }),
  ]
}

async function fetchInRun({ principal, body, traceId }: HttpRequest, gateway: Gateway) {
  const asked = isJsonObject(body) ? body : {}
  if (typeof asked.url !== 'string') throw fault('request_invalid', '"url" must be text.')
  const { runId = '', outcome } = await gateway.call(
    { ...principal, scopes: [...principal.scopes, SEAM_SCOPE], seesEveryTenant: true },
    {
      tool: { base: SAFE_FETCH_TOOL, version: LATEST },
      input: { url: asked.url, ...initOf(asked.init), ...rebindOf(asked.simulateRebindTo) },
      key: undefined,
      traceId,
      protocol: 'openwop',
      userId: undefined,
      tokens: NO_SECRETS,
      secrets: NO_SECRETS,
    },
  )
  return { runId, ...describe(outcome) }
}

function initOf(init: JsonValue | undefined): JsonObject {
  if (!isJsonObject(init)) return {}
  const { method, headers } = init
  return {
    ...(typeof method === 'string' ? { method } : {}),
    ...(isJsonObject(headers) ? { headers } : {}),
  }
}

function rebindOf(address: JsonValue | undefined): JsonObject {
  return typeof address === 'string' ? { rebindTo: address } : {}
}

function describe(outcome: Outcome) {
  if (outcome.ok) {
    const { status }: { readonly status: number } = JSON.parse(outcome.valueJson)
    return { outcome: 'fetched', status }
  }
  const blocked = blockedBy(outcome.error)
  if (blocked !== undefined) return { outcome: 'blocked', blocked }
  throw fault(outcome.error.code, outcome.error.message)
}

function blockedBy({ code, developerMessage = '' }: CallError): 'ssrf' | 'upgrade' | undefined {
  if (code !== 'egress_denied') return undefined
  return developerMessage.includes('upgrade') ? 'upgrade' : 'ssrf'
}

async function eventsOf(
  gateway: Gateway,
  principal: Principal,
  runId: string,
): Promise<readonly WireRunEvent[]> {
  const page = await gateway.readRun(principal, { runId, after: -1, waitMs: 0 })
  return page === undefined ? [] : encodeRunEvents(page, runId)
}

/** Makes the run that the other one is asked in. Everybody may call it. */
const OPENING_TOOL = 'Seam.Open'
const HOOKED_TOOL = 'Seam.Hooked'

const definition = {
  description: 'Does nothing. For conformance tests only.',
  input: { type: 'object' },
  output: null,
  run: () => undefined,
} as const

const [opening, hooked] = requireTools([
  tool({ ...definition, id: `${OPENING_TOOL}@1.0.0`, policy: { safetyTier: 'pure' } }),
  tool({ ...definition, id: `${HOOKED_TOOL}@1.0.0`, policy: { scopes: [SEAM_SCOPE] } }),
])

/** The tool the suite speaks of, by its name and with its scopes; somebody without any role never sees it. */
function toolHooksTools(toolName: string, requiredScopes: readonly string[]): readonly Tool[] {
  if (opening === undefined || hooked === undefined) return []
  const scopes = [...hooked.policy.scopes, ...requiredScopes]
  return [opening, { ...hooked, catalogId: toolName, policy: { ...hooked.policy, scopes } }]
}

const PATH_IN_TOOL_HOOKS_ROUTES = '/v1/host/sample/toolhooks/invoke'
const LONGEST_NAME = 256

/** One call an hour, so that a second one finds nothing left (OWP-56). */
const ONE_CALL: LimitSettings = {
  ...NO_LIMITS,
  byTool: new Map([
    [HOOKED_TOOL, { ...UNLIMITED, perPrincipal: { ...UNLIMITED, rate: { perMs: 1 / 3_600_000, burst: 1 } } }],
  ]),
}

/** What a gateway needs besides the tools and limits of one question. */
type ToolHooksWorld = Omit<RunningGatewayOptions, 'registry' | 'limits' | 'budgets'>

/** OWP-103: a call of a tool the suite makes up, through the pipeline, the limits and the runs of production. */
function toolHooksRoutes(world: ToolHooksWorld): readonly HttpRoute[] {
  return [
    {
      method: 'POST',
      path: PATH_IN_TOOL_HOOKS_ROUTES,
      access: 'authenticated',
      body: 'json',
      handle: (request) => invoke(request, world),
      refuse,
    },
  ]
}

interface Invocation {
  readonly principal: Principal
  readonly toolName: string
  readonly requiredScopes: readonly string[]
  readonly args: JsonObject
  readonly isExhausted: boolean
}

async function invoke(request: HttpRequest, world: ToolHooksWorld): Promise<HttpReply> {
  const asked = readInvocation(request)
  const registry = new Registry(toolHooksTools(asked.toolName, asked.requiredScopes))
  const gateway = openGateway({ ...world, registry, limits: asked.isExhausted ? ONE_CALL : NO_LIMITS })
  try {
    const [toolCalled, toolReturned] = await callInRun({ gateway, registry, clock: world.clock }, asked)
    return jsonReply(200, { toolCalled, toolReturned })
  } finally {
    await gateway.drain(0)
  }
}

interface Stage {
  readonly gateway: RunningGateway
  readonly registry: Registry
  readonly clock: Clock
}

/** The last two events of a run in which the tool is asked for, after whatever has to go before. */
async function callInRun(stage: Stage, asked: Invocation): Promise<readonly JsonObject[]> {
  const { gateway } = stage
  const { principal, args, isExhausted } = asked
  const runId = `seam-${randomUUID()}`
  const requestOf = (base: string, input: JsonObject): CallRequest => ({
    tool: { base, version: LATEST },
    input,
    key: randomUUID(),
    traceId: undefined,
    userId: undefined,
    tokens: NO_SECRETS,
    secrets: secretsIn(input),
    runId,
  })
  await gateway.call(principal, requestOf(OPENING_TOOL, {}))
  if (isExhausted) await gateway.call(principal, requestOf(HOOKED_TOOL, {}))
  const call = requestOf(HOOKED_TOOL, args)
  const { outcome } = await gateway.call(principal, call)
  if (!outcome.ok && outcome.error.code === 'tool_not_found') {
    await tellForbidden(stage, { principal, call, runId })
  }
  const page = await gateway.readRun(principal, { runId, after: -1, waitMs: 0 })
  const events = page === undefined ? [] : encodeRunEvents(page, runId)
  return events.slice(-2).map(({ payload }) => payload)
}

/** C9, C10: the suite itself named the tool, so its run may say that it was there to be refused. */
async function tellForbidden(
  { gateway: { store }, registry, clock }: Stage,
  refused: { readonly principal: Principal; readonly call: CallRequest; readonly runId: string },
): Promise<void> {
  const { principal, call, runId } = refused
  const tool = registry.tools.find(({ parts }) => parts.base === HOOKED_TOOL)
  if (tool === undefined) return
  const identified = identifyCall({ store, registry }, { principal, request: call, freshId: randomUUID })
  await store.noteRefusal({
    tenant: principal.tenant,
    record: identified.record,
    principal: principal.id,
    callId: identified.callId,
    toolId: tool.catalogId,
    transport: transportOf(tool),
    argsHash: argsHash(identified),
    place: namedScope(store, principal, runId),
    sessionId: undefined,
    traceId: '',
    userId: undefined,
    tool: tool.id,
    code: 'not_authorized',
    atMs: clock.nowMs(),
  })
}

/** Whoever cannot be read is nobody, and scopes that cannot be read are held by nobody (OWP-55). */
function readInvocation({ body, principal: { tenant } }: HttpRequest): Invocation {
  const asked = isJsonObject(body) ? body : {}
  const { principal, toolName, requiredScopes = [], args, simulateRateLimitExhausted } = asked
  if (typeof toolName !== 'string' || toolName === '' || toolName.length > LONGEST_NAME) {
    throw fault('request_invalid', `"toolName" must be a text of 1 to ${LONGEST_NAME} characters.`)
  }
  const scopes = readScopes(requiredScopes)
  const name = typeof principal === 'string' && scopes !== undefined ? principal : ''
  return {
    principal: seededPrincipal(name, tenant),
    toolName,
    requiredScopes: scopes ?? [],
    args: isJsonObject(args) ? args : {},
    isExhausted: simulateRateLimitExhausted === true,
  }
}

function readScopes(value: JsonValue): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined
  const scopes = value.filter((scope) => typeof scope === 'string')
  return scopes.length === value.length ? scopes : undefined
}

/** What looks like a secret is one of the call's own credentials, and so cut out of whatever tells of it (OWP-52). */
function secretsIn(args: JsonObject): ReadonlyMap<string, Secret> {
  const found = new Map<string, Secret>()
  const look = (value: JsonValue | undefined, isSecret: boolean): void => {
    if (typeof value === 'string') {
      if (isSecret) found.set(`seam-${found.size}`, new Secret(value))
    } else if (Array.isArray(value)) {
      for (const member of value) look(member, isSecret)
    } else if (isJsonObject(value)) {
      for (const [name, member] of Object.entries(value)) look(member, isSecret || isSecretName(name))
    }
  }
  look(args, false)
  return found
}

interface ServerSeamsOptions {
  readonly gateway: Gateway
  readonly settings: Settings
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly noteDenial: NoteDenial
  publicUrl(): string
}

/** What the public suite drives and the protocol's own room cannot: egress, hooks and roles (OWP-103, OWP-104, OWP-106). */
export function serverSeams(options: ServerSeamsOptions): readonly HttpRoute[] {
  const { gateway, settings, store, clock, log, noteDenial } = options
  return [
    ...safeFetchRoutes(gateway),
    ...toolHooksRoutes({
      ...{ store, clock, log, fetch: options.fetch, publicUrl: options.publicUrl },
      hooks: {},
      approvalRules: settings.approvals,
      newCallId: randomUUID,
      newChallengeId: randomUUID,
      newSessionId: randomUUID,
      maxResultBytes: settings.calls.maxResultBytes,
    }),
    ...authorizationRoutes({ gateway, auth: settings.auth, keys: store.keys, clock, log, noteDenial }),
  ]
}
