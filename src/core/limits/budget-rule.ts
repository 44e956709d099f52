import type { Spending } from '#core/ports/budget-store'
import type { Principal } from '#core/principal'
import { perUnit } from './spending.ts'

/** What everybody it is for may spend in each window. */
export interface BudgetRule {
  readonly for: 'principal' | 'tenant'
  /** Ids of principals or names of tenants; `undefined` = each. */
  readonly of: ReadonlySet<string> | undefined
  readonly windowMs: number
  /** `NO_LIMIT` in units that do not count. */
  readonly limit: Spending
}

/** A budget that counts for one principal's calls. */
export interface Budget {
  readonly for: BudgetRule['for']
  readonly windowMs: number
  readonly limit: Spending
}

/** Rules with the same window are one budget: the tighter limit counts, and what is spent is counted once. */
export function budgetsFor({ tenant, id }: Principal, rules: readonly BudgetRule[]): readonly Budget[] {
  const found = new Map<string, Budget>()
  for (const rule of rules) {
    const isMeant = rule.of === undefined || rule.of.has(rule.for === 'principal' ? id : tenant)
    if (!isMeant) continue
    const key = `${rule.for} ${rule.windowMs}`
    const other = found.get(key)
    const limit =
      other === undefined ? rule.limit : perUnit((unit) => Math.min(rule.limit[unit], other.limit[unit]))
    found.set(key, { for: rule.for, windowMs: rule.windowMs, limit })
  }
  return [...found.values()]
}
