/**
 * Lists, counts, shows and settles recorded calls over HTTP. The start token gives access to every tenant, a scope only to the tenant of its
 * credential. `admin:calls` shows events; `calls:read` also shows input and outcome, and each such read is journaled first; `calls:settle`
 * settles calls.
 */
import {
  type CallDetails,
  type CallOutcome,
  COUNT_ALL_CALLS,
  LIST_ALL_CALLS,
  MAX_RECORDS,
  SETTLE_CALL,
  SHOW_CALL,
  type TimelineEntry,
} from '#admin-api/calls'
import type { ApprovalRecord } from '#kernel/approval/approval'
import type { Clock } from '#kernel/base/clock'
import type { ToolError } from '#kernel/base/errors'
import { defined, type JsonValue } from '#kernel/base/json'
import type { CallError, CallState, Outcome } from '#kernel/call/call'
import type { CallPage, CallRecord } from '#kernel/call/call-record'
import type { JournalGroup } from '#kernel/journal/events'
import { ownRunEvents, type RunEvent } from '#kernel/run/events'
import { type CostOf, renderCall, summaryOf } from '#server/calls/call-rows'
import { findCalls, type IdLookup } from '#server/calls/find-calls'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { tallyRejections } from '#server/overview/rejected-requests'
import type { TallyQuery } from '#store/call-filter'
import type { LogLine } from '#store/calls/call-logs'
import type { Store } from '#store/collet-store'
import type { CallInput } from '#store/operator-views'
import { type OperatorAccess, visibleTenant } from './access.ts'
import { badRequest, serveOperation, timeOf } from './admin-route.ts'
import { renderDecisions } from './approvals.ts'
import { type BaseOf, REJECTED, toCallFilter } from './call-filter.ts'
import { readPages } from './usage.ts'

const MAX_STEPS = 200

type AdminCalls = Pick<
  Store,
  | 'list'
  | 'tally'
  | 'findByRecord'
  | 'findByPrefix'
  | 'stepsOf'
  | 'journalOf'
  | 'readInput'
  | 'readRun'
  | 'settle'
  | 'isWriterAlive'
  | 'rejections'
  | 'callLogs'
  | 'findByRecords'
  | 'readInputs'
  | keyof IdLookup
> & { readonly approvals: Pick<Store['approvals'], 'findFor'> }

interface CallRoutesOptions {
  readonly calls: AdminCalls
  readonly clock: Clock
  /** Checks the value with which an operator settles a call; throws if the tool could not have returned it. */
  checkValue?(tool: string, value: JsonValue): Promise<void>
  readonly baseOf?: BaseOf
  /** Writes what this server collected of the logs of calls; absent outside of a server. */
  flushLogs?(): Promise<void>
  /** Cost of one run of a tool, by its full id; absent if the tools are not known here. */
  readonly costOf?: CostOf
}

export function createCallRoutes(
  access: OperatorAccess,
  { calls, clock, checkValue, baseOf, costOf, flushLogs }: CallRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_ALL_CALLS, async ({ principal, query }) => {
      const { record, records, before, limit, inputs } = query
      const filter = toCallFilter(query, clock.nowMs(), baseOf)
      const tenant = visibleTenant(principal)
      if (inputs === 'yes') access.requireScope(principal, 'calls:read')
      const found: CallPage =
        records !== undefined
          ? { calls: await calls.findByRecords(readRecords(records)) }
          : record !== undefined
            ? { calls: await calls.findByPrefix(record, limit) }
            : await findCalls(calls, { ...filter, before, limit, tenant: tenant ?? filter.tenant }, clock)
      const visible = found.calls.filter((call) => isWithin(tenant, call))
      const shown = visible.map((call) => renderCall(call, costOf))
      const next = found.next ?? null
      if (inputs === 'no') return { calls: shown, next }
      const look = { records: visible.map((call) => call.record), by: principal.id, atMs: clock.nowMs() }
      const texts = await calls.readInputs(look)
      const withInputs = shown.map((call) => ({ ...call, input_summary: summaryOf(texts.get(call.record)) }))
      return { calls: withInputs, next }
    }),
    serveOperation(access, COUNT_ALL_CALLS, async ({ principal, query: { buckets, ...query } }) => {
      const nowMs = clock.nowMs()
      const filter = toCallFilter(query, nowMs, baseOf)
      const tenant = visibleTenant(principal) ?? filter.tenant
      const untilMs = filter.untilMs ?? nowMs
      const sinceMs = filter.sinceMs ?? untilMs - DEFAULT_SPAN_MS
      if (sinceMs >= untilMs) throw badRequest('since: expected a time before `until`.')
      const bucketMs = roundSpan((untilMs - sinceMs) / buckets)
      // The origin is aligned, so that a call stays in its bucket when the same span is requested again.
      const originMs = Math.floor(sinceMs / bucketMs) * bucketMs
      const range = { ...filter, tenant, sinceMs, bucketMs, originMs }
      const tally = await tallyAll(calls, range)
      const countsRejected = (query.state ?? REJECTED).split(',').includes(REJECTED)
      const rejected = countsRejected ? await tallyRejections(calls.rejections, range) : NONE_REJECTED
      const filled = new Set([...tally.buckets.keys(), ...rejected.buckets.keys()])
      return {
        since: timeOf(sinceMs),
        until: timeOf(untilMs),
        bucket_ms: bucketMs,
        states: tally.states,
        rejected: rejected.codes,
        buckets: [...filled]
          .sort((left, right) => left - right)
          .map((bucket) => ({
            at: timeOf(originMs + bucket * bucketMs),
            states: tally.buckets.get(bucket) ?? {},
            rejected: rejected.buckets.get(bucket) ?? 0,
          })),
        whole: tally.whole,
      }
    }),
    serveOperation(access, SHOW_CALL, async ({ principal, id: record, query }) => {
      const call = await findCall(calls, record, visibleTenant(principal))
      const look = { record, by: principal.id, atMs: clock.nowMs() }
      const mayRead = access.hasScope(principal, 'calls:read')
      const input = !mayRead ? 'hidden' : query.contents === 'no' ? 'unasked' : await calls.readInput(look)
      if (typeof input !== 'string') await flushLogs?.()
      const log = typeof input === 'string' ? undefined : await calls.callLogs.read(record)
      const steps = await calls.stepsOf(record, MAX_STEPS)
      const timelines = await timelinesOf(calls, call, steps)
      const journal = await calls.journalOf(record)
      const seesApprovals =
        access.hasScope(principal, 'approvals:read') || access.hasScope(principal, 'approvals:respond')
      const approval = seesApprovals ? await calls.approvals.findFor(call) : undefined
      return { call: renderDetails({ call, steps, timelines, journal, approval, input, log }, costOf) }
    }),
    serveOperation(access, SETTLE_CALL, async ({ principal, id: record, body: { as, why, value } }) => {
      const call = await findCall(calls, record, visibleTenant(principal))
      if (call.state !== 'ambiguous') throw await notAmbiguous(calls, call)
      if (value !== undefined) await checkValue?.(call.tool, value)
      const valueJson = value === undefined ? undefined : JSON.stringify(value)
      const error = as === 'failed' ? SETTLED_AS_FAILED : undefined
      const settlement = { record, as, why, who: principal.id, atMs: clock.nowMs(), valueJson, error }
      const result = await calls.settle(settlement)
      if (result === 'not_found') throw notFound()
      if (result === 'not_ambiguous') throw await notAmbiguous(calls)
      return { record, settled_as: as }
    }),
  ]
}

function readRecords(text: string): readonly string[] {
  const records = text.split(',')
  if (records.length <= MAX_RECORDS) return records
  throw badRequest(`records: expected at most ${MAX_RECORDS} records.`)
}

async function findCall(calls: AdminCalls, record: string, tenant: string | undefined): Promise<CallRecord> {
  const call = await calls.findByRecord(record)
  if (call === undefined || !isWithin(tenant, call)) throw notFound()
  return call
}

const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000]
const ROUND_SPANS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_MS),
]

/** Returns the smallest round span of at least `minMs`: seconds, minutes or hours that divide a day, or days. */
function roundSpan(minMs: number): number {
  return ROUND_SPANS_MS.find((spanMs) => spanMs >= minMs) ?? Math.ceil(minMs / DAY_MS) * DAY_MS
}

const DEFAULT_SPAN_MS = 30 * 60_000

async function tallyAll(calls: AdminCalls, query: TallyQuery) {
  const states: Partial<Record<CallState, number>> = {}
  const buckets = new Map<number, Partial<Record<CallState, number>>>()
  const whole = await readPages(
    (before) => calls.tally({ ...query, before }),
    ({ state, bucket, calls: count }) => {
      const inBucket = buckets.get(bucket) ?? {}
      buckets.set(bucket, inBucket)
      for (const tally of [states, inBucket]) tally[state] = (tally[state] ?? 0) + count
    },
  )
  return { states, buckets, whole }
}

const NONE_REJECTED = { codes: {}, buckets: new Map<number, number>() }

function isWithin(tenant: string | undefined, call: CallRecord): boolean {
  return tenant === undefined || call.tenant === tenant
}

function notFound(): ToolError {
  return httpFault(
    404,
    'There is no call with this record id. "collet calls" and GET /admin/calls list them.',
  )
}

/** A running call whose process is gone becomes ambiguous only when the next server recovers it (rule 8). */
async function notAmbiguous(calls: AdminCalls, call?: CallRecord): Promise<ToolError> {
  if (call?.state !== 'running')
    return badRequest(
      'Only an ambiguous call can be settled. This call is not ambiguous, or has already been settled.',
    )
  return (await calls.isWriterAlive(call.writer))
    ? badRequest('The call is still running. "collet calls cancel" asks its server to stop it.')
    : badRequest(
        'The process that ran the call is gone. Start the server once to recover the call; then settle it if it is ambiguous.',
      )
}

const SETTLED_AS_FAILED: CallError = {
  code: 'tool_failed',
  message: 'The call was interrupted, and an operator found that it had failed.',
  canRetry: false,
}

interface CallFacts {
  readonly call: CallRecord
  readonly steps: readonly CallRecord[]
  readonly timelines: Timelines
  readonly journal: readonly JournalGroup[]
  /** The newest approval of the call; absent for readers who may not see approvals. */
  readonly approval?: ApprovalRecord | undefined
  /** `hidden`: the reader lacks the scope. `unasked`: the reader has the scope, but did not request contents. */
  readonly input: CallInput | 'hidden' | 'unasked'
  /** Only if the input is shown. */
  readonly log?: readonly LogLine[] | undefined
}

function renderDetails(facts: CallFacts, costOf: CostOf | undefined): CallDetails {
  const { call, steps, timelines, journal, approval, input, log = [] } = facts
  const { outcome, late } = call
  return {
    ...renderCall(call, costOf),
    definition_hash: call.definitionHash,
    root: call.root ?? null,
    waits_for: call.waitsFor ?? null,
    timeline: renderTimeline(call, timelines),
    steps: steps.map((step) => ({ ...renderCall(step, costOf), timeline: renderTimeline(step, timelines) })),
    journal: journal.map(({ writer, group, link, atMs, events }) => ({
      ...{ writer, group, link, at: timeOf(atMs) },
      events: events.map((event) => ({ ...event })),
    })),
    approval:
      approval === undefined ? null : { id: approval.id, decisions: renderDecisions(approval.decisions) },
    contents: contentsOf(call, input),
    ...(typeof input !== 'string' && {
      log: log.map(({ atMs, level, text }) => ({ at: timeOf(atMs), level, text })),
      input: JSON.parse(input.json),
      ...defined({ outcome: outcome && renderOutcome(outcome), late_outcome: late && renderOutcome(late) }),
    }),
  }
}

function contentsOf({ expired }: CallRecord, input: CallFacts['input']): CallDetails['contents'] {
  if (input === 'hidden' || (input === 'unasked' && !expired)) return input
  return typeof input === 'string' || expired ? 'gone' : 'shown'
}

function renderOutcome(outcome: Outcome): CallOutcome {
  if (outcome.ok) return { ok: true, value: JSON.parse(outcome.valueJson) }
  const { code, message, canRetry, developerMessage, effect } = outcome.error
  const more = defined({ developer_message: developerMessage, effect })
  return { ok: false, error: { code, message, can_retry: canRetry, ...more } }
}

/** Members of an event that a timeline does not repeat: they name the event, its call and its position. */
const REDUNDANT: ReadonlySet<string> = new Set(['type', 'atMs', 'sequence', 'record', 'call', 'principal'])

function renderTimeline({ record }: CallRecord, timelines: Timelines): readonly TimelineEntry[] {
  return (timelines.get(record) ?? []).map((event) => {
    const facts = Object.entries(event).filter(([name, value]) => !REDUNDANT.has(name) && value !== undefined)
    return { at: timeOf(event.atMs), event: event.type, facts: Object.fromEntries(facts) }
  })
}

const EVENTS_AT_ONCE = 1_000
/** Maximum number of events read from a run, which may contain very many calls. */
const MAX_EVENTS = 10_000

/** Events of a call and of its steps, by record. */
type Timelines = ReadonlyMap<string, readonly RunEvent[]>

/** Reads the events of a call and its steps from its run. A call without a run, or whose events come after the first `MAX_EVENTS`, gets the events that its record implies. */
async function timelinesOf(
  store: AdminCalls,
  call: CallRecord,
  steps: readonly CallRecord[],
): Promise<Timelines> {
  const { tenant, run } = call
  const all: RunEvent[] = []
  for (let after = -1; run !== undefined && after < MAX_EVENTS; ) {
    const events = await store.readRun({ tenant, run }, after, EVENTS_AT_ONCE)
    all.push(...events)
    const last = events.at(-1)
    if (last === undefined || events.length < EVENTS_AT_ONCE) break
    after = last.sequence
  }
  const byRecord = Map.groupBy(all, (event) => ('record' in event ? event.record : undefined))
  return new Map(
    [call, ...steps].map((each) => [each.record, byRecord.get(each.record) ?? ownRunEvents(each)]),
  )
}
