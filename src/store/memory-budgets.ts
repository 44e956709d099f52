import { grantOf, NOTHING, perUnit } from '#core/limits/budgets'
import type { BudgetStore, BudgetWindow, Spending } from '#core/ports/protocol-store'
import { BUDGETS_KEPT_MS } from '#store/sql/budget-window'

interface Handed {
  readonly endsAtMs: number
  used: Spending
}

/** The memory store's budgets: they hold for one process, as everything there does. */
export class MemoryBudgets implements BudgetStore {
  readonly #windows = new Map<string, Handed>()

  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Spending {
    const handed = this.#handed(window)
    const granted = grantOf(wanted, limit, handed.used)
    handed.used = perUnit((unit) => handed.used[unit] + granted[unit])
    return granted
  }

  giveBack(window: BudgetWindow, unspent: Spending): void {
    const handed = this.#handed(window)
    handed.used = perUnit((unit) => Math.max(0, handed.used[unit] - unspent[unit]))
  }

  read(window: BudgetWindow): Spending {
    return this.#windows.get(keyOf(window))?.used ?? NOTHING
  }

  forget(nowMs: number): void {
    for (const [key, { endsAtMs }] of this.#windows) {
      if (endsAtMs < nowMs - BUDGETS_KEPT_MS) this.#windows.delete(key)
    }
  }

  #handed(window: BudgetWindow): Handed {
    const key = keyOf(window)
    const known = this.#windows.get(key)
    if (known !== undefined) return known
    const handed = { endsAtMs: window.startMs + window.lengthMs, used: NOTHING }
    this.#windows.set(key, handed)
    return handed
  }
}

function keyOf({ tenant, principal, lengthMs, startMs }: BudgetWindow): string {
  return JSON.stringify([tenant, principal ?? null, lengthMs, startMs])
}
