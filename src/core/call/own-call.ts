import type { CallRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { hasUntrustedOutput } from '#core/untrusted-output'
import { endSteps } from '#core/workflow/end-steps'
import { answerRecorded } from './answer-recorded.ts'
import type { CallServices } from './call-services.ts'
import type { CallView } from './call-view.ts'
import { recordOf } from './identified-call.ts'
import { noteEnded } from './note-ended.ts'
import { isHidden } from './same-request.ts'

/** A cancelled run is recorded at once; only a store that is down makes this matter. */
const LONGEST_WAIT_MS = 2_000

/** Rule 10: a principal sees the state and outcome of its own call, and nobody else's. */
export async function readOwnCall(
  services: CallServices,
  principal: Principal,
  callId: string,
): Promise<CallView | undefined> {
  const record = recordOf(services.store, principal, callId)
  const found = await services.store.find({ tenant: principal.tenant, record })
  if (found !== undefined) return isHidden(services, principal, found.tool) ? undefined : viewOf(found)
  const running = services.running.get(record)
  if (running === undefined || isHidden(services, principal, running.tool.id)) return undefined
  return {
    callId,
    record,
    tool: running.tool.id,
    state: 'running',
    attempt: 1,
    createdAtMs: services.clock.nowMs(),
    finishedAtMs: undefined,
    outcome: undefined,
    expired: false,
  }
}

/** Asks for a stop. The first committed final state wins, so an ended call is simply shown (rule 10). */
export async function cancelOwnCall(
  services: CallServices,
  principal: Principal,
  callId: string,
): Promise<CallView | undefined> {
  const record = recordOf(services.store, principal, callId)
  // A credential that may not see the tool may not stop it either.
  if ((await readOwnCall(services, principal, callId)) === undefined) return undefined
  const running = services.running.get(record)
  if (running !== undefined) {
    running.interrupt('cancel')
    await Promise.race([running.done, new Promise((resolve) => setTimeout(resolve, LONGEST_WAIT_MS).unref())])
  }
  const address = { tenant: principal.tenant, record }
  // A workflow may have been put away just then.
  const isPutAway = running !== undefined && (await services.store.find(address))?.waitsFor !== undefined
  if (running === undefined || isPutAway) {
    const nowMs = services.clock.nowMs()
    // What waits for a yes has nobody who runs it: it simply ends.
    const ended = await services.store.approvals.cancel(address, principal.id, nowMs)
    const putAway =
      ended.length > 0 ? ended : await services.store.workflows.cancel(address, principal.id, nowMs)
    noteEnded(services, putAway)
    if (putAway.length === 0) await services.store.requestCancel(address, principal.id, nowMs)
    else await endSteps(services, address, { by: principal.id, why: 'cancel' })
  }
  return await readOwnCall(services, principal, callId)
}

function viewOf(record: CallRecord): CallView {
  const isOpen = record.state === 'running' || record.state === 'parked'
  return {
    callId: record.callId,
    record: record.record,
    tool: record.tool,
    state: record.state,
    attempt: record.attempt,
    createdAtMs: record.createdAtMs,
    finishedAtMs: record.finishedAtMs,
    outcome: isOpen ? undefined : answerRecorded(record),
    expired: record.expired,
    ...(hasUntrustedOutput(record.toolId) ? { untrusted: true } : {}),
  }
}
