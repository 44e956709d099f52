/**
 * Serves `GET /admin/overview`: calls, errors and run times over a time range, and what needs attention now. The console and
 * `collet overview` use it.
 * Invariant: an operator of one tenant sees only this tenant, and parts that need a further scope are null without it.
 */
import { type Overview, READ_OVERVIEW } from '#admin-api/overview'
import type { Budget } from '#admin-api/usage'
import type { Clock } from '#kernel/base/clock'
import { defined } from '#kernel/base/json'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import { isOperator, type OperatorAccess, visibleTenant } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import { ERRORS, parseTime } from '#server/admin/call-filter'
import { quantile, renderBudget } from '#server/admin/usage'
import type { ServerRoute } from '#server/http/router'
import type { SourceView } from '#sources/kit/sources'
import type { BudgetRule } from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import { ROLLUP_STEPS, type RollupBucket, type RollupQuery } from '#store/rollups/rollups'

interface OverviewRoutesOptions {
  readonly store: Pick<Store, 'rollups' | 'openBudgets' | 'countAmbiguous' | 'approvals'>
  readonly clock: Clock
  /** The budgets in the configuration; `undefined` if the configuration is not known. */
  budgets(): readonly BudgetRule[] | undefined
  /** Absent if only the store is open. */
  sources?(): readonly SourceView[]
}

export function createOverviewRoutes(
  access: OperatorAccess,
  options: OverviewRoutesOptions,
): readonly ServerRoute[] {
  const { store, clock } = options
  return [
    serveOperation(access, READ_OVERVIEW, async ({ principal, query }) => {
      const tenant = visibleTenant(principal) ?? query.tenant
      const nowMs = clock.nowMs()
      // The counts of this process are at most two seconds old otherwise, which a person who just made a call would notice.
      await store.rollups.flush()
      return {
        ...(await readCalls(store, { ...readRange(query, nowMs), tenant })),
        attention: await readAttention(options, access, { principal, tenant, nowMs }),
      }
    }),
  ]
}

const DEFAULT_RANGE = '24h'
const MINUTE_MS = 60_000
const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: 3_600_000, d: 86_400_000 }
/** A chart with more intervals cannot be read. */
const MAX_INTERVALS = 250
const MAX_TOP = 10
/** Callers are ranked by calls and rejected requests together, so more of each are read than are shown. */
const MAX_RANKED = 500
const MAX_BUDGETS = 1_000
const MAX_APPROVALS = 100
/** Share of a budget from which it needs attention. */
const NEARLY_USED = 0.8

type RangeQuery = Readonly<Partial<Record<'range' | 'since' | 'until', string | undefined>>>
type CountedRange = Required<Pick<RollupQuery, 'stepMs' | 'sinceMs' | 'untilMs'>>

/** The shortest intervals that are still kept for the whole range, and of which there are not too many. */
export function readRange({ range, since, until }: RangeQuery, nowMs: number): CountedRange {
  const untilMs = Math.min(parseTime(until) ?? nowMs, nowMs + MINUTE_MS)
  const fromMs = parseTime(since) ?? untilMs - lengthOf(range ?? DEFAULT_RANGE)
  if (fromMs >= untilMs) throw badRequest('since: expected a time before the end of the range.')
  const stepMs =
    ROLLUP_STEPS.find(
      (step) => (untilMs - fromMs) / step.stepMs <= MAX_INTERVALS && fromMs >= nowMs - step.keptMs,
    )?.stepMs ?? COARSEST
  return { stepMs, sinceMs: fromMs - (fromMs % stepMs), untilMs }
}

const COARSEST = ROLLUP_STEPS[2].stepMs

function lengthOf(range: string): number {
  return Number.parseInt(range, 10) * (UNIT_MS[range.at(-1) ?? ''] ?? 0)
}

/** Counts per interval, with the run times from which percentiles are made. */
interface Counted {
  calls: number
  errors: number
  rejected: number
  readonly times: Map<number, number>
}

async function readCalls(
  { rollups }: Pick<Store, 'rollups'>,
  range: CountedRange & Pick<RollupQuery, 'tenant'>,
): Promise<Omit<Overview, 'attention'>> {
  const { stepMs, sinceMs, untilMs } = range
  const [rows, tools, callers, rejected] = await Promise.all([
    rollups.series({ ...range, bucketMs: stepMs, kinds: ['state', 'time', 'code'] }),
    rollups.top({ ...range, kind: 'tool', by: 'errors', limit: MAX_TOP }),
    rollups.top({ ...range, kind: 'caller', by: 'calls', limit: MAX_RANKED }),
    rollups.top({ ...range, kind: 'rejected caller', by: 'calls', limit: MAX_RANKED }),
  ])
  const whole = newCounted()
  const buckets = Array.from({ length: Math.ceil((untilMs - sinceMs) / stepMs) }, newCounted)
  const [states, codes] = [new Map<string, number>(), new Map<string, number>()]
  for (const row of rows) {
    for (const counted of [whole, buckets[row.bucket]]) if (counted !== undefined) addRow(counted, row)
    if (row.kind === 'state') states.set(row.name, (states.get(row.name) ?? 0) + row.calls)
    if (row.kind === 'code') codes.set(row.name, (codes.get(row.name) ?? 0) + row.calls)
  }
  return {
    ...{ since: timeOf(sinceMs), until: timeOf(untilMs), step_seconds: stepMs / 1_000 },
    ...renderCounted(whole),
    states: Object.fromEntries(states),
    buckets: buckets.map((bucket, nth) => ({ at: timeOf(sinceMs + nth * stepMs), ...renderCounted(bucket) })),
    rejections: [...codes]
      .map(([code, requests]) => ({ code, requests }))
      .sort((one, other) => other.requests - one.requests),
    failing_tools: tools.map(({ name, calls, errors }) => ({ tool: name, calls, errors })),
    callers: rankCallers(callers, rejected),
  }
}

function newCounted(): Counted {
  return { calls: 0, errors: 0, rejected: 0, times: new Map() }
}

function addRow(counted: Counted, { kind, name, calls }: RollupBucket): void {
  if (kind === 'time') counted.times.set(Number(name), (counted.times.get(Number(name)) ?? 0) + calls)
  else if (kind === 'code') counted.rejected += calls
  else {
    counted.calls += calls
    if (ERRORS.some((state) => state === name)) counted.errors += calls
  }
}

function renderCounted({ times, ...counts }: Counted) {
  return { ...counts, p50_ms: quantile(times, 0.5), p95_ms: quantile(times, 0.95) }
}

type Top = Awaited<ReturnType<Store['rollups']['top']>>

/** A caller whose requests are all rejected has no calls, but must be seen. */
function rankCallers(callers: Top, rejected: Top): Overview['callers'] {
  const found = new Map<string, Overview['callers'][number]>()
  const add = (
    { tenant, name }: Top[number],
    counts: Pick<Counted, 'calls' | 'errors' | 'rejected'>,
  ): void => {
    const key = JSON.stringify([tenant, name])
    const { calls = 0, errors = 0, rejected: before = 0 } = found.get(key) ?? {}
    found.set(key, {
      ...{ tenant, principal: name, calls: calls + counts.calls, errors: errors + counts.errors },
      rejected: before + counts.rejected,
    })
  }
  for (const row of callers) add(row, { ...row, rejected: 0 })
  for (const row of rejected) add(row, { calls: 0, errors: 0, rejected: row.calls })
  const requests = ({ calls, rejected: refused }: Overview['callers'][number]): number => calls + refused
  return [...found.values()].sort((one, other) => requests(other) - requests(one)).slice(0, MAX_TOP)
}

interface Reader {
  readonly principal: Principal
  readonly tenant: string | undefined
  readonly nowMs: number
}

async function readAttention(
  { store, budgets, sources }: OverviewRoutesOptions,
  access: OperatorAccess,
  { principal, tenant, nowMs }: Reader,
): Promise<Overview['attention']> {
  const maySee = (scope: 'admin:pins' | 'admin:sources'): boolean =>
    (isOperator(principal) || principal.tenant === DEFAULT_TENANT) && access.hasScope(principal, scope)
  const seesApprovals = (['approvals:read', 'approvals:respond'] as const).some((scope) =>
    access.hasScope(principal, scope),
  )
  const known = sources?.()
  const [open, ambiguous, approvals] = await Promise.all([
    store.openBudgets(nowMs, tenant, MAX_BUDGETS),
    store.countAmbiguous(tenant),
    seesApprovals
      ? store.approvals.list(defined({ state: 'pending' as const, limit: MAX_APPROVALS, tenant }))
      : undefined,
  ])
  return {
    approvals: approvals?.length ?? null,
    ambiguous,
    held:
      known === undefined || !maySee('admin:pins')
        ? null
        : known.flatMap(({ key, waiting }) => (waiting === 0 ? [] : [{ source: key, definitions: waiting }])),
    sources: known === undefined || !maySee('admin:sources') ? null : known.flatMap(renderBroken),
    budgets: open
      .flatMap((budget) => nearlyUsed(renderBudget(budget, budgets())))
      .sort((one, other) => other.used / other.limit - one.used / one.limit),
  }
}

function renderBroken({ key, state, reason, sinceMs }: SourceView) {
  if (state !== 'down' && state !== 'degraded') return []
  return [{ key, state, reason: reason ?? null, since: timeOf(sinceMs) }]
}

function nearlyUsed({ units, ...budget }: Budget): Overview['attention']['budgets'] {
  return units.flatMap(({ unit, limit, used }) =>
    limit === null || used < limit * NEARLY_USED ? [] : [{ ...budget, unit, limit, used }],
  )
}
