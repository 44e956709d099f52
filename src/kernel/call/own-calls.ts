import { hash, randomBytes } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { ownRunId, runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { CallRecord, KernelStore } from '#kernel/ports/store'
import { type Followers, noteEnded } from '#kernel/run/feed'
import type { ToolSet } from '#kernel/tool/catalog'
import { hasUntrustedOutput } from '#kernel/tool/tool'
import type { CallsPage, CallsQuery, CallView } from './call.ts'
import { recordOf } from './identity.ts'
import { answerRecorded, isHidden } from './look-up.ts'
import type { RunningCalls } from './running.ts'
import type { CallStages } from './stages.ts'

/** A cancelled run is recorded at once; only a store that is down makes this matter. */
const MAX_WAIT_MS = 2_000

/** What showing and cancelling calls takes. */
interface OwnCallsNeeds extends Followers, Pick<CallStages, 'workflows'> {
  readonly store: KernelStore
  readonly clock: Clock
  readonly registry: ToolSet
  readonly running: RunningCalls
}

/** Rule 10: a principal sees the state and outcome of its own call, and nobody else's. */
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

/** A principal's own calls, newest first; those of tools it may not see any more are none (rule 2). */
export async function listOwnCalls(
  needs: OwnCallsNeeds,
  principal: Principal,
  { cursor, limit }: CallsQuery,
): Promise<CallsPage> {
  const { tenant, id } = principal
  const before = cursor === undefined ? undefined : openCursor(needs.store, principal, cursor)
  const page = await needs.store.listOwn({
    ...{ tenant, principal: id, limit },
    ...(before === undefined ? {} : { before }),
  })
  const calls = page.calls.filter(({ tool }) => !isHidden(needs.registry, principal, tool)).map(viewOf)
  return page.next === undefined
    ? { calls }
    : { calls, cursor: makeCursor(needs.store, principal, page.next) }
}

const CURSOR = /^([0-9a-f]{16})([0-9a-f]{12})$/
const MAX_POSITIONS = 2 ** 48

/** A position counts the calls of everybody, which is nobody's business: it leaves under a pad that only we can make. */
function makeCursor(store: KernelStore, principal: Principal, position: number): string {
  const salt = randomBytes(8).toString('hex')
  return salt + ((position + padOf(store, principal, salt)) % MAX_POSITIONS).toString(16).padStart(12, '0')
}

/** One that was made up leads to some position among the own calls, and to nothing else. */
function openCursor(store: KernelStore, principal: Principal, cursor: string): number {
  const [, salt = '', hidden = ''] = CURSOR.exec(cursor) ?? []
  if (salt === '') throw fault('request_invalid', 'The cursor was not issued by this server. Leave it out.')
  return (Number.parseInt(hidden, 16) - padOf(store, principal, salt) + MAX_POSITIONS) % MAX_POSITIONS
}

function padOf(store: KernelStore, { tenant, id }: Principal, salt: string): number {
  const pad = store.approvals.sign('calls-cursor', JSON.stringify([tenant, id, salt]))
  return Number.parseInt(hash('sha256', pad, 'hex').slice(0, 12), 16)
}

/** Asks for a stop. The first committed final state wins, so an ended call is simply shown (rule 10). */
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
  // A workflow may have been suspended just then.
  const isSuspended = running !== undefined && (await needs.store.find(address))?.waitsFor !== undefined
  if (running === undefined || isSuspended) {
    const nowMs = needs.clock.nowMs()
    // Nobody runs a call that waits for approval: it simply ends.
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
