import { hash, randomBytes } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { ownRunId, runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import { type Followers, noteEnded } from '#kernel/run/runs'
import type { KernelStore } from '#kernel/store/store'
import type { ToolSet } from '#kernel/tool/catalog'
import { hasUntrustedOutput } from '#kernel/tool/tool'
import type { CallsPage, CallsQuery, CallView } from './call.ts'
import type { CallRecord } from './call-record.ts'
import { answerRecorded, isHidden, recordOf } from './look-up.ts'
import type { RunningCalls } from './running.ts'
import type { CallStages } from './stages.ts'

/**
 * A principal's view of its own calls: read one, list them, cancel one (rule 10). The gateway offers these to every protocol.
 * Calls of other principals, and of tools hidden from this one, do not exist here (rule 2).
 */

/** A cancelled run is recorded immediately; the wait matters only while the store is down. */
const MAX_WAIT_MS = 2_000

interface OwnCallsNeeds extends Followers, Pick<CallStages, 'workflows'> {
  readonly store: KernelStore
  readonly clock: Clock
  readonly registry: ToolSet
  readonly running: RunningCalls
}

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

/** Newest first, without calls of tools that the principal may no longer see (rule 2). */
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

/** A forged cursor leads to some position among the principal's own calls, and nowhere else. */
function openCursor(store: KernelStore, principal: Principal, cursor: string): number {
  const [, salt = '', hidden = ''] = CURSOR.exec(cursor) ?? []
  if (salt === '') throw fault('request_invalid', 'The cursor was not issued by this server. Leave it out.')
  return (Number.parseInt(hidden, 16) - padOf(store, principal, salt) + MAX_POSITIONS) % MAX_POSITIONS
}

function padOf(store: KernelStore, { tenant, id }: Principal, salt: string): number {
  const pad = store.sign('calls-cursor', JSON.stringify([tenant, id, salt]))
  return Number.parseInt(hash('sha256', pad, 'hex').slice(0, 12), 16)
}

/** The first committed final state wins, so a call that has ended is simply shown (rule 10). */
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
    const nowMs = needs.clock.nowMs()
    // A call that waits for approval is not running: it simply ends.
    const parked = await needs.store.approvals.cancel(address, principal.id, nowMs)
    const ended =
      parked.length > 0 ? parked : await needs.workflows.store.cancel(address, principal.id, nowMs)
    noteEnded(needs, ended)
    if (ended.length === 0) await needs.store.requestCancel(address, principal.id, nowMs)
    else await needs.workflows.endSteps(address, { by: principal.id, why: 'cancel' })
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
