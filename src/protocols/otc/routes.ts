import { fault, ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply, CallRequest, CallView } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  callReplyHeaders,
  RUN_HEADER,
  readWait,
  trustHeader,
} from '#protocols/call-wire'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type HttpRoute } from '#protocols/http-exchange'
import {
  nextPageLink,
  PreparedBytes,
  PreparedViews,
  readLimit,
  readListPage,
  readSearch,
  replyPrepared,
  takePage,
} from '#protocols/prepared'
import { decodeListRequest, encodeList, encodeSearch, type ListForm, namedSchema } from './codec-list.ts'
import { type DecodedCall, decodeCall } from './codec-request.ts'
import {
  encodePlainResult,
  encodeResult,
  jsonReply,
  OTC_ANSWERS,
  refusalReply,
  refusedForm,
  refuseWith,
  schemaIdFor,
  unreadCallForm,
  unreadForm,
} from './codec-response.ts'
import openApi from './openapi.json' with { type: 'json' }
import { approvalStatusRoute, challengeRoutes } from './pages.ts'
import { resultRoute } from './result-route.ts'
import { type OtcOptions, type OtcSettings, openGet, otcSettings } from './settings.ts'
import { CALL_PATHS, type CallPath, OXP_VERSION_HEADER, PROTOCOL_VERSION } from './wire.ts'

/*
 * The HTTP routes of Open Tool Calling 1.0, Open eXecution Protocol 1.0, their drafts and universal-tool-server. `protocol.ts` loads
 * it.
 * Invariant: every path that runs a tool uses one handler, and every response validates against `openapi.json`.
 */

export function otcRoutes(gateway: Gateway, options: OtcOptions): readonly HttpRoute[] {
  const settings = otcSettings(options)
  const document = JSON.stringify(otcOpenApi(settings.serverVersion))
  return [
    ...healthRoutes(gateway, settings),
    ...listRoutes(gateway, settings),
    ...CALL_PATHS.map((path) => callRoute(path, gateway, settings)),
    ...callsRoutes(gateway, settings),
    resultRoute(gateway, settings),
    ...challengeRoutes(gateway, settings),
    approvalStatusRoute(gateway, settings),
    openGet('/openapi.json', settings, () => jsonReply(200, document, { 'cache-control': 'no-cache' })),
  ]
}

/** OpenAPI 3.1 document of every route of this protocol, against which all responses validate. */
export function otcOpenApi(version: string): typeof openApi {
  return { ...openApi, info: { ...openApi.info, version } }
}

/** Headers that can change the bytes of one URL: encoding, dialect and credential. */
const VARY = ['accept-encoding', OXP_VERSION_HEADER, 'authorization', ...API_KEY_HEADERS].join(', ')

/** Maximum number of prepared lists, because callers choose the spelling of `$schema`. */
const MAX_VARIANTS = 8

/** GET `/tools` in the form that the request asks for (OTC §3.1), and as a bare array under `/uts`. */
function listRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const lists = new PreparedViews(MAX_VARIANTS)
  const route = (path: string, formOf: (request: HttpRequest) => ListForm): HttpRoute => ({
    method: 'GET',
    path,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleList(request, formOf, gateway, settings, lists),
    refuse: refuseWith(settings),
  })
  return [
    route('/tools', (request) =>
      withoutOmittedKey(decodeListRequest(request, settings.defaultSchema), settings),
    ),
    route('/uts/tools', utsForm),
  ]
}

async function handleList(
  request: HttpRequest,
  formOf: (request: HttpRequest) => ListForm,
  gateway: Gateway,
  settings: OtcSettings,
  lists: PreparedViews,
): Promise<HttpReply> {
  const catalog = gateway.catalogFor(request.principal)
  const toolkits = gateway.toolkits()
  const headers = { [OXP_VERSION_HEADER]: PROTOCOL_VERSION, vary: VARY, 'cache-control': 'private, no-cache' }
  try {
    const form = formOf(request)
    const asked = readSearch(request.query)
    if (asked !== undefined && settings.search !== undefined) {
      const result = await settings.search.find(request.principal, asked.text, asked.limit)
      const list = new PreparedBytes(encodeSearch(form, result, toolkits))
      return await replyPrepared(request, list, headers)
    }
    const page = readListPage(request.query)
    if (page === undefined) {
      const list = lists.get(catalog, `${form.shape} ${form.schemaId}`, () =>
        encodeList(form, { tools: catalog.tools, toolkits }),
      )
      return await replyPrepared(request, list, headers)
    }
    const { items, nextCursor } = takePage(catalog.tools, page, ({ id }) => id)
    const list = new PreparedBytes(encodeList(form, { tools: items, toolkits, nextCursor }))
    return await replyPrepared(request, list, { ...headers, ...nextPageLink(request, nextCursor) })
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    const schemaId = schemaIdFor(namedSchema(request), request.headers, settings)
    return refusalReply({ schemaId, callId: undefined }, error, settings)
  }
}

function withoutOmittedKey(form: ListForm, { omitListKey }: OtcSettings): ListForm {
  if (form.shape !== 'both' || omitListKey === undefined) return form
  return { ...form, shape: omitListKey === 'items' ? 'tools' : 'items' }
}

function utsForm(request: HttpRequest): ListForm {
  decodeListRequest(request)
  return { shape: 'uts', schemaId: undefined }
}

const NO_STORE = { 'cache-control': 'no-store' }

/** Health needs no credential (OTC-04). In uts its status is in capitals, and there is also `/info`. */
function healthRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  return [
    {
      ...openGet('/health', settings, ({ headers }) =>
        healthReply(gateway, unreadForm(headers, settings).schemaId, 'ok'),
      ),
      // Paths without a route get the standard's error body (OTC-17).
      owns: '',
    },
    openGet('/uts/health', settings, () => healthReply(gateway, undefined, 'OK')),
    openGet('/uts/info', settings, () =>
      jsonReply(200, JSON.stringify({ version: settings.serverVersion }), NO_STORE),
    ),
  ]
}

/** 200 while calls are accepted, otherwise 503 with a reason for monitoring (OTC-02, OTC-03). */
function healthReply(gateway: Gateway, schemaId: string | undefined, healthy: 'ok' | 'OK'): HttpReply {
  const schema = schemaId === undefined ? {} : { $schema: schemaId }
  const reason = gateway.unavailableReason()
  if (reason === undefined) return jsonReply(200, JSON.stringify({ ...schema, status: healthy }), NO_STORE)
  const body = {
    ...schema,
    status: 'unavailable',
    reason,
    message: 'The server does not accept calls at the moment.',
  }
  return jsonReply(503, JSON.stringify(body), { ...NO_STORE, 'retry-after': '1' })
}

const NO_CALL = 'You have no call with this id; it may have been made with another credential.'

/** Lists, shows and cancels a principal's own calls (rule 10). */
function callsRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const shared = { access: 'authenticated', body: 'never', refuse: refuseWith(settings) } as const
  const route = (
    method: 'GET' | 'DELETE',
    answer: (request: HttpRequest, callId: string) => Promise<HttpReply | undefined>,
  ): HttpRoute => ({
    ...shared,
    method,
    path: '/calls/:id',
    takesRunAs: true,
    handle: async (request) =>
      (await answer(request, request.params.id ?? '')) ??
      refusalReply(unreadForm(request.headers, settings), fault('call_not_found', NO_CALL), settings),
  })
  const list: HttpRoute = {
    ...shared,
    method: 'GET',
    path: '/calls',
    handle: async ({ principal, headers, query }) => {
      const limit = readLimit(query, DEFAULT_LIMIT, MAX_LIMIT)
      const cursor = query.get('cursor') ?? undefined
      const page = await gateway.listCalls(principal, defined({ limit, cursor }))
      const body = {
        $schema: unreadForm(headers, settings).schemaId,
        calls: page.calls.map(membersOf),
        next_cursor: page.cursor,
      }
      return jsonReply(200, JSON.stringify(body), NO_STORE)
    },
  }
  return [
    list,
    route('GET', async (request, callId) => {
      const view = await gateway.readCall(request.principal, callId)
      return view === undefined ? undefined : viewReply(200, request, view, settings)
    }),
    route('DELETE', async (request, callId) => {
      const view = await gateway.cancelCall(request.principal, callId)
      // 202: cancellation was requested, and the first committed final state wins.
      return view === undefined
        ? undefined
        : viewReply(view.state === 'running' ? 202 : 200, request, view, settings)
    }),
  ]
}

function viewReply(status: number, request: HttpRequest, view: CallView, settings: OtcSettings): HttpReply {
  const { schemaId } = unreadForm(request.headers, settings)
  const headers = { [CALL_ID_HEADER]: callIdToHeader(view.callId), ...NO_STORE }
  const shown = JSON.stringify({ $schema: schemaId, ...membersOf(view) })
  if (view.outcome === undefined) return jsonReply(status, shown, headers)
  const result = encodePlainResult(view.callId, view.outcome, settings)
  return jsonReply(status, `${shown.slice(0, -1)},"result":${result}}`, {
    ...headers,
    ...trustHeader(view.untrusted),
  })
}

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200

/** The wire members of a call. JSON leaves out members that are `undefined`. */
function membersOf(view: CallView): object {
  const { finishedAtMs } = view
  return {
    call_id: view.callId,
    record: view.record,
    run_id: view.runId,
    trace_id: view.traceId || undefined,
    protocol: view.protocol,
    user_id: view.userId,
    tool_id: view.tool,
    state: view.state,
    attempt: view.attempt,
    created_at: new Date(view.createdAtMs).toISOString(),
    finished_at: finishedAtMs === undefined ? undefined : new Date(finishedAtMs).toISOString(),
    expired: view.expired,
    progress: view.state === 'running' ? view.progress : undefined,
  }
}

/** One handler for every path that runs a tool (OTC/C-01). */
function callRoute(path: CallPath, gateway: Gateway, settings: OtcSettings): HttpRoute {
  return {
    method: 'POST',
    path,
    access: 'authenticated',
    ...(path === '/tools/call' ? { takesRunAs: true } : {}),
    body: 'json',
    handle: (request) => handleCall(path, request, gateway, settings),
    refuse: (request, error, status) =>
      refusalReply(unreadCallForm(request.headers, settings), error, { ...settings, suggested: status }),
  }
}

const RESULT_HEADERS = { 'content-type': 'application/json', [OXP_VERSION_HEADER]: PROTOCOL_VERSION }

async function handleCall(
  path: CallPath,
  request: HttpRequest,
  gateway: Gateway,
  settings: OtcSettings,
): Promise<HttpReply> {
  let decoded: DecodedCall
  let call: CallRequest
  try {
    decoded = decodeCall(path, request, settings)
    const wait = readWait(request)
    const bound = bindLoneToken(decoded, request.principal, gateway)
    call = wait === undefined ? bound : { ...bound, ...wait }
  } catch (error) {
    if (error instanceof ToolError) return refusalReply(refusedForm(path, request, settings), error, settings)
    throw error
  }
  const reply = await gateway.call(request.principal, call)
  const { outcome } = reply
  if (!outcome.ok && OTC_ANSWERS[outcome.error.code].status !== 200) {
    const { runId } = reply
    return refusalReply({ schemaId: decoded.schemaId, callId: reply.callId }, outcome.error, {
      ...settings,
      ...(runId === undefined ? {} : { headers: { [RUN_HEADER]: callIdToHeader(runId) } }),
    })
  }
  const { dialect, schemaId } = decoded
  const finishedAtMs = dialect === 'proto' ? await endOf(reply, request.principal, gateway, settings) : 0
  return {
    status: 200,
    headers: callReplyHeaders(reply, RESULT_HEADERS),
    body: encodeResult({ dialect, schemaId, finishedAtMs }, reply, settings),
  }
}

/** Assigns a token without a provider to the only provider that the tool requires (OTC/C-26). */
function bindLoneToken(
  { call, loneToken }: DecodedCall,
  principal: Principal,
  gateway: Gateway,
): CallRequest {
  if (loneToken === undefined) return call
  const tool = gateway.catalogFor(principal).resolve(call.tool)
  if (tool === undefined) return call
  const [first, ...others] = tool.requirements?.authorization ?? []
  if (first === undefined || others.length > 0) {
    throw fault(
      'request_invalid',
      'A single "token" fits only tools that require exactly one authorization. Send "context.authorization" as an array of { "id", "token" } objects.',
    )
  }
  return loneToken.reveal() === '' ? call : { ...call, tokens: new Map([[first.id, loneToken]]) }
}

/** The recorded end time, so that a replay returns the same time (OTC/T-25). */
async function endOf({ callId }: CallReply, principal: Principal, gateway: Gateway, { clock }: OtcSettings) {
  const view = await gateway.readCall(principal, callId)
  return view?.finishedAtMs ?? clock.nowMs()
}
