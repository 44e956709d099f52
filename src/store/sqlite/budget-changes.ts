import { grantOf, isNothing, NOTHING, perUnit } from '#core/limits/budgets'
import type { BudgetStore, BudgetWindow, Spending } from '#core/ports/protocol-store'
import { windowColumns } from '#store/sql/budget-window'
import type { GroupQueue } from '#store/sql/group-queue'
import { integer } from '#store/sql/row'
import type { Database } from './database.ts'

/** Budgets in the database that every process shares: each lease is one step of a transaction, with no journal event. */
export class SqliteBudgets implements BudgetStore {
  readonly #database: Database
  readonly #queue: GroupQueue

  constructor(database: Database, queue: GroupQueue) {
    this.#database = database
    this.#queue = queue
  }

  /** A lease that grants nothing writes nothing. */
  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Promise<Spending> {
    return this.#queue.submit('', () => {
      const granted = grantOf(wanted, limit, this.read(window))
      if (isNothing(granted)) return granted
      this.#database.run('openBudget', ...windowColumns(window))
      this.#add(window, granted)
      return granted
    })
  }

  giveBack(window: BudgetWindow, unspent: Spending): Promise<void> {
    return this.#queue.submit('', () =>
      this.#add(
        window,
        perUnit((unit) => 0 - unspent[unit]),
      ),
    )
  }

  read(window: BudgetWindow): Spending {
    const row = this.#database.get('findBudget', ...windowColumns(window))
    if (row === undefined) return NOTHING
    return {
      calls: integer(row, 'calls'),
      milliseconds: integer(row, 'milliseconds'),
      cost: integer(row, 'cost'),
    }
  }

  #add(window: BudgetWindow, { calls, milliseconds, cost }: Spending): void {
    this.#database.run('changeBudget', calls, milliseconds, cost, ...windowColumns(window))
  }
}
