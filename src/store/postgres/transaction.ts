import { StoreError } from '#kernel/base/errors'
import type { Ask } from '#kernel/store/engine'
import type { RowGuard } from '#kernel/store/row-mac'
import { answerAll, isPresumable, presumedStatements } from './batches.ts'
import type { Connection, Statement } from './connection.ts'

const COMMIT = { text: 'COMMIT' }
const ROLLBACK = { text: 'ROLLBACK' }

/** Whether what nearly always happens is taken for granted until the commit. */
export type Trust = 'presume' | 'ask'

/**
 * A transaction that says as little as it can: a round trip costs as much as the work of many rows. What begins it goes out with
 * its first statement. A statement whose answer is nearly always the same (a new call's key is free, a run that ends is still
 * ours) is answered at once and sent with the next one, at the latest with the commit, in a form that fails when the answer was
 * another: then nothing of the transaction happened, and the same changes are made again with `ask`.
 */
export class Transaction {
  readonly connection: Connection
  readonly #guard: RowGuard
  readonly #trust: Trust
  #opening: readonly Statement[]
  #presumed: Ask[] = []
  #isDoubtful = false

  constructor(connection: Connection, guard: RowGuard, opening: readonly Statement[], trust: Trust = 'ask') {
    this.connection = connection
    this.#guard = guard
    this.#opening = opening
    this.#trust = trust
  }

  /** Whether a failure may come from something that was presumed. */
  get isDoubtful(): boolean {
    return this.#isDoubtful
  }

  /** Begins before anything is asked, for whoever must know when. */
  async open(): Promise<void> {
    await this.connection.send(this.#unsent())
  }

  async answer(asks: readonly Ask[]): Promise<void> {
    const open = this.#trust === 'ask' ? asks : asks.filter((ask) => !this.#presumes(ask))
    if (open.length === 0) return
    await answerAll(this.connection, open, 'change', this.#unsent())
    for (const ask of open) this.#guard.check(ask)
  }

  /** Ends it, or says that there is nothing to end: a `COMMIT` after a failure succeeds as `ROLLBACK`. */
  async commit(last: readonly Statement[]): Promise<void> {
    const results = await this.connection.send([...this.#unsent(), ...last, COMMIT])
    if (results.at(-1)?.command !== 'COMMIT') throw new StoreError('not_written', 'the commit was undone')
  }

  async undo(): Promise<void> {
    if (!this.connection.isLost) await this.connection.one(ROLLBACK)
  }

  #presumes(ask: Ask): boolean {
    if (!isPresumable(ask)) return false
    ask.answer = 1
    this.#presumed.push(ask)
    this.#isDoubtful = true
    return true
  }

  /** In the order of the steps: what comes later may rely on it. */
  #unsent(): readonly Statement[] {
    const unsent = [...this.#opening, ...presumedStatements(this.#presumed)]
    this.#opening = []
    this.#presumed = []
    return unsent
  }
}
