import type { BudgetWindow } from '#core/ports/protocol-store'

/** How long a window that is over is kept: clocks of several machines differ, by less than this. */
export const BUDGETS_KEPT_MS = 86_400_000

/** No principal's id is empty. */
const WHOLE_TENANT = ''

/** The columns that name a window, in the order of every query. */
export function windowColumns(window: BudgetWindow): readonly [string, string, number, number] {
  const { tenant, principal = WHOLE_TENANT, lengthMs, startMs } = window
  return [tenant, principal, lengthMs, startMs + lengthMs]
}
