import type { CallServices } from '#core/calls/gateway'
import { fault, type ToolError } from '#core/errors'
import { recordOfRunId } from '#core/ids'
import type { CallRecord, RunAddress, RunRecord, RunScope, Store } from '#core/ports/store'
import { opaquePrincipal, type Principal } from '#core/principal'
import { ownRunEvents, type RunEvent } from './events.ts'
import { noteEnded } from './feed.ts'

/** Where something goes that a caller wants in a run. The run of a single call cannot be joined: it is over when its call is. */
export async function namedRun(store: Store, principal: Principal, runId: string): Promise<RunScope> {
  const record = recordOfRunId(runId)
  const { tenant, id } = principal
  if (record !== undefined && (await store.find({ tenant, record }))?.principal === id) throw runEnded(runId)
  return placeOf(store, principal, runId)
}

export function runEnded(runId: string): ToolError {
  return fault('request_invalid', `Run '${runId}' has ended and takes nothing new. Use another run id.`)
}

const PAGE = 500

/** Where the events of a run that a principal named go. */
export function placeOf(store: Store, principal: Principal, runId: string): RunScope {
  const { tenant, id } = principal
  return { tenant, principal: id, runId, run: store.digest(JSON.stringify(['run', tenant, id, runId])) }
}

/** Rule 2 for runs: a principal reads its own, and every other is as unknown as one that never was (OWP-49). */
export async function readOwnRun(
  services: CallServices,
  principal: Principal,
  query: RunQuery,
): Promise<RunPage | undefined> {
  const run = await locate(services, principal, query.runId)
  if (run === undefined) return undefined
  return await services.feed.read(run, query, (after) => readPage(services, principal, { run, after }))
}

/** Nothing new begins in it; what runs, ends by itself, but state that is held for it is let go. */
export async function endOwnRun(
  services: CallServices,
  principal: Principal,
  runId: string,
): Promise<boolean> {
  const run = await locate(services, principal, runId)
  if (run === undefined) return false
  const { tenant, id } = principal
  await services.store.endRun({ tenant, run }, services.clock.nowMs())
  noteEnded(services, await services.store.approvals.cancel({ tenant, run }, id, services.clock.nowMs()))
  // The run of a workflow's call ends with it, also while it is put away.
  noteEnded(
    services,
    await services.store.workflows.cancel({ tenant, record: run }, id, services.clock.nowMs()),
  )
  await services.sessions.closeRun(run)
  services.feed.notify(run)
  return true
}

/** The key of the principal's own run of this name: one it named, or the run of one of its calls. */
async function locate(
  { store }: CallServices,
  principal: Principal,
  runId: string,
): Promise<string | undefined> {
  const { tenant, id } = principal
  const { run } = placeOf(store, principal, runId)
  if ((await store.findRun({ tenant, run })) !== undefined) return run
  const record = recordOfRunId(runId)
  if (record === undefined) return undefined
  const owner = (await store.findRun({ tenant, run: record })) ?? (await store.find({ tenant, record }))
  return owner?.principal === id ? record : undefined
}

/** The run's row is read before its events: once it is over, nothing is added. */
async function readPage(
  { store, clock }: CallServices,
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
  const isOver = call === undefined ? isRunOver(found, clock.nowMs()) : found.open === 0 && isEnded(call)
  const events = await store.readRun({ tenant, run }, after, PAGE)
  return { ...names, events, isComplete: isOver && events.length < PAGE }
}

function isEnded({ state }: CallRecord): boolean {
  return state !== 'running' && state !== 'parked'
}

/** What was told before there was a call, and then what its record tells. Nothing comes between (rule 20). */
async function eventsBefore(
  store: Store,
  address: RunAddress,
  call: CallRecord,
): Promise<readonly RunEvent[]> {
  const told = await store.readRun(address, -1, PAGE)
  const own = call.expired ? [] : ownRunEvents(call)
  return [...told, ...own.map((event) => ({ ...event, sequence: event.sequence + told.length }))]
}

/** What a reader of a run asks for. */
export interface RunQuery {
  readonly runId: string
  /** The last sequence it has; -1 for none. */
  readonly after: number
  /** How long to wait for something new before answering with nothing. */
  readonly waitMs: number
  readonly signal?: AbortSignal
}

/** Events after the asked place, in order, possibly not all there are. Readers at the same place share one object. */
export interface RunPage {
  /** Names the run in event ids; the same for every page. */
  readonly key: string
  /** Whose run it is, as an opaque text (OWP-51, OWP-62). */
  readonly principal: string
  readonly events: readonly RunEvent[]
  /** Nothing will follow these events. */
  readonly isComplete: boolean
}

/** A run in which nothing is open ends by itself after this long. */
export const RUN_IDLE_MS = 15 * 60_000

type Life = Pick<RunRecord, 'open' | 'touchedAtMs' | 'endedAtMs'>

/** Whether nothing new may begin in it. */
export function isRunEnded({ open, touchedAtMs, endedAtMs }: Life, nowMs: number): boolean {
  return endedAtMs !== undefined || (open === 0 && nowMs - touchedAtMs >= RUN_IDLE_MS)
}

/** Whether no event will follow: it ended, and so did everything that began in it. */
function isRunOver(life: Life, nowMs: number): boolean {
  return life.open === 0 && isRunEnded(life, nowMs)
}
