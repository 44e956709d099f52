import { randomUUID } from 'node:crypto'
import { type ApprovalTerms, termsFor } from '#core/approvals/approval-rules'
import { bindCall } from '#core/approvals/bind-call'
import { credentialTags } from '#core/approvals/credential-tags'
import { needsApproval } from '#core/approvals/needs-approval'
import { type ShownInput, shownInput } from '#core/approvals/summarize-input'
import { fault } from '#core/errors'
import type { ApprovalRecord, NewApproval, Parking, ParkResult } from '#core/ports/approval-store'
import { runEnded } from '#core/runs/run-ended'
import type { Tool } from '#core/tool'
import { argsHash } from './args-hash.ts'
import { runIdOf } from './call-place.ts'
import type { CallRequest } from './call-request.ts'
import type { CallServices } from './call-services.ts'
import { keyConflict } from './key-conflict.ts'
import { recordedPlace, toNewCall } from './new-call.ts'
import { noteEnded } from './note-ended.ts'
import { redactText } from './redact-secrets.ts'
import { type CheckedCall, correctionOf } from './run-call.ts'

/** A yes that the coming attempt may use, once. */
export interface Grant {
  readonly approvalId: string
  readonly binding: string
}

export type ApprovalCheck =
  /** Nobody has to be asked. */
  | { readonly kind: 'free' }
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord }
  /** Something about the call changed meanwhile: look it up again. */
  | { readonly kind: 'changed' }

const FREE: ApprovalCheck = { kind: 'free' }

/** Whether the call may run: now, on a yes, or only after one. A call that needs one is parked here (rule 20). */
export async function checkApproval(services: CallServices, checked: CheckedCall): Promise<ApprovalCheck> {
  const { tool, call, seen } = checked
  if (seen?.state !== 'parked') {
    if (tool.policy.approval === 'never') return FREE
    const { principal, request } = call
    const isNeeded = await needsApproval(tool, services.approvalRules, {
      call: {
        principal,
        userId: call.isUserProven ? request.userId : undefined,
        claimedUserId: request.userId,
        input: checked.input,
      },
      log: services.log,
    })
    if (!isNeeded) return FREE
  }
  const { approvals } = services.store
  const credentials = credentialTags(approvals, tool, call)
  const binding = bindCall(approvals, { call, tool, input: checked.input, credentials })
  if (seen?.state === 'parked') return await judgeParked(services, checked, binding)
  const terms = termsFor(services.approvalRules, tool)
  const declared = onlyDeclared(call.request, tool)
  const shown = shownInput(call.input, tool.inputSchema.properties, (text) => redactText(text, declared))
  return await park(services, checked, { binding, terms, shown })
}

interface Question {
  readonly binding: string
  readonly terms: ApprovalTerms
  readonly shown: ShownInput
}

/** A caller may send whatever it likes as a secret; only what the tool asks for is one. */
function onlyDeclared(request: CallRequest, { requirements }: Tool): CallRequest {
  const { authorization = [], secrets = [] } = requirements ?? {}
  const among = (declared: readonly { readonly id: string }[]) => {
    const ids = new Set(declared.map(({ id }) => id))
    return ([id]: readonly [string, unknown]) => ids.has(id)
  }
  return {
    ...request,
    tokens: new Map([...request.tokens].filter(among(authorization))),
    secrets: new Map([...request.secrets].filter(among(secrets))),
  }
}

async function judgeParked(
  services: CallServices,
  { call, seen }: CheckedCall,
  binding: string,
): Promise<ApprovalCheck> {
  const { store, clock } = services
  const approval = await store.approvals.findFor(call)
  if (approval === undefined || approval.attempt !== seen?.attempt) return { kind: 'changed' }
  if (approval.expiresAtMs <= clock.nowMs()) {
    // Timeout is a refusal, also before whoever looks for such calls has come by (OWP-71).
    noteEnded(services, await store.approvals.expire(clock.nowMs()))
    return { kind: 'changed' }
  }
  if (approval.state !== 'pending' && approval.state !== 'granted') return { kind: 'changed' }
  // Rule 21: what is sent now is not what a yes is, or would be, for.
  if (approval.binding !== binding) throw otherThanAsked()
  if (approval.state === 'pending') return { kind: 'parked', approval }
  return { kind: 'granted', grant: { approvalId: approval.id, binding } }
}

function otherThanAsked() {
  return Object.assign(keyConflict(), {
    message:
      'This call waits for an approval with other credentials, or with an input that reads differently each time. Send exactly what was sent first, or use a new call id for a new call.',
  })
}

function newApproval(
  services: CallServices,
  { call, place }: CheckedCall,
  { binding, terms, shown, atMs }: Question & { readonly atMs: number },
): NewApproval {
  const { expiresAfterMs, ...rest } = terms
  return {
    tenant: call.tenant,
    id: services.newChallengeId(),
    subject: {
      callId: call.callId,
      runId: runIdOf(call, place),
      argsHash: argsHash(call),
      userId: call.request.userId,
      isUserProven: call.isUserProven === true,
      ...shown,
    },
    binding,
    ...rest,
    expiresAtMs: atMs + expiresAfterMs,
    notices: services.approvalRules.webhooks.map(({ target }) => ({ id: `msg_${randomUUID()}`, target })),
  }
}

async function park(
  services: CallServices,
  checked: CheckedCall,
  question: Question,
): Promise<ApprovalCheck> {
  const { call, seen } = checked
  const { mostParkedPerPrincipal: mostParked } = services.approvalRules
  const place = recordedPlace(services.store, checked)
  const newCall = toNewCall(services.clock, { ...checked, place })
  const { session, atMs } = newCall
  const approval = newApproval(services, checked, { ...question, atMs })
  const parking: Parking = { approval, mostParked, keyed: call.keyed }
  const result =
    seen === undefined
      ? await services.store.approvals.park(newCall, parking)
      : await services.store.approvals.parkAgain(
          seen,
          { session, atMs, corrected: correctionOf(services, { call, seen }, newCall) },
          parking,
        )
  return told(services, checked, result)
}

function told(services: CallServices, { call, place }: CheckedCall, result: ParkResult): ApprovalCheck {
  switch (result.kind) {
    case 'parked':
      services.feed.notify(place.place?.run ?? call.record)
      return result
    case 'found':
      return { kind: 'changed' }
    case 'run_ended':
      throw runEnded(runIdOf(call, place))
    case 'full':
      throw fault(
        'rate_limited',
        `You have ${result.parked} calls that wait for an approval. Nothing was recorded; try again when some are decided.`,
        { retryAfterMs: 60_000 },
      )
  }
}
