import { fault, type ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { NO_SECRETS } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { hasUntrustedOutput, type Tool } from '#kernel/tool/tool'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeRunEvents } from '#protocols/openwop/codec-run'
import { jsonReply, noContent, refuse } from '#protocols/openwop/errors'
import type { WireRunEvent } from '#protocols/openwop/wire'
import { APPROVAL_GATE_PATH, driveApprovalGate } from './approval-gate.ts'
import { sampleInput } from './sample-input.ts'

const SESSION_RUN_PATH = '/v1/host/sample/tools/session-run'
const EVENT_LOG_PATH = '/v1/host/sample/test/runs/:runId/events'
const RESET_PATH = '/v1/host/sample/test/reset'

/** More events than the suite's runs ever have. */
const MAX_EVENTS = 10_000

/** Routes for the public conformance suite, which run the production code (OWP-100 to OWP-102, OWP-105). */
export function runRoutes(gateway: Gateway, hasSessions: boolean): readonly HttpRoute[] {
  const common = { access: 'authenticated', refuse } as const
  const sessionRun: HttpRoute = {
    ...common,
    method: 'POST',
    path: SESSION_RUN_PATH,
    body: 'json',
    handle: (request) => runSession(request, gateway),
  }
  return [
    ...(hasSessions ? [sessionRun] : []),
    {
      ...common,
      method: 'GET',
      path: EVENT_LOG_PATH,
      body: 'never',
      handle: (request) => readEventLog(request, gateway),
    },
    {
      ...common,
      method: 'POST',
      path: APPROVAL_GATE_PATH,
      body: 'json',
      handle: (request) => driveApprovalGate(request, gateway),
    },
    // Nothing is kept for tests alone, so there is nothing to reset.
    { ...common, method: 'POST', path: RESET_PATH, body: 'never', handle: () => noContent() },
  ]
}

/** One session with one call in it, and nothing else in its run. */
async function runSession({ principal, body, traceId }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const asked = isJsonObject(body) ? body : {}
  const tool = statefulTool(gateway, principal, asked.toolId)
  const { sessionId, runId } = await gateway.openSession(principal, { toolId: tool.catalogId })
  const { outcome } = await gateway.call(principal, {
    tool: { base: tool.parts.base, version: tool.parts.version },
    input: asked.input ?? sampleInput(tool.inputSchema),
    key: undefined,
    traceId,
    protocol: 'openwop',
    userId: undefined,
    tokens: NO_SECRETS,
    secrets: NO_SECRETS,
    sessionId,
  })
  await gateway.closeSession(principal, sessionId)
  if (outcome.ok) return jsonReply(200, { runId, sessionId, toolId: tool.catalogId })
  const { code, message, retryAfterMs, details } = outcome.error
  throw fault(code, message, { ...details, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
}

function statefulTool(gateway: Gateway, principal: Principal, toolId: unknown): Tool {
  const catalog = gateway.catalogFor(principal)
  const tool =
    typeof toolId === 'string'
      ? catalog.find(toolId)
      : catalog.latest().find(({ session }) => session !== undefined)
  if (tool !== undefined) return tool
  throw noSuchTool()
}

/** OWP/C14: unknown and foreign runs have no events here, so that the suite does not skip. */
async function readEventLog({ principal, params, query }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const runId = params.runId ?? ''
  const events: WireRunEvent[] = []
  while (events.length < MAX_EVENTS) {
    const after = events.at(-1)?.sequence ?? -1
    const page = await gateway.readRun(principal, { runId, after, waitMs: 0 })
    if (page === undefined || page.events.length === 0) break
    events.push(...encodeRunEvents(page, runId))
  }
  return jsonReply(200, { events: events.filter((event) => isAsked(event, query)).map(withTrust) })
}

/** OWP/C13: added only here, because the event schema is closed. */
function withTrust(event: WireRunEvent): WireRunEvent & { readonly contentTrust?: 'untrusted' } {
  const { toolName } = event.payload
  const isResult = event.type === 'agent.toolReturned' && typeof toolName === 'string'
  return isResult && hasUntrustedOutput(toolName) ? { ...event, contentTrust: 'untrusted' } : event
}

function isAsked(event: WireRunEvent, query: URLSearchParams): boolean {
  return (
    isSame(query.get('type'), event.type) &&
    isSame(query.get('nodeId'), event.nodeId) &&
    isSame(query.get('correlationId'), correlationOf(event.payload)) &&
    // No event names another event as its cause.
    query.get('causationId') === null
  )
}

function isSame(asked: string | null, value: unknown): boolean {
  return asked === null || asked === value
}

function correlationOf({ sessionId, callId }: JsonObject): unknown {
  return sessionId ?? callId
}

function noSuchTool(): ToolError {
  return fault('tool_not_found', 'There is no such tool that keeps state, or you may not see it.')
}
