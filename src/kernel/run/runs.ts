import type { EndedParked } from '#kernel/approval/approval'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { ownRunId, recordOfRunId } from '#kernel/base/ids'
import { opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallAddress, CallRecord, RunAddress, RunRecord, RunScope } from '#kernel/call/call-record'
import type { KernelStore } from '#kernel/store/store'
import { ownRunEvents, type RunEvent } from './events.ts'
import { type Followers, noteEnded, type ReadPage, type RunFeed } from './feed.ts'

/**
 * Runs of a principal: where their events go, reading them, ending them. The gateway offers it to protocols; the ladder resolves
 * the run of each call here. Runs of other principals do not exist for a caller (rule 2, OWP-49).
 */

/** The run that a caller named. The run of a single call cannot be joined: it ends with its call. */
export async function namedRun(store: KernelStore, principal: Principal, runId: string): Promise<RunScope> {
  const record = recordOfRunId(runId)
  const { tenant, id } = principal
  if (record !== undefined && (await store.find({ tenant, record }))?.principal === id) throw runEnded(runId)
  return namedScope(store, principal, runId)
}

export function runEnded(runId: string): ToolError {
  return fault('request_invalid', `Run '${runId}' has ended and accepts no more calls. Use another run id.`)
}

const PAGE = 500

export function namedScope(store: KernelStore, principal: Principal, runId: string): RunScope {
  const { tenant, id } = principal
  return { tenant, principal: id, runId, run: store.digest(JSON.stringify(['run', tenant, id, runId])) }
}

/** The run of a call that names none. */
export function implicitRun({ tenant, id }: Principal, record: string): RunScope {
  return { tenant, principal: id, runId: ownRunId(record), run: record }
}

interface ReadRunNeeds {
  readonly store: KernelStore
  readonly clock: Clock
  readonly feed: RunFeed
}

interface CancelsWorkflows {
  cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParked[]>
}

interface EndRunNeeds extends Followers {
  readonly store: KernelStore
  readonly clock: Clock
  readonly sessions: { closeRun(run: string): Promise<void> }
  readonly workflows: { readonly store: CancelsWorkflows }
}

export function readOwnRun(
  needs: ReadRunNeeds,
  principal: Principal,
  query: RunQuery,
): Promise<RunPage | undefined> {
  const read: ReadPage = (after, run) => readPage(needs, principal, { run, after })
  return locate(needs.store, principal, query.runId).then((run) =>
    run === undefined ? undefined : needs.feed.read(run, query, read),
  )
}

/** Refuses new calls in it. Running calls end by themselves, but sessions are closed. */
export async function endOwnRun(needs: EndRunNeeds, principal: Principal, runId: string): Promise<boolean> {
  const run = await locate(needs.store, principal, runId)
  if (run === undefined) return false
  const { tenant, id } = principal
  await needs.store.endRun({ tenant, run }, needs.clock.nowMs())
  noteEnded(needs, await needs.store.approvals.cancel({ tenant, run }, id, needs.clock.nowMs()))
  // The run of a workflow's call ends with it, even while it is suspended.
  noteEnded(needs, await needs.workflows.store.cancel({ tenant, record: run }, id, needs.clock.nowMs()))
  await needs.sessions.closeRun(run)
  needs.feed.notify(run)
  return true
}

/** The key of the principal's own run of this name: one it named, or the run of one of its calls. */
async function locate(store: KernelStore, principal: Principal, runId: string): Promise<string | undefined> {
  const { tenant, id } = principal
  const { run } = namedScope(store, principal, runId)
  if ((await store.findRun({ tenant, run })) !== undefined) return run
  const record = recordOfRunId(runId)
  if (record === undefined) return undefined
  const owner = (await store.findRun({ tenant, run: record })) ?? (await store.find({ tenant, record }))
  return owner?.principal === id ? record : undefined
}

/** The run's row is read before its events: once it has ended, nothing is added. */
async function readPage(
  { store, clock }: ReadRunNeeds,
  principal: Principal,
  { run, after }: { readonly run: string; readonly after: number },
): Promise<RunPage | undefined> {
  const { tenant } = principal
  const names = { key: run, principal: opaquePrincipal(store, principal) }
  const call = await store.find({ tenant, record: run })
  const found = await store.findRun({ tenant, run })
  if (found === undefined) {
    if (call === undefined || call.expired) return undefined
    const events = ownRunEvents(call)
    return {
      ...names,
      events: events.filter(({ sequence }) => sequence > after),
      isComplete: events.length > 1,
    }
  }
  if (call !== undefined && call.run === undefined) {
    const events = await eventsBefore(store, { tenant, run }, call)
    return { ...names, events: events.filter(({ sequence }) => sequence > after), isComplete: isEnded(call) }
  }
  const hasEnded = call === undefined ? isRunOver(found, clock.nowMs()) : found.open === 0 && isEnded(call)
  const events = await store.readRun({ tenant, run }, after, PAGE)
  return { ...names, events, isComplete: hasEnded && events.length < PAGE }
}

function isEnded({ state }: CallRecord): boolean {
  return state !== 'running' && state !== 'parked'
}

/** The events before the call was recorded, and then those of its record. None come between (rule 20). */
async function eventsBefore(
  store: KernelStore,
  address: RunAddress,
  call: CallRecord,
): Promise<readonly RunEvent[]> {
  const earlier = await store.readRun(address, -1, PAGE)
  const own = call.expired ? [] : ownRunEvents(call)
  return [...earlier, ...own.map((event) => ({ ...event, sequence: event.sequence + earlier.length }))]
}

export interface RunQuery {
  readonly runId: string
  /** The last sequence it has; -1 for none. */
  readonly after: number
  /** How long to wait for new events before answering with none. */
  readonly waitMs: number
  readonly signal?: AbortSignal
}

/** Events after the requested sequence, in order, possibly not all. Readers at the same sequence share one object. */
export interface RunPage {
  /** Names the run in event ids; equal on every page. */
  readonly key: string
  /** The run's principal, opaque (OWP-51, OWP-62). */
  readonly principal: string
  readonly events: readonly RunEvent[]
  /** No events will follow these. */
  readonly isComplete: boolean
}

/** A run without open calls ends by itself after this long. */
export const RUN_IDLE_MS = 15 * 60_000

type Life = Pick<RunRecord, 'open' | 'touchedAtMs' | 'endedAtMs'>

/** Whether new calls are refused. */
export function isRunEnded({ open, touchedAtMs, endedAtMs }: Life, nowMs: number): boolean {
  return endedAtMs !== undefined || (open === 0 && nowMs - touchedAtMs >= RUN_IDLE_MS)
}

/** Whether no event will follow: it ended, and so did everything that began in it. */
function isRunOver(life: Life, nowMs: number): boolean {
  return life.open === 0 && isRunEnded(life, nowMs)
}
