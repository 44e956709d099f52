import { type Approver, type DecisionResult, stateOf } from '#core/approvals/approvals'
import type { Gateway } from '#core/calls/gateway'
import type { JsonObject } from '#core/json'
import type { ApprovalRecord } from '#core/ports/approval-store'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { decodeResume, encodeInterruptFor, INTERRUPT_ANSWERS } from './codec-interrupt.ts'
import { refuse } from './refuse.ts'
import { jsonReply } from './reply.ts'
import { INTERRUPT_PATH, INTERRUPT_TOKEN_PATH } from './wire.ts'

interface Parts {
  readonly gateway: Gateway
  readonly clock: Clock
}

/** Looks at and answers interrupts of others' runs, for approvers of the same tenant (OWP-66 to OWP-72). */
export function interruptRoutes(gateway: Gateway, clock: Clock): readonly HttpRoute[] {
  const parts = { gateway, clock }
  const run = { path: INTERRUPT_PATH, access: 'authenticated', refuse } as const
  // A token is the credential: whoever holds it is the approver it was made for (OWP-67).
  const token = { path: INTERRUPT_TOKEN_PATH, access: 'open', refuse } as const
  return [
    { ...run, method: 'GET', body: 'never', handle: (request) => showInterrupt(request, parts) },
    { ...run, method: 'POST', body: 'json', handle: (request) => resolveInterrupt(request, parts) },
    { ...token, method: 'GET', body: 'never', handle: (request) => showByToken(request, parts) },
    { ...token, method: 'POST', body: 'json', handle: (request) => resolveByToken(request, parts) },
  ]
}

function approverOf({ id, tenant, scopes }: Principal): Approver {
  return { id, tenant, scopes }
}

async function showInterrupt(request: HttpRequest, { gateway, clock }: Parts): Promise<HttpReply> {
  const approver = approverOf(request.principal)
  // Scopes first: without them nobody learns what is there.
  const lacks = gateway.approvals.lacks(approver)
  if (lacks !== undefined) return refusal(lacks)
  const found = await gateway.approvals.findInRun(approver, placeOf(request))
  if (found === undefined) return refusal({ kind: 'not_found' })
  return jsonReply(200, encodeInterruptFor(found, stateOf(found, clock.nowMs())))
}

async function resolveInterrupt(request: HttpRequest, { gateway }: Parts): Promise<HttpReply> {
  const approver = approverOf(request.principal)
  const lacks = gateway.approvals.lacks(approver)
  if (lacks !== undefined) return refusal(lacks)
  const decision = decodeResume(request.body)
  if (typeof decision === 'string') return invalidResume(decision)
  const found = await gateway.approvals.findInRun(approver, placeOf(request))
  return answer(await gateway.approvals.decide(approver, found, decision))
}

async function showByToken({ params }: HttpRequest, { gateway, clock }: Parts): Promise<HttpReply> {
  const view = await gateway.approvals.readLink(params.token ?? '')
  if (view === undefined) return refusal({ kind: 'not_found' })
  const { approval, isOver } = view
  if (isOver && approval.state === 'pending') return refusal({ kind: 'expired', approval })
  return jsonReply(200, encodeInterruptFor(approval, stateOf(approval, clock.nowMs())))
}

async function resolveByToken({ params, body }: HttpRequest, { gateway }: Parts): Promise<HttpReply> {
  const view = await gateway.approvals.readLink(params.token ?? '')
  if (view === undefined) return refusal({ kind: 'not_found' })
  const decision = decodeResume(body)
  if (typeof decision === 'string') return invalidResume(decision)
  // Overriding takes a scope, and a link has none.
  if (decision.action === 'override') return refusal({ kind: 'link_only_shows' })
  const result = await gateway.approvals.decideByLink(view, decision)
  // OWP-67: for a token used and cancelled are the same.
  return answer(result.kind === 'cancelled' ? { ...result, kind: 'resolved' } : result)
}

function placeOf({ params }: HttpRequest) {
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
  const reply = jsonReply(status, { error, message, ...details })
  if (status !== 401) return reply
  return { ...reply, headers: { ...reply.headers, 'www-authenticate': 'Bearer' } }
}

/** C7: every interrupt of ours is a gate. */
function invalidResume(message: string): HttpReply {
  return jsonReply(400, {
    error: 'INVALID_RESUME_VALUE',
    message,
    details: { code: 'validation_error' },
  })
}
