import { z } from 'zod'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Lookup } from '#egress/policy'
import { fault } from '#kernel/base/errors'
import { LATEST } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { type CallError, NO_SECRETS, type Outcome } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeRunEvents } from '#protocols/openwop/codec-run'
import { jsonReply, refuse } from '#protocols/openwop/errors'
import type { WireRunEvent } from '#protocols/openwop/wire'

/** Granted to no principal; only the conformance routes use it. */
export const CONFORMANCE_SCOPE = 'collet-conformance'
const SAFE_FETCH_TOOL = 'Conformance.SafeFetch'

/** The suite's fetches as a tool, so that each is a recorded call with its pair of events (OWP-83). */
export function safeFetchTool(): readonly Tool[] {
  const definition = tool({
    id: `${SAFE_FETCH_TOOL}@1.0.0`,
    catalogId: 'connector:collet.safe-fetch',
    description: 'Fetches a URL through the guard. For conformance tests only.',
    input: z.object({
      url: z.string().describe('An absolute URL.'),
      method: z.string().optional().describe('Its method.'),
      headers: z.record(z.string(), z.string()).optional().describe('Its headers.'),
      rebindTo: z.string().optional().describe('The address of its host name at the time of the connection.'),
    }),
    output: z.object({ status: z.number().describe('The answer.') }),
    policy: {
      safetyTier: 'read',
      replay: 'non-deterministic',
      egress: 'safe-fetch',
      scopes: [CONFORMANCE_SCOPE],
      // Only the tenant restriction hides it from all callers, because `*` covers every scope.
      tenants: [CONFORMANCE_SCOPE],
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

/** The guard with a name server whose second answer differs. */
async function fetchRebound(address: string, url: string, request: RequestInit): Promise<Response> {
  const lookup: Lookup = async () => [address]
  const rebound = createGuardedFetch({ lookup })
  try {
    return await rebound(url, request)
  } finally {
    await rebound.close()
  }
}

const PATH = '/v1/host/sample/http/safe-fetch'

/** OWP-104: fetches through the production guard, as a call in its own run, which the caller can read. */
export function safeFetchRoutes(gateway: Gateway): readonly HttpRoute[] {
  const route = (path: string, handle: (request: HttpRequest) => Promise<HttpReply>): HttpRoute => ({
    method: 'POST',
    path,
    access: 'authenticated',
    body: 'json',
    handle,
    refuse,
  })
  return [
    route(PATH, async (request) => {
      const { runId, ...shown } = await fetchInRun(request, gateway)
      const events = await eventsOf(gateway, request.principal, runId)
      const [toolCalled, toolReturned] = events.map(({ payload }) => payload)
      return jsonReply(200, { ...shown, toolCalled, toolReturned })
    }),
    route(`${PATH}-run`, async (request) => {
      const { runId, outcome } = await fetchInRun(request, gateway)
      return jsonReply(200, { runId, outcome })
    }),
  ]
}

async function fetchInRun({ principal, body, traceId }: HttpRequest, gateway: Gateway) {
  const asked = isJsonObject(body) ? body : {}
  if (typeof asked.url !== 'string') throw fault('request_invalid', '"url" must be text.')
  const { runId = '', outcome } = await gateway.call(
    { ...principal, scopes: [...principal.scopes, CONFORMANCE_SCOPE], seesEveryTenant: true },
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
  return { runId, ...fetchedOf(outcome) }
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

function fetchedOf(outcome: Outcome) {
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
