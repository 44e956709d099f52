import { BUDGET_MARKS, type BudgetWindow, type Spending } from '#kernel/journal/notices'
import { type CommitGroup, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { integer, text } from '#kernel/store/rows'
import { grantOf, isNothing, NO_LIMIT, NOTHING, perUnit, UNITS } from '#stages/limits/budgets'
import type { TokenRate } from '#stages/limits/settings'

/**
 * Budgets and rates that processes share. The limits stage leases parts of budgets and takes tokens here.
 * A process leases part of a budget before its calls spend from it, so no more than the limit is ever spent; a part that a crash leaves
 * unspent is lost until its window ends. None of these changes is journaled.
 */

const { get, all, write } = statements<keyof typeof queries>()

/** Refill rate and capacity of a bucket, and the time of the request. */
interface SharedRate extends TokenRate {
  readonly nowMs: number
}

export interface OpenBudget {
  readonly window: BudgetWindow
  readonly used: Spending
}

export function openBudgets({ exclusive, read }: StoreContext) {
  return {
    /** Takes as much of `wanted` as `limit` allows, separately for each unit; returns the amounts taken. */
    lease: exclusive(() => '', leaseBudget),
    /** Returns unspent amounts. If it is unknown whether this succeeded, it must not be repeated, or amounts could count twice. */
    returnUnspent: exclusive(
      () => '',
      (_group: CommitGroup, window: BudgetWindow, unspent: Spending) =>
        addToBudget(
          window,
          perUnit((unit) => 0 - unspent[unit]),
        ),
    ),
    read: read(readBudget),
  }
}

/** A lease that grants nothing writes nothing. */
function* leaseBudget(
  group: CommitGroup,
  window: BudgetWindow,
  wanted: Spending,
  limit: Spending,
  atMs: number,
): Steps<Spending> {
  const before = yield* readBudget(window)
  const granted = grantOf(wanted, limit, before)
  const used = perUnit((unit) => before[unit] + granted[unit])
  // Notifies even if nothing is granted, because the limit may have been lowered below the amount already used.
  yield* notifyOfUse(group, window, { used, limit, atMs })
  if (isNothing(granted)) return granted
  yield* write('openBudget', ...windowColumns(window))
  yield* addToBudget(window, granted)
  return granted
}

/** Writes one notice per mark and window, for the unit that reached it first. */
function* notifyOfUse(
  group: CommitGroup,
  window: BudgetWindow,
  use: { readonly used: Spending; readonly limit: Spending; readonly atMs: number },
): Steps<void> {
  const { used, limit, atMs } = use
  for (const mark of BUDGET_MARKS) {
    const unit = UNITS.find((name) => limit[name] < NO_LIMIT && used[name] * 100 >= limit[name] * mark)
    if (unit === undefined) return
    yield* group.notify(
      { kind: `budget.${mark}`, window, unit, used: used[unit], limit: limit[unit] },
      { about: JSON.stringify(windowColumns(window)), atMs, untilMs: window.startMs + window.lengthMs },
    )
  }
}

function* readBudget(window: BudgetWindow): Steps<Spending> {
  const row = yield* get('findBudget', ...windowColumns(window))
  return row === undefined ? NOTHING : perUnit((unit) => integer(row, unit))
}

export function* listOpenBudgets(
  nowMs: number,
  tenant: string | undefined,
  limit: number,
): Steps<readonly OpenBudget[]> {
  const rows = yield* all('openBudgets', nowMs, tenant ?? null, tenant ?? null, limit)
  return rows.map((row) => {
    const [principal, lengthMs] = [text(row, 'principal'), integer(row, 'length_ms')]
    return {
      window: {
        tenant: text(row, 'tenant'),
        principal: principal === WHOLE_TENANT ? undefined : principal,
        lengthMs,
        startMs: integer(row, 'ends_at') - lengthMs,
      },
      used: perUnit((unit) => integer(row, unit)),
    }
  })
}

function* addToBudget(window: BudgetWindow, { calls, milliseconds, cost }: Spending): Steps<void> {
  yield* write('changeBudget', calls, milliseconds, cost, ...windowColumns(window))
}

export type BudgetStore = ReturnType<typeof openBudgets>

/** There is one row per bucket, with the time when it is full again. Keys are digests, because they name principals. */
export function openRates({ lane, keys }: StoreContext) {
  const identity = (bucket: string) => bucket
  const take = lane(identity, identity, takeTokens)
  return {
    /**
     * Takes up to `wanted` tokens, which must not exceed the bucket's capacity. A bucket without a row is full. `waitMs` is the
     * time until the next token if none was taken.
     */
    take: (bucket: string, wanted: number, rate: SharedRate) =>
      take(keys.digest(`rate ${bucket}`), wanted, rate),
  }
}

export type RateStore = ReturnType<typeof openRates>

const MICROSECONDS = 1_000

/** Every statement is conditional by itself: if two processes try to take the same tokens, only one gets them. */
function* takeTokens(
  _group: CommitGroup,
  bucket: string,
  wanted: number,
  { perMs, burst, nowMs }: SharedRate,
): Steps<{ readonly tokens: number; readonly waitMs: number }> {
  const now = Math.floor(nowMs * MICROSECONDS)
  /** Microseconds in which one token is refilled. */
  const perToken = Math.max(1, Math.round(MICROSECONDS / perMs))
  const emptyAt = now + Math.floor(burst * perToken)
  if (yield* takeIfLeft(bucket, now, wanted * perToken, emptyAt)) return { tokens: wanted, waitMs: 0 }
  const row = yield* get('findRate', bucket)
  const fullAt = row === undefined ? now : Math.max(now, integer(row, 'full_at'))
  const left = Math.min(wanted, Math.floor((emptyAt - fullAt) / perToken))
  const cost = left * perToken
  if (left > 0 && (yield* takeIfLeft(bucket, now, cost, emptyAt))) return { tokens: left, waitMs: 0 }
  return { tokens: 0, waitMs: Math.max(1, (fullAt + perToken - emptyAt) / MICROSECONDS) }
}

function* takeIfLeft(bucket: string, now: number, cost: number, emptyAt: number): Steps<boolean> {
  return (yield* write('takeTokens', bucket, now + cost, now, cost, now, cost, emptyAt)) > 0
}

/** How long the row of a full bucket is kept; a missing row means the same. Machine clocks differ by less than this. */
const FULL_KEPT_MS = 60_000

/** How long an ended window is kept. Machine clocks differ by less than this. */
export const BUDGETS_KEPT_MS = 86_400_000

/** Stands for the whole tenant, because a principal's id is never empty. */
const WHOLE_TENANT = ''

/** The columns that identify a window, in the order that every query uses. */
function windowColumns(window: BudgetWindow): readonly [string, string, number, number] {
  const { tenant, principal = WHOLE_TENANT, lengthMs, startMs } = window
  return [tenant, principal, lengthMs, startMs + lengthMs]
}

const WINDOW = 'tenant = ? AND principal = ? AND length_ms = ? AND ends_at = ?'

const queries = {
  openBudget: `INSERT INTO budgets (tenant, principal, length_ms, ends_at, calls, milliseconds, cost)
    VALUES (?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`,
  findBudget: `SELECT calls, milliseconds, cost FROM budgets WHERE ${WINDOW}`,
  openBudgets: `SELECT * FROM budgets WHERE ends_at > ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?)
    ORDER BY ends_at, tenant, principal LIMIT ?`,
  changeBudget: `UPDATE budgets SET calls = max(0, calls + ?), milliseconds = max(0, milliseconds + ?), cost = max(0, cost + ?)
    WHERE ${WINDOW}`,
  deleteBudgets: `DELETE FROM budgets WHERE (tenant, principal, length_ms, ends_at) IN
    (SELECT tenant, principal, length_ms, ends_at FROM budgets WHERE ends_at < ? ORDER BY ends_at LIMIT ?)`,
  takeTokens: `INSERT INTO rates (bucket, full_at) VALUES (?, ?) ON CONFLICT (bucket)
    DO UPDATE SET full_at = max(rates.full_at, ?) + ? WHERE max(rates.full_at, ?) + ? <= ?`,
  findRate: 'SELECT full_at FROM rates WHERE bucket = ?',
  deleteRates: `DELETE FROM rates WHERE bucket IN (SELECT bucket FROM rates WHERE full_at < ? ORDER BY full_at LIMIT ?)`,
} as const

/** In `budgets`, `principal` is empty for the whole tenant. In `rates`, times are in microseconds. */
const tables = `
CREATE TABLE budgets (
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  length_ms INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  milliseconds INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal, length_ms, ends_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX budgets_end ON budgets (ends_at);

CREATE TABLE rates (
  bucket TEXT NOT NULL PRIMARY KEY,
  full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX rates_full ON rates (full_at);
`

export const limitModule: StoreModule = {
  name: 'limits',
  ...{ tables, queries },
  *forget({ nowMs, limit }) {
    const budgets = yield* write('deleteBudgets', nowMs - BUDGETS_KEPT_MS, limit)
    const buckets = yield* write('deleteRates', (nowMs - FULL_KEPT_MS) * MICROSECONDS, limit)
    return Math.max(budgets, buckets)
  },
}
