import { hash, randomBytes } from 'node:crypto'
import { fault } from '#kernel/base/errors'
import { ownRunId, runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { Followers } from '#kernel/run/runs'
import type { KernelStore } from '#kernel/store/store'
import { hasUntrustedOutput } from '#kernel/tool/tool'
import type { CallsPage, CallsQuery, CallView } from './call.ts'
import type { CallRecord } from './call-record.ts'
import type { CallNeeds } from './call-tool.ts'
import { answerRecorded, isHidden, recordOf } from './look-up.ts'
import { cancelElsewhere } from './suspend.ts'

/**
 * A principal's view of its own calls: read one, list them, cancel one (rule 10). The gateway offers these to every protocol.
 * Calls of other principals, and of tools hidden from this one, do not exist here (rule 2).
 */

/** A cancelled run is recorded immediately, so the full wait occurs only while the store is down. */
const MAX_WAIT_MS = 2_000

type OwnCallsNeeds = Followers & Pick<CallNeeds, 'workflows' | 'store' | 'clock' | 'registry' | 'running'>

export async function readOwnCall(
  needs: OwnCallsNeeds,
  principal: Principal,
  callId: string,
): Promise<CallView | undefined> {
  const record = recordOf(needs.store, principal, callId)
  const found = await needs.store.find({ tenant: principal.tenant, record })
  const running = needs.running.get(record)
  const progress = running?.progress === undefined ? {} : { progress: running.progress }
  if (found !== undefined)
    return isHidden(needs.registry, principal, found.tool) ? undefined : { ...viewOf(found), ...progress }
  if (running === undefined || isHidden(needs.registry, principal, running.tool.id)) return undefined
  return {
    callId,
    record,
    runId: runIdOf(running.call, running.scope),
    traceId: running.call.request.traceId ?? '',
    protocol: running.call.request.protocol,
    userId: running.call.request.userId,
    tool: running.tool.id,
    state: 'running',
    attempt: 1,
    createdAtMs: needs.clock.nowMs(),
    finishedAtMs: undefined,
    outcome: undefined,
    expired: false,
    ...progress,
  }
}

/** Lists calls, newest first, without calls of tools that the principal may no longer see (rule 2). */
export async function listOwnCalls(
  needs: OwnCallsNeeds,
  principal: Principal,
  { cursor, limit }: CallsQuery,
): Promise<CallsPage> {
  const { tenant, id } = principal
  const before = cursor === undefined ? undefined : openCursor(needs.store, principal, cursor)
  const page = await needs.store.listOwn({ tenant, principal: id, limit, before })
  const calls = page.calls.filter(({ tool }) => !isHidden(needs.registry, principal, tool)).map(viewOf)
  return page.next === undefined
    ? { calls }
    : { calls, cursor: makeCursor(needs.store, principal, page.next) }
}

const CURSOR = /^([0-9a-f]{16})([0-9a-f]{12})$/
const MAX_POSITIONS = 2 ** 48

/** A position would reveal how many calls all tenants make, so it is hidden under a pad that only this server can compute. */
function makeCursor(store: KernelStore, principal: Principal, position: number): string {
  const salt = randomBytes(8).toString('hex')
  return salt + ((position + padOf(store, principal, salt)) % MAX_POSITIONS).toString(16).padStart(12, '0')
}

/** A forged cursor can only select another position in the list of the principal's own calls. */
function openCursor(store: KernelStore, principal: Principal, cursor: string): number {
  const [, salt = '', hidden = ''] = CURSOR.exec(cursor) ?? []
  if (salt === '') throw fault('request_invalid', 'The cursor was not issued by this server. Leave it out.')
  return (Number.parseInt(hidden, 16) - padOf(store, principal, salt) + MAX_POSITIONS) % MAX_POSITIONS
}

function padOf(store: KernelStore, { tenant, id }: Principal, salt: string): number {
  const pad = store.sign('calls-cursor', JSON.stringify([tenant, id, salt]))
  return Number.parseInt(hash('sha256', pad, 'hex').slice(0, 12), 16)
}

/** Cancels a call that has not ended. The first committed final state wins, so an ended call is returned unchanged (rule 10). */
export async function cancelOwnCall(
  needs: OwnCallsNeeds,
  principal: Principal,
  callId: string,
): Promise<CallView | undefined> {
  const record = recordOf(needs.store, principal, callId)
  // A credential that may not see the tool may not stop it either.
  if ((await readOwnCall(needs, principal, callId)) === undefined) return undefined
  const running = needs.running.get(record)
  if (running !== undefined) {
    running.interrupt('cancel')
    await Promise.race([running.done, new Promise((resolve) => setTimeout(resolve, MAX_WAIT_MS).unref())])
  }
  const address = { tenant: principal.tenant, record }
  // A workflow may have been suspended in the meantime.
  const isSuspended = running !== undefined && (await needs.store.find(address))?.waitsFor !== undefined
  if (running === undefined || isSuspended) {
    const by = principal.id
    const hasEnded = await cancelElsewhere(needs, needs.workflows.store, { address, by })
    if (hasEnded) await needs.workflows.endSteps(address, { by, why: 'cancel' })
  }
  return await readOwnCall(needs, principal, callId)
}

function viewOf(record: CallRecord): CallView {
  const isOpen = record.state === 'running' || record.state === 'parked'
  return {
    callId: record.callId,
    record: record.record,
    runId: record.runId ?? ownRunId(record.record),
    traceId: record.traceId,
    protocol: record.protocol,
    userId: record.userId,
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
