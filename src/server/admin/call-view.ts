import type { ApprovalRecord } from '#kernel/approval/approval'
import { ownRunId } from '#kernel/base/ids'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { Outcome } from '#kernel/call/call'
import type { CallRecord } from '#kernel/call/call-record'
import type { JournalGroup } from '#kernel/journal/events'
import { ownRunEvents, type RunEvent } from '#kernel/run/events'
import type { Store } from '#store/collet-store'
import type { CallInput } from '#store/operator-views'
import { momentOf } from './access.ts'

/** A call as operators see it in lists. */
export type RenderedCall = ReturnType<typeof renderCall>

/** What happened, without input and output. */
export function renderCall(call: CallRecord) {
  const { outcome, createdAtMs, finishedAtMs } = call
  return {
    record: call.record,
    call_id: call.callId,
    run_id: call.runId ?? ownRunId(call.record),
    trace_id: call.traceId,
    protocol: call.protocol ?? null,
    user_id: call.userId ?? null,
    tenant: call.tenant,
    principal: call.principal,
    /** The operator who ran it under the principal's name. */
    by: call.by ?? null,
    tool: call.tool,
    safety_tier: call.tier,
    state: call.state,
    attempt: call.attempt,
    /** The workflow's call, of a step. */
    parent: call.parent ?? null,
    created_at: new Date(createdAtMs).toISOString(),
    finished_at: momentOf(finishedAtMs),
    /** From being asked for to its end: with what it waited for approval. */
    took_ms: finishedAtMs === undefined ? null : finishedAtMs - createdAtMs,
    /** How long the tool itself ran in its last attempt; `null` also for a call that was settled. */
    ran_ms: call.ranMs ?? null,
    error_code: outcome === undefined || outcome.ok ? null : outcome.error.code,
    result_expired: call.expired,
    has_late_result: call.late !== undefined,
  }
}

/** A call as `collet calls show` has it. */
export type RenderedDetails = ReturnType<typeof renderDetails>

interface CallDetails {
  readonly call: CallRecord
  readonly steps: readonly CallRecord[]
  /** Of the call and of its steps, by record. */
  readonly timelines: Timelines
  readonly journal: readonly JournalGroup[]
  /** The newest approval of the call; absent for those who may not see approvals. */
  readonly approval?: ApprovalRecord | undefined
  /** `hidden`: who asks lacks the scope. `unasked`: who asks has it, and did not want to look. */
  readonly input: CallInput | 'hidden' | 'unasked'
}

export function renderDetails({ call, steps, timelines, journal, approval, input }: CallDetails) {
  const { outcome, late } = call
  return {
    ...renderCall(call),
    definition_hash: call.definitionHash,
    session_id: call.sessionId ?? null,
    root: call.root ?? null,
    waits_for: call.waitsFor ?? null,
    timeline: renderTimeline(call, timelines),
    steps: steps.map((step) => ({ ...renderCall(step), timeline: renderTimeline(step, timelines) })),
    journal: journal.map(renderGroup),
    approval: approval === undefined ? null : { id: approval.id, decisions: renderDecisions(approval) },
    contents: contentsOf(call, input),
    ...(typeof input === 'string'
      ? {}
      : {
          input: parsed(input.json),
          ...(outcome === undefined ? {} : { outcome: renderOutcome(outcome) }),
          ...(late === undefined ? {} : { late_outcome: renderOutcome(late) }),
        }),
  }
}

/** Who decided, by name: a run has only opaque ids. */
function renderDecisions({ decisions }: ApprovalRecord) {
  return decisions.map(({ by, action, reason, atMs }) => ({
    by,
    action,
    reason: reason ?? null,
    at: new Date(atMs).toISOString(),
  }))
}

/** Whether input and outcome are there, and why not. */
function contentsOf(
  { expired }: CallRecord,
  input: CallDetails['input'],
): 'shown' | 'hidden' | 'unasked' | 'gone' {
  if (input === 'hidden' || (input === 'unasked' && !expired)) return input
  return typeof input === 'string' || expired ? 'gone' : 'shown'
}

function renderOutcome(outcome: Outcome): JsonObject {
  if (outcome.ok) return { ok: true, value: parsed(outcome.valueJson) }
  const { code, message, canRetry, developerMessage, effect } = outcome.error
  return {
    ok: false,
    error: {
      code,
      message,
      can_retry: canRetry,
      ...(developerMessage === undefined ? {} : { developer_message: developerMessage }),
      ...(effect === undefined ? {} : { effect }),
    },
  }
}

/** One commit of the journal, with what it says of the call. */
function renderGroup({ writer, group, link, atMs, events }: JournalGroup) {
  return { writer, group, link, at: new Date(atMs).toISOString(), events }
}

function parsed(json: string): JsonValue {
  return JSON.parse(json)
}

/** What names the call or its place is known already. */
const KNOWN: ReadonlySet<string> = new Set(['type', 'atMs', 'sequence', 'record', 'call', 'principal'])

export interface TimelineEntry {
  readonly at: string
  readonly event: string
  readonly facts: Readonly<Record<string, unknown>>
}

function renderTimeline({ record }: CallRecord, timelines: Timelines): readonly TimelineEntry[] {
  return (timelines.get(record) ?? []).map(renderEvent)
}

function renderEvent(event: RunEvent): TimelineEntry {
  const facts = Object.entries(event).filter(([name, value]) => !KNOWN.has(name) && value !== undefined)
  return { at: new Date(event.atMs).toISOString(), event: event.type, facts: Object.fromEntries(facts) }
}

const EVENTS_AT_ONCE = 1_000
/** A run may hold the events of very many calls. */
const MAX_EVENTS = 10_000

type Timelines = ReadonlyMap<string, readonly RunEvent[]>

/** What its run tells of a call and of its steps; of one without a run of its own, or in one that is too long, what its record does. */
export async function timelinesOf(
  store: Pick<Store, 'readRun'>,
  call: CallRecord,
  steps: readonly CallRecord[],
): Promise<Timelines> {
  const { tenant, run } = call
  const told = new Map<string, RunEvent[]>()
  for (let after = -1; run !== undefined && after < MAX_EVENTS; ) {
    const events = await store.readRun({ tenant, run }, after, EVENTS_AT_ONCE)
    for (const event of events) {
      if (!('record' in event)) continue
      const own = told.get(event.record) ?? []
      told.set(event.record, own)
      own.push(event)
    }
    const last = events.at(-1)
    if (last === undefined || events.length < EVENTS_AT_ONCE) break
    after = last.sequence
  }
  return new Map([call, ...steps].map((one) => [one.record, told.get(one.record) ?? ownRunEvents(one)]))
}
