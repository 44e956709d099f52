import { recordOf } from '#kernel/call/look-up'
import type { JournalEvent } from '#kernel/journal/events'
import type { RunEvent } from '#kernel/run/events'
import { namedScope } from '#kernel/run/runs'
import type { Batch, CallPlan } from './differential-calls.ts'
import type { Played } from './differential-played.ts'
import { principalOf, type Stage } from './differential-stage.ts'

/** The stored traces of one lane: journal rows by call, session run and challenge, and the events of its runs. */
export interface Facts {
  readonly journal: Readonly<Record<string, readonly object[]>>
  readonly runs: Readonly<Record<string, object>>
}

export async function readJournal({ gateway }: Stage): Promise<readonly JournalEvent[]> {
  const groups = await gateway.store.readJournal([], Number.MAX_SAFE_INTEGER)
  return groups.flatMap(({ events }) => events)
}

export async function factsOf(
  played: Played,
  around: { readonly stage: Stage; readonly batch: Batch; readonly journal: readonly JournalEvent[] },
): Promise<Facts> {
  const { stage, batch } = around
  nameIds(played, stage, batch)
  const own = new Set(batch.callers.map((_caller, index) => principalOf(batch, played.way.name, index).id))
  const rows = around.journal.filter((event) => 'principal' in event && own.has(event.principal))
  const journal = Object.groupBy(
    rows.map((event) => ({ group: groupOf(event, played), row: rowOf(event, played) })),
    ({ group }) => group,
  )
  return {
    journal: Object.fromEntries(
      Object.entries(journal).map(([group, all = []]) => [group, all.map(({ row }) => row)]),
    ),
    runs: await readRuns(played, stage, batch),
  }
}

/** Labels records and generated call ids after the first call that has them. */
function nameIds({ way, labels, answers, sessions }: Played, { gateway }: Stage, batch: Batch): void {
  for (const [index, answer] of answers.entries()) {
    const call = batch.calls[index]
    if (call === undefined || answer?.callId === undefined) continue
    const principal = principalOf(batch, way.name, call.caller)
    const first = call.key === undefined ? index : batch.calls.findIndex((one) => isSameKey(one, call))
    labels.suggest(recordOf(gateway.store, principal, answer.callId), `call ${first}`)
    if (call.key === undefined) labels.suggest(answer.callId, `id of call ${index}`)
    if (call.runId === undefined) continue
    labels.suggest(namedScope(gateway.store, principal, call.runId).run, `run ${call.caller} ${call.runId}`)
  }
  for (const [name, { caller, runId }] of sessions) {
    const { run } = namedScope(gateway.store, principalOf(batch, way.name, caller), runId)
    labels.suggest(run, `run of session ${name}`)
  }
}

function isSameKey(left: CallPlan, right: CallPlan): boolean {
  return left.caller === right.caller && left.key === right.key
}

function groupOf(event: JournalEvent, { labels }: Played): string {
  if ('record' in event) return labels.of(event.record)
  return 'run' in event && event.run !== undefined ? labels.of(event.run) : event.type.split('.', 1).join()
}

/**
 * A row without its time, its writer and its owner. An attempt with another input has both fingerprints, which
 * have the id of a session in them.
 */
function rowOf(event: JournalEvent, { labels }: Played): object {
  const row: Record<string, unknown> = { ...event }
  for (const name of ['at', 'record', 'principal', 'durationMs']) delete row[name]
  for (const name of ['run', 'session', 'challenge', 'approval']) {
    const id = row[name]
    if (typeof id === 'string') row[name] = labels.of(id)
  }
  for (const name of ['before', 'after']) if (name in row) row[name] = 'a fingerprint'
  return row
}

async function readRuns(
  { way, labels, answers }: Played,
  { gateway }: Stage,
  batch: Batch,
): Promise<Facts['runs']> {
  const reported = new Map<string, object>()
  for (const [index, answer] of answers.entries()) {
    const caller = batch.calls[index]?.caller ?? 0
    const runId = answer?.runId
    if (runId === undefined) continue
    const name = `${caller} ${labels.known(runId) ?? runId}`
    if (reported.has(name)) continue
    const principal = principalOf(batch, way.name, caller)
    const page = await gateway.readRun(principal, { runId, after: -1, waitMs: 0 })
    const events = page?.events.map((event) => eventOf(event, labels)) ?? 'unknown run'
    reported.set(name, { events, isComplete: page?.isComplete ?? false })
  }
  return Object.fromEntries(reported)
}

function eventOf(event: RunEvent, labels: Played['labels']): object {
  const { atMs: _at, ...rest } = event
  const named =
    'sessionId' in rest && rest.sessionId !== undefined ? { sessionId: labels.of(rest.sessionId) } : {}
  const asked = {
    ...('approval' in rest ? { approval: labels.of(rest.approval) } : {}),
    ...('record' in rest ? { record: labels.of(rest.record) } : {}),
  }
  if (!('call' in rest)) return { ...rest, ...named, ...asked }
  // Each request has its own trace.
  const { callId, traceId: _trace, ...label } = rest.call
  const call = { ...label, callId: labels.known(callId) ?? callId }
  const { durationMs: _duration, principal: _owner, ...reported } = { durationMs: 0, principal: '', ...rest }
  return { ...reported, call, ...named, ...asked }
}
