import { randomUUID } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { LATEST } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { isSecretName, Secret } from '#kernel/base/secret'
import { type CallRequest, NO_SECRETS } from '#kernel/call/call'
import { argsHash, identifyCall } from '#kernel/call/look-up'
import { namedScope } from '#kernel/run/runs'
import { Registry } from '#kernel/tool/catalog'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type Tool, transportOf } from '#kernel/tool/tool'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeRunEvents } from '#protocols/openwop/codec-run'
import { jsonReply, refuse } from '#protocols/openwop/errors'
import { type LimitSettings, NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { openGateway, type RunningGateway, type RunningGatewayOptions } from '#stages/open-gateway'
import { seededPrincipal } from './authorization.ts'
import { CONFORMANCE_SCOPE } from './safe-fetch.ts'

/** Creates the run of the second call. Every principal may call it. */
const OPENING_TOOL = 'Conformance.Open'
const HOOKED_TOOL = 'Conformance.Hooked'

const definition = {
  description: 'Does nothing. For conformance tests only.',
  input: { type: 'object' },
  output: null,
  run: () => undefined,
} as const

const [opening, hooked] = requireTools([
  tool({ ...definition, id: `${OPENING_TOOL}@1.0.0`, policy: { safetyTier: 'pure' } }),
  tool({ ...definition, id: `${HOOKED_TOOL}@1.0.0`, policy: { scopes: [CONFORMANCE_SCOPE] } }),
])

/** The tool that the suite names, with its scopes; hidden from principals without a role. */
function toolHooksTools(toolName: string, requiredScopes: readonly string[]): readonly Tool[] {
  if (opening === undefined || hooked === undefined) return []
  const scopes = [...hooked.policy.scopes, ...requiredScopes]
  return [opening, { ...hooked, catalogId: toolName, policy: { ...hooked.policy, scopes } }]
}

const PATH = '/v1/host/sample/toolhooks/invoke'
const MAX_NAME_LENGTH = 256

/** One call an hour, so that a second call exceeds the limit (OWP-56). */
const ONE_CALL: LimitSettings = {
  ...NO_LIMITS,
  byTool: new Map([
    [HOOKED_TOOL, { ...UNLIMITED, perPrincipal: { ...UNLIMITED, rate: { perMs: 1 / 3_600_000, burst: 1 } } }],
  ]),
}

/** The parts of a gateway besides the tools and limits of one request. */
type ToolHooksParts = Omit<RunningGatewayOptions, 'registry' | 'limits' | 'budgets'>

/** OWP-103: a call of a tool defined by the suite, through the production pipeline, limits and runs. */
export function toolHooksRoutes(dependencies: ToolHooksParts): readonly HttpRoute[] {
  return [
    {
      method: 'POST',
      path: PATH,
      access: 'authenticated',
      body: 'json',
      handle: (request) => invoke(request, dependencies),
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

async function invoke(request: HttpRequest, dependencies: ToolHooksParts): Promise<HttpReply> {
  const asked = readInvocation(request)
  const registry = new Registry(toolHooksTools(asked.toolName, asked.requiredScopes))
  const gateway = openGateway({ ...dependencies, registry, limits: asked.isExhausted ? ONE_CALL : NO_LIMITS })
  try {
    const [toolCalled, toolReturned] = await callInRun(
      { gateway, registry, clock: dependencies.clock },
      asked,
    )
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

/** Calls the tool in a run, after the required earlier calls, and returns the last two events. */
async function callInRun(stage: Stage, asked: Invocation): Promise<readonly JsonObject[]> {
  const { gateway } = stage
  const { principal, args, isExhausted } = asked
  const runId = `conformance-${randomUUID()}`
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
    await recordForbidden(stage, { principal, call, runId })
  }
  const page = await gateway.readRun(principal, { runId, after: -1, waitMs: 0 })
  const events = page === undefined ? [] : encodeRunEvents(page, runId)
  return events.slice(-2).map(({ payload }) => payload)
}

/** C9, C10: the suite itself named the tool, so its run may reveal that the tool exists. */
async function recordForbidden(
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
    scope: namedScope(store, principal, runId),
    sessionId: undefined,
    traceId: '',
    userId: undefined,
    tool: tool.id,
    code: 'not_authorized',
    atMs: clock.nowMs(),
  })
}

/** An unreadable principal is anonymous, and unreadable scopes are granted to no principal (OWP-55). */
function readInvocation({ body, principal: { tenant } }: HttpRequest): Invocation {
  const asked = isJsonObject(body) ? body : {}
  const { principal, toolName, requiredScopes = [], args, simulateRateLimitExhausted } = asked
  if (typeof toolName !== 'string' || toolName === '' || toolName.length > MAX_NAME_LENGTH) {
    throw fault('request_invalid', `"toolName" must be a string of 1 to ${MAX_NAME_LENGTH} characters.`)
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

/** Values that look like secrets become credentials of the call, so that all records redact them (OWP-52). */
function secretsIn(args: JsonObject): ReadonlyMap<string, Secret> {
  const found = new Map<string, Secret>()
  const look = (value: JsonValue | undefined, isSecret: boolean): void => {
    if (typeof value === 'string') {
      if (isSecret) found.set(`conformance-${found.size}`, new Secret(value))
    } else if (Array.isArray(value)) {
      for (const member of value) look(member, isSecret)
    } else if (isJsonObject(value)) {
      for (const [name, member] of Object.entries(value)) look(member, isSecret || isSecretName(name))
    }
  }
  look(args, false)
  return found
}
