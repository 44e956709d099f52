import { StoreError } from '#kernel/base/errors'
import type { StatementRequest } from '#kernel/store/engine'
import type { RowGuard } from '#kernel/store/row-mac'
import { answerAll, isPresumable, presumedStatements } from './batches.ts'
import { COMMIT, type Connection, ROLLBACK, type Statement } from './connection.ts'

/**
 * A transaction with few round trips, each of which costs as much as the work of many rows. Its beginning is sent with its first
 * statement. A statement whose answer is nearly always the same (the key of a new call is free, an ending run is still this
 * writer's) is answered at once and sent later, at the latest with the commit, in a form that fails if the answer was different.
 * If it fails, the whole transaction is undone, and the engine repeats the changes with `wait`.
 */

/** Whether answers that are nearly always the same are presumed until the commit. */
export type Trust = 'presume' | 'wait'

export class Transaction {
  readonly connection: Connection
  readonly #guard: RowGuard
  readonly #trust: Trust
  #opening: readonly Statement[]
  #presumed: StatementRequest[] = []
  #isDoubtful = false

  constructor(connection: Connection, guard: RowGuard, opening: readonly Statement[], trust: Trust = 'wait') {
    this.connection = connection
    this.#guard = guard
    this.#opening = opening
    this.#trust = trust
  }

  /** Whether a failure may come from a wrong presumption. */
  get isDoubtful(): boolean {
    return this.#isDoubtful
  }

  /** Sends the beginning before the first statement, for callers that need to know when the transaction started. */
  async open(): Promise<void> {
    await this.connection.send(this.#unsent())
  }

  async answer(requests: readonly StatementRequest[]): Promise<void> {
    const unanswered =
      this.#trust === 'wait' ? requests : requests.filter((request) => !this.#presumes(request))
    if (unanswered.length === 0) return
    await answerAll(this.connection, unanswered, 'change', this.#unsent())
    for (const request of unanswered) this.#guard.check(request)
  }

  /** A `COMMIT` after a failure succeeds as `ROLLBACK`, so the command is checked. */
  async commit(last: readonly Statement[]): Promise<void> {
    const results = await this.connection.send([...this.#unsent(), ...last, COMMIT])
    if (results.at(-1)?.command !== 'COMMIT') throw new StoreError('not_written', 'the commit was undone')
  }

  async undo(): Promise<void> {
    if (!this.connection.isLost) await this.connection.one(ROLLBACK)
  }

  #presumes(request: StatementRequest): boolean {
    if (!isPresumable(request)) return false
    request.answer = 1
    this.#presumed.push(request)
    this.#isDoubtful = true
    return true
  }

  /** Returns unsent statements in the order of the steps, because later steps may depend on earlier steps. */
  #unsent(): readonly Statement[] {
    const unsent = [...this.#opening, ...presumedStatements(this.#presumed)]
    this.#opening = []
    this.#presumed = []
    return unsent
  }
}
