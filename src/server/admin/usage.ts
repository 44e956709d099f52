/**
 * Serves usage by caller and tool, and the state of budgets. The start token sees every tenant, a credential with the scope
 * `admin:calls` sees its own. Usage is counted from recorded calls; the tool routes count with the same functions.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AnswerOf } from '#admin-api/operation'
import { type Budget, READ_BUDGETS, READ_USAGE } from '#admin-api/usage'
import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ServerRoute } from '#server/http/router'
import {
  type BudgetRule,
  budgetsFor,
  COST_PARTS,
  DEFAULT_COST,
  NO_LIMIT,
  UNITS,
} from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import type { OpenBudget } from '#store/limits'
import type { UsageQuery, UsageRow } from '#store/operator-views'
import { roundedMs } from '#store/rollups/call-counts'
import { type OperatorAccess, visibleTenant } from './access.ts'
import { serveOperation, timeOf } from './admin-route.ts'
import { ERRORS, parseTime } from './call-filter.ts'

const MAX_BUDGETS = 10_000
const MAX_PAGES = 200

interface UsageRoutesOptions {
  readonly store: Pick<Store, 'usage' | 'openBudgets' | 'rejections'>
  readonly clock: Clock
  /** Cost of one run of a tool, by its full id; `undefined` for a tool that is no longer served. */
  costOf(tool: string): number | undefined
  /** The budgets in the configuration; `undefined` if the configuration is not known. */
  budgets(): readonly BudgetRule[] | undefined
}

export function createUsageRoutes(
  access: OperatorAccess,
  options: UsageRoutesOptions,
): readonly ServerRoute[] {
  const { store, clock } = options
  return [
    serveOperation(access, READ_USAGE, async ({ principal, query }) => {
      const tenant = visibleTenant(principal) ?? query.tenant
      return await readUsage(options, {
        tenant,
        sinceMs: parseTime(query.since),
        untilMs: parseTime(query.until),
      })
    }),
    serveOperation(access, READ_BUDGETS, async ({ principal, query }) => {
      const tenant = visibleTenant(principal) ?? query.tenant
      const open = await store.openBudgets(clock.nowMs(), tenant, MAX_BUDGETS)
      const rules = options.budgets()
      return { budgets: open.map((budget) => renderBudget(budget, rules)) }
    }),
  ]
}

/** Usage by tenant, principal and tool; `whole` is false if older calls were left out. */
export async function readUsage(
  options: Pick<UsageRoutesOptions, 'costOf'> & {
    readonly store: Pick<Store, 'usage' | 'rejections'>
  },
  range: Pick<UsageQuery, 'tenant' | 'sinceMs' | 'untilMs'>,
): Promise<AnswerOf<typeof READ_USAGE>> {
  const { store } = options
  const groups = new Map<string, UsedGroup>()
  const whole = await readPages(
    (before) => store.usage({ ...range, before }),
    (row) => addRow(groups, row, options),
  )
  const counted = { ...range, sinceMs: range.sinceMs ?? 0, bucketMs: Number.MAX_SAFE_INTEGER }
  for (const row of await store.rejections.count(counted)) groupOf(groups, row).rejected += row.requests
  const usage = [...groups.values()].map(({ milliseconds, durations, ...group }) => {
    return { ...group, seconds: milliseconds / 1_000, durations: [...durations] }
  })
  return { usage, whole }
}

/**
 * Passes the rows of every page to `add`, newest calls first. Returns `false` if there are more than `MAX_PAGES`, each of about ten
 * thousand calls; the older calls are then left out.
 */
export async function readPages<Row>(
  readPage: (before?: number) => MaybePromise<{ readonly rows: readonly Row[]; readonly next?: number }>,
  add: (row: Row) => void,
): Promise<boolean> {
  let before: number | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const { rows, next } = await readPage(before)
    for (const row of rows) add(row)
    if (next === undefined) return true
    before = next
    // SQLite runs in this thread, so other calls get a turn between two pages.
    await nextTurn()
  }
  return false
}

/** The duration in milliseconds within which `share` of the calls ended; `durations` are pairs of a duration and its number of calls. */
export function quantile(durations: Iterable<readonly [number, number]>, share: number): number | null {
  const sorted = [...durations].sort(([left], [right]) => left - right)
  const wanted = share * sorted.reduce((total, [, calls]) => total + calls, 0)
  let counted = 0
  for (const [ms, calls] of sorted) {
    counted += calls
    if (counted >= wanted) return ms
  }
  return null
}

/** Whether a call counts as an error; a withdrawn call does not. */
export function isError({ state, isWithdrawn }: Pick<UsageRow, 'state' | 'isWithdrawn'>): boolean {
  return !isWithdrawn && ERRORS.includes(state)
}

type UsedGroup = ReturnType<typeof newGroup>

function newGroup({ tenant, principal, tool }: Pick<UsageRow, 'tenant' | 'principal' | 'tool'>) {
  const counts = { calls: 0, errors: 0, rejected: 0, milliseconds: 0, cost: 0 }
  return { tenant, principal, tool, ...counts, durations: new Map<number, number>() }
}

function addRow(
  groups: Map<string, UsedGroup>,
  row: UsageRow,
  { costOf }: Pick<UsageRoutesOptions, 'costOf'>,
): void {
  const { tool, tookMs, calls } = row
  const group = groupOf(groups, row)
  group.calls += calls
  if (isError(row)) group.errors += calls
  group.cost += calls * (costOf(tool) ?? DEFAULT_COST)
  if (tookMs === undefined) return
  group.milliseconds += calls * Math.max(0, tookMs)
  const rounded = roundedMs(tookMs)
  group.durations.set(rounded, (group.durations.get(rounded) ?? 0) + calls)
}

function groupOf(groups: Map<string, UsedGroup>, row: Parameters<typeof newGroup>[0]): UsedGroup {
  const key = JSON.stringify([row.tenant, row.principal, row.tool])
  const group = groups.get(key) ?? newGroup(row)
  groups.set(key, group)
  return group
}

export function renderBudget({ window, used }: OpenBudget, rules: readonly BudgetRule[] | undefined): Budget {
  const { tenant, principal, lengthMs, startMs } = window
  const kind = principal === undefined ? 'tenant' : 'principal'
  const limit = budgetsFor({ tenant, id: principal ?? '' }, rules ?? []).find(
    (budget) => budget.for === kind && budget.windowMs === lengthMs,
  )?.limit
  const units = UNITS.map((unit) => {
    const { parts } = SHOWN_UNITS[unit]
    const max = limit === undefined || limit[unit] >= NO_LIMIT ? undefined : limit[unit]
    return {
      unit: SHOWN_UNITS[unit].unit,
      limit: max === undefined ? null : max / parts,
      used: used[unit] / parts,
      left: max === undefined ? null : Math.max(0, max - used[unit]) / parts,
    }
  })
  return {
    ...{ tenant, principal: principal ?? null, window_seconds: lengthMs / 1_000 },
    resets_at: timeOf(startMs + lengthMs),
    units: units.filter(({ limit: max, used: spent }) => max !== null || spent > 0),
  }
}

/** The budgets that calls of a principal count against, with the limit of each window. */
export function budgetTerms(principal: Pick<Principal, 'tenant' | 'id'>, rules: readonly BudgetRule[]) {
  return budgetsFor(principal, rules).map(({ for: kind, windowMs, limit }) => ({
    for: kind,
    window_seconds: windowMs / 1_000,
    limits: Object.fromEntries(
      UNITS.flatMap((unit) =>
        limit[unit] >= NO_LIMIT ? [] : [[SHOWN_UNITS[unit].unit, limit[unit] / SHOWN_UNITS[unit].parts]],
      ),
    ),
  }))
}

/** Budgets count fractions of the units that people see: `parts` fractions make one unit. */
export const SHOWN_UNITS = {
  calls: { unit: 'calls', parts: 1 },
  milliseconds: { unit: 'seconds', parts: 1_000 },
  cost: { unit: 'cost', parts: COST_PARTS },
} as const satisfies Record<(typeof UNITS)[number], object>
