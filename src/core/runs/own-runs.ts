import type { CallServices } from '#core/call/call-services'
import { noteEnded } from '#core/call/note-ended'
import { opaquePrincipal } from '#core/opaque-principal'
import type { RunAddress, RunPlace } from '#core/ports/run-store'
import type { CallRecord, Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { RunEvent } from './run-event.ts'
import { ownRunEvents } from './run-facts.ts'
import { recordOfRunId } from './run-id.ts'
import { isRunOver } from './run-over.ts'
import type { RunPage, RunQuery } from './run-view.ts'

const PAGE = 500

/** Where the events of a run that a principal named go. */
export function placeOf(store: Store, principal: Principal, runId: string): RunPlace {
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
