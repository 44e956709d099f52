import type { ApprovalRecord, NewApproval, Parking } from '#kernel/approval/approval'
import { termsFor } from '#kernel/approval/approvals'
import { keptDefinition } from '#kernel/approval/decisions'
import { approvalBinding, credentialsDigest, needsApproval, shownInput } from '#kernel/approval/question'
import { fault } from '#kernel/base/errors'
import { runIdOf } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import { userOf } from '#kernel/base/principal'
import { type Followers, noteEnded, runEnded } from '#kernel/run/runs'
import { sessionEnded } from '#kernel/run/session-ends'
import type { KernelStore } from '#kernel/store/store'
import type { Tool } from '#kernel/tool/tool'
import type { CallRequest } from './call.ts'
import type { KernelOptions } from './gateway.ts'
import { argsHash, type Identities, keyConflict } from './look-up.ts'
import { redactText } from './redact.ts'
import { type CheckedCall, correctionOf, recordedScope, toNewCall } from './resolve.ts'
import type { CallStages } from './stages.ts'

/**
 * Decides whether a call may run without an approval, and parks the calls that may not (rules 20 and 21). `call-tool.ts` runs
 * this stage after input and credentials are checked.
 * An approval covers one attempt, with exactly the arguments and credentials it was requested for.
 */

export interface ApprovalNeeds
  extends Identities,
    Followers,
    Pick<KernelOptions, 'clock' | 'log' | 'approvalRules' | 'newChallengeId'>,
    Pick<CallStages, 'standingRules'> {
  readonly store: KernelStore
}

/** An approval that the next attempt may use once. */
export interface Grant {
  readonly approvalId: string
  readonly binding: string
}

type ApprovalCheck =
  /** The call may run: with a granted approval, or without a grant because it needs no approval. */
  | { readonly kind: 'may run'; readonly grant?: Grant }
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord }
  /** The call changed in the meantime: look it up again. */
  | { readonly kind: 'changed' }

/**
 * Whether the call may run now. A call that still needs an approval is parked here (rule 20).
 */
export async function checkApproval(needs: ApprovalNeeds, checked: CheckedCall): Promise<ApprovalCheck> {
  const { tool, call, previous, input } = checked
  if (previous?.state === 'parked') return await judgeParked(needs, checked)
  const userId = userOf(call)
  const isNeeded = await needsApproval(tool, needs.approvalRules, {
    call: { principal: call.principal, userId, claimedUserId: call.request.userId ?? userId, input },
    log: needs.log,
  })
  return isNeeded ? await park(needs, checked) : { kind: 'may run' }
}

/** A caller may send any text as a secret; only the secrets that the tool declares are redacted. */
function onlyDeclared(request: CallRequest, { requirements }: Tool): CallRequest {
  const { authorization = [], secrets = [] } = requirements ?? {}
  const isIn = (declared: readonly { readonly id: string }[]) => {
    const ids = new Set(declared.map(({ id }) => id))
    return ([id]: readonly [string, unknown]) => ids.has(id)
  }
  return {
    ...request,
    tokens: new Map([...request.tokens].filter(isIn(authorization))),
    secrets: new Map([...request.secrets].filter(isIn(secrets))),
  }
}

async function judgeParked(needs: ApprovalNeeds, checked: CheckedCall): Promise<ApprovalCheck> {
  const { store, clock } = needs
  const binding = approvalBinding(store, checked)
  const approval = await store.approvals.findFor(checked.call)
  if (approval === undefined || approval.attempt !== checked.previous?.attempt) return { kind: 'changed' }
  if (approval.expiresAtMs <= clock.nowMs()) {
    // An expired approval is a rejection, even before the timer has ended the call (OWP-71).
    noteEnded(needs, await store.approvals.expire(clock.nowMs()))
    return { kind: 'changed' }
  }
  if (approval.state !== 'pending' && approval.state !== 'granted') return { kind: 'changed' }
  // Rule 21: this request differs from the one that the approval covers.
  if (approval.binding !== binding) {
    const message =
      'This call waits for an approval that covers other credentials, or an input that was parsed differently. Send exactly what was sent first, or use a new call id for a new call.'
    throw Object.assign(keyConflict(), { message })
  }
  if (approval.state === 'pending') return { kind: 'parked', approval }
  return { kind: 'may run', grant: { approvalId: approval.id, binding } }
}

function newApproval(needs: ApprovalNeeds, checked: CheckedCall, atMs: number): NewApproval {
  const { call, scope, tool } = checked
  const { expiresAfterMs, ...terms } = termsFor(needs.approvalRules, tool)
  const declared = onlyDeclared(call.request, tool)
  return {
    tenant: call.tenant,
    id: needs.newChallengeId(),
    subject: {
      callId: call.callId,
      runId: runIdOf(call, scope),
      argsHash: argsHash(call),
      userId: call.request.userId,
      isUserProven: call.isUserProven === true,
      ...defined({ credentials: credentialsDigest(needs.store, checked) }),
      ...shownInput(call.input, tool.inputSchema.properties, (text) => redactText(text, declared)),
      ...keptDefinition(tool),
    },
    binding: approvalBinding(needs.store, checked),
    ...terms,
    expiresAtMs: atMs + expiresAfterMs,
  }
}

async function park(needs: ApprovalNeeds, checked: CheckedCall): Promise<ApprovalCheck> {
  const { call, scope, previous } = checked
  const newCall = toNewCall({ ...checked, scope: recordedScope(needs.store, checked) }, needs.clock.nowMs())
  const { session, atMs } = newCall
  const approval = newApproval(needs, checked, atMs)
  const parking: Parking = {
    approval,
    maxParked: needs.approvalRules.maxParkedPerPrincipal,
    keyed: call.keyed,
    grantByRule: await needs.standingRules?.cover(approval, checked, atMs),
  }
  const result =
    previous === undefined
      ? await needs.store.approvals.park(newCall, parking)
      : await needs.store.approvals.parkAgain(
          previous,
          { session, atMs, corrected: correctionOf(needs, { call, previous }, newCall) },
          parking,
        )
  switch (result.kind) {
    case 'parked':
      needs.feed.notify(scope.run?.run ?? call.record)
      // A standing rule has granted it: the next look-up finds the call with its approval.
      return result.approval.state === 'granted' ? { kind: 'changed' } : result
    case 'found':
      return { kind: 'changed' }
    case 'run_ended':
      throw runEnded(runIdOf(call, scope))
    case 'session_ended':
      throw sessionEnded()
    case 'full':
      throw fault(
        'rate_limited',
        `You have ${result.parked} calls waiting for approval. Nothing was recorded; try again when some have been decided.`,
        { retryAfterMs: 60_000 },
      )
  }
}
