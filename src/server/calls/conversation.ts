/**
 * Serves the calls of one run, session or trace together, with their steps and with the times during which they waited for a decision. An
 * operator of one tenant sees only calls of that tenant.
 */
import { type Conversation, SHOW_CONVERSATION } from '#admin-api/call-views'
import type { Clock } from '#kernel/base/clock'
import { recordOfRunId } from '#kernel/base/ids'
import type { CallRecord } from '#kernel/call/call-record'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import { toCallFilter } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import type { CallFilter } from '#store/call-filter'
import type { CallWait } from '#store/calls/call-search'
import type { Store } from '#store/collet-store'
import { type CostOf, renderCall } from './call-rows.ts'
import { readUntil } from './find-calls.ts'

const MAX_CALLS = 2_000
const MAX_STEPS = 500
const DAY_MS = 86_400_000

interface ConversationRoutesOptions {
  readonly store: Pick<Store, 'list' | 'stepsOf' | 'waitsOf' | 'findByRecords'>
  readonly clock: Clock
  readonly costOf?: CostOf
}

export function createConversationRoutes(
  access: OperatorAccess,
  { store, clock, costOf }: ConversationRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, SHOW_CONVERSATION, async ({ principal, query }) => {
      const { at, ...wanted } = query
      const { search, ...filter } = toCallFilter(wanted, clock.nowMs())
      if (search === undefined) throw badRequest('Name the conversation: `run`, `session` or `trace`.')
      const atMs = at === undefined ? undefined : Date.parse(at)
      const span = atMs === undefined ? {} : { sinceMs: atMs - DAY_MS, untilMs: atMs + DAY_MS }
      const tenant = visibleTenant(principal) ?? filter.tenant
      const { calls, isWhole } = await readCalls(store, { ...filter, ...span, search, tenant }, clock)
      const whole = await withSteps(store, calls)
      const waits = Map.groupBy(await store.waitsOf(whole.map(({ record }) => record)), (wait) => wait.record)
      const shown = whole
        .toSorted((one, other) => one.createdAtMs - other.createdAtMs)
        .map((call) => renderPart(call, waits.get(call.record) ?? [], costOf))
      return { calls: shown, whole: isWhole }
    }),
  ]
}

/** A run of a single call is found by its id; other conversations are searched call by call. */
async function readCalls(
  store: ConversationRoutesOptions['store'],
  filter: Omit<CallFilter, 'limit'>,
  clock: Clock,
): Promise<{ readonly calls: readonly CallRecord[]; readonly isWhole: boolean }> {
  const record = recordOfRunId(filter.search?.runId ?? '')
  const own = record === undefined ? [] : await store.findByRecords([record])
  const visible = own.filter(({ tenant }) => filter.tenant === undefined || tenant === filter.tenant)
  if (visible.length > 0) return { calls: visible, isWhole: true }
  const calls: CallRecord[] = []
  const isWhole = await readUntil(clock, async (before) => {
    const page = await store.list({ ...filter, before, limit: MAX_CALLS - calls.length })
    calls.push(...page.calls)
    return calls.length < MAX_CALLS ? page.next : undefined
  })
  return { calls, isWhole: isWhole && calls.length < MAX_CALLS }
}

/** Adds the steps of workflows, which may belong to other runs or traces. */
async function withSteps(
  store: ConversationRoutesOptions['store'],
  calls: readonly CallRecord[],
): Promise<readonly CallRecord[]> {
  const all = new Map(calls.map((call) => [call.record, call]))
  const workflows = calls.filter(({ resumable }) => resumable)
  for (let workflow = workflows.shift(); workflow !== undefined; workflow = workflows.shift())
    for (const step of await store.stepsOf(workflow.record, MAX_STEPS)) {
      all.set(step.record, step)
      if (step.resumable && all.size < MAX_CALLS) workflows.push(step)
    }
  return [...all.values()]
}

function renderPart(
  call: CallRecord,
  waits: readonly CallWait[],
  costOf: CostOf | undefined,
): Conversation['calls'][number] {
  return {
    ...renderCall(call, costOf),
    root: call.root ?? null,
    waits: waits.map(({ approval, fromMs, untilMs }) => ({
      approval,
      from: timeOf(fromMs),
      until: timeOf(untilMs),
    })),
  }
}
