import type { ApprovalRecord } from '#kernel/approval/approval'
import type { Approver, DecisionResult } from '#kernel/approval/approvals'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { checkRunId } from '#kernel/base/ids'
import type { JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { Release } from '#kernel/call/stages'
import type { RunPage } from '#kernel/run/runs'
import { sessionEnded } from '#kernel/run/session-ends'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { decodeResume, encodeInterruptFor, INTERRUPT_ANSWERS } from './codec-interrupt.ts'
import { decodeLastSequence, decodeSessionRequest, decodeTimeout, encodeRunEvents } from './codec-run.ts'
import { jsonReply, noContent, refuse } from './errors.ts'
import {
  INTERRUPT_PATH,
  INTERRUPT_TOKEN_PATH,
  RUN_EVENTS_PATH,
  RUN_PATH,
  RUN_POLL_PATH,
  SESSION_PATH,
  SESSIONS_PATH,
} from './wire.ts'

/*
 * The openwop routes of runs, interrupts and sessions. `routes.ts` registers them.
 * Invariant: a run of another principal is indistinguishable from a missing one (OWP-49), and interrupts are
 * shown only to approvers of the same tenant.
 */

/** Shows and resolves interrupts of any run of the tenant, for its approvers (OWP-66 to OWP-72). */
export function interruptRoutes(gateway: Gateway): readonly HttpRoute[] {
  const run = { path: INTERRUPT_PATH, access: 'authenticated', forOperators: true, refuse } as const
  // The token is the credential: its holder is the approver for whom it was issued (OWP-67).
  const token = { path: INTERRUPT_TOKEN_PATH, access: 'open', refuse } as const
  return [
    { ...run, method: 'GET', body: 'never', handle: (request) => showInterrupt(request, gateway) },
    { ...run, method: 'POST', body: 'json', handle: (request) => resolveInterrupt(request, gateway) },
    { ...token, method: 'GET', body: 'never', handle: (request) => showByToken(request, gateway) },
    { ...token, method: 'POST', body: 'json', handle: (request) => resolveByToken(request, gateway) },
  ]
}

function approverOf({ id, tenant, scopes }: Principal): Approver {
  return { id, tenant, scopes }
}

async function showInterrupt(request: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const approver = approverOf(request.principal)
  // Scopes are checked first, so that callers without them cannot probe for interrupts.
  const lacks = gateway.approvals.refusalToDecide(approver)
  if (lacks !== undefined) return refusal(lacks)
  const found = await gateway.approvals.findInRun(approver, approvalAddress(request))
  if (found === undefined) return refusal({ kind: 'not_found' })
  return jsonReply(200, encodeInterruptFor(gateway.approvals.view(found)))
}

async function resolveInterrupt(request: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const approver = approverOf(request.principal)
  const lacks = gateway.approvals.refusalToDecide(approver)
  if (lacks !== undefined) return refusal(lacks)
  const decision = decodeResume(request.body)
  if (typeof decision === 'string') return invalidResume(decision)
  const found = await gateway.approvals.findInRun(approver, approvalAddress(request))
  return answer(await gateway.approvals.decide(approver, found, decision))
}

async function showByToken({ params }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const view = await gateway.approvals.readLink(params.token ?? '')
  if (view === undefined) return refusal({ kind: 'not_found' })
  const { approval, isExpired } = view
  if (isExpired && approval.state === 'pending') return refusal({ kind: 'expired', approval })
  return jsonReply(200, encodeInterruptFor(gateway.approvals.view(approval)))
}

async function resolveByToken({ params, body }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const view = await gateway.approvals.readLink(params.token ?? '')
  if (view === undefined) return refusal({ kind: 'not_found' })
  const decision = decodeResume(body)
  if (typeof decision === 'string') return invalidResume(decision)
  // An override needs a scope, and a link has none.
  if (decision.action === 'override') return refusal({ kind: 'link_only_shows' })
  const result = await gateway.approvals.decideByLink(view, decision)
  // The holder of a token cannot distinguish resolved from cancelled (OWP-67).
  return answer(result.kind === 'cancelled' ? { ...result, kind: 'resolved' } : result)
}

function approvalAddress({ params }: HttpRequest) {
  return { runId: params.runId ?? '', nodeId: params.nodeId ?? '' }
}

function answer(result: DecisionResult): HttpReply {
  if (result.kind !== 'decided' && result.kind !== 'counted') return refusal(result)
  return jsonReply(200, resolved(result.approval))
}

function resolved({ subject, record, state, decisions, quorum }: ApprovalRecord): JsonObject {
  const status = state === 'pending' ? 'suspended' : state === 'rejected' ? 'rejected' : 'resumed'
  const granted = decisions.filter(({ action }) => action !== 'reject').length
  return { runId: subject.runId, nodeId: record, status, quorumProgress: { granted, required: quorum } }
}

function refusal(result: DecisionResult): HttpReply {
  const { status, error, message } = INTERRUPT_ANSWERS[result.kind]
  const details = result.kind === 'forbidden' ? { details: { scopeRequired: result.scope } } : {}
  const headers = status === 401 ? { 'www-authenticate': 'Bearer' } : undefined
  return jsonReply(status, { error, message, ...details }, headers)
}

/** Refuses an invalid resume value; every interrupt here is an approval gate (OWP/C7). */
function invalidResume(message: string): HttpReply {
  const details = { code: 'validation_error' }
  return jsonReply(400, { error: 'INVALID_RESUME_VALUE', message, details })
}

/** Opens and closes sessions, which keep a tool's state across calls; calls name their session in `Collet-Session` (rule 30). */
export function sessionRoutes(gateway: Gateway): readonly HttpRoute[] {
  const shared = { access: 'authenticated', refuse } as const
  const open = async ({ principal, body }: HttpRequest): Promise<HttpReply> => {
    const { sessionId, runId } = await gateway.openSession(principal, decodeSessionRequest(body))
    return jsonReply(201, { sessionId, runId })
  }
  const close = async ({ principal, params }: HttpRequest): Promise<HttpReply> => {
    if (await gateway.closeSession(principal, params.sessionId ?? '')) return noContent()
    throw sessionEnded()
  }
  return [
    { ...shared, method: 'POST', path: SESSIONS_PATH, body: 'json', handle: open },
    { ...shared, method: 'DELETE', path: SESSION_PATH, body: 'never', handle: close },
  ]
}

/** Interval of keep-alive comments on an idle stream (OWP-98: at least every 30 s). */
const KEEP_ALIVE_MS = 15_000

/** Follows, shows and ends a principal's own runs. Runs of others are indistinguishable from missing runs (OWP-49). */
export function runRoutes(gateway: Gateway): readonly HttpRoute[] {
  const shared = { access: 'authenticated', body: 'never', refuse } as const
  return [
    { ...shared, method: 'GET', path: RUN_EVENTS_PATH, handle: (request) => streamEvents(request, gateway) },
    { ...shared, method: 'GET', path: RUN_POLL_PATH, handle: (request) => pollEvents(request, gateway) },
    { ...shared, method: 'DELETE', path: RUN_PATH, handle: (request) => endRun(request, gateway) },
  ]
}

async function streamEvents(
  { principal, params, headers, query, method }: HttpRequest,
  gateway: Gateway,
): Promise<HttpReply> {
  const runId = readRunId(params)
  const after = decodeLastSequence(
    'Last-Event-ID',
    headers['last-event-id'] ?? query.get('lastSequence') ?? undefined,
  )
  const first = await gateway.readRun(principal, { runId, after, waitMs: 0 })
  if (first === undefined) throw noSuchRun()
  // A HEAD request sends no events, so it does not count as a waiting reader.
  const leave = method === 'HEAD' ? () => undefined : gateway.enterWaiting(principal)
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
    body: (ended) => frames(gateway, principal, { runId, after, ended, leave }),
  }
}

/**
 * Sends events as they occur, until the run ends, the reader disconnects or the server shuts down. Thousands of readers may wait
 * here, so each uses little memory and no signal besides that of the stream.
 */
async function* frames(
  gateway: Gateway,
  principal: Principal,
  reader: Readonly<{ runId: string; after: number; ended: AbortSignal; leave: Release }>,
): AsyncGenerator<string> {
  const { runId, after, ended, leave } = reader
  try {
    yield ': events of a run\n\n'
    for (let last = after; !ended.aborted; ) {
      const reading = { runId, after: last, waitMs: KEEP_ALIVE_MS, signal: ended }
      const page = await gateway.readRun(principal, reading)
      if (page === undefined) return
      if (page.events.length > 0) yield framesOf(page, runId)
      else if (!page.isComplete) yield ': keep-alive\n\n'
      if (page.isComplete) return
      last = page.events.at(-1)?.sequence ?? last
    }
  } catch (error) {
    if (!isToolError(error)) throw error
  } finally {
    leave()
  }
}

/** Encoded pages. Readers at the same position share a page, so it is encoded once. */
const pageTexts = new WeakMap<RunPage, string>()

function framesOf(page: RunPage, runId: string): string {
  const known = pageTexts.get(page)
  if (known !== undefined) return known
  const text = encodeRunEvents(page, runId)
    .map((event) => `id: ${event.sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('')
  pageTexts.set(page, text)
  return text
}

async function pollEvents(
  { principal, params, query, signal }: HttpRequest,
  gateway: Gateway,
): Promise<HttpReply> {
  const runId = readRunId(params)
  const after = decodeLastSequence('lastSequence', query.get('lastSequence') ?? undefined)
  const waitMs = decodeTimeout(query.get('timeout'))
  const leave = waitMs > 0 ? gateway.enterWaiting(principal) : undefined
  const reading = { runId, after, waitMs, ...(signal === undefined ? {} : { signal }) }
  const page = await gateway.readRun(principal, reading).finally(leave)
  if (page === undefined) throw noSuchRun()
  return jsonReply(200, { events: encodeRunEvents(page, runId), isComplete: page.isComplete })
}

async function endRun({ principal, params }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  if (await gateway.endRun(principal, readRunId(params))) return noContent()
  throw noSuchRun()
}

function readRunId({ runId = '' }: HttpRequest['params']): string {
  try {
    return checkRunId(runId)
  } catch {
    throw noSuchRun()
  }
}

function noSuchRun(): ToolError {
  return fault('run_not_found', 'You have no such run; it may have been made with another credential.')
}
