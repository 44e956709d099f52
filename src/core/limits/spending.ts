import type { Spending } from '#core/ports/budget-store'

/** More than any window can use, and exact in a double and in SQLite. */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER

export const UNITS = ['calls', 'milliseconds', 'cost'] as const satisfies readonly (keyof Spending)[]

export type Unit = (typeof UNITS)[number]

export const NOTHING: Spending = { calls: 0, milliseconds: 0, cost: 0 }

/** Each unit by itself. */
export function perUnit(amount: (unit: Unit) => number): Spending {
  return { calls: amount('calls'), milliseconds: amount('milliseconds'), cost: amount('cost') }
}

export function isNothing({ calls, milliseconds, cost }: Spending): boolean {
  return calls === 0 && milliseconds === 0 && cost === 0
}

/** What a window grants of a wish, when so much of it is handed out already. */
export function grantOf(wanted: Spending, limit: Spending, used: Spending): Spending {
  return perUnit((unit) => Math.max(0, Math.min(wanted[unit], limit[unit] - used[unit])))
}
