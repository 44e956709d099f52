import { StoreError } from '#kernel/base/errors'
import {
  type CommitGroup,
  type Engine,
  type NotifyChange,
  type PendingChange,
  type StatementRequest,
  type Steps,
  type StoreWatcher,
  write,
} from '#kernel/store/engine'
import type { Chain, ChainHead } from '#kernel/store/journal'
import type { RowGuard } from '#kernel/store/row-mac'
import { integer } from '#kernel/store/rows'
import type { StoreOptions } from '#kernel/store/store'
import { answerAll, type Purpose, statementOf } from './batches.ts'
import {
  COMMIT,
  Connection,
  isBusy,
  isFenced,
  isStoreWide,
  Reconnector,
  type Result,
  ROLLBACK,
  type Statement,
  storeErrorOf,
} from './connection.ts'
import { LIST_PARTS, maintainPartitions, planParts, type Volumes } from './journal-parts.ts'
import { type AnswerAll, driveEach, driveLanes } from './lanes.ts'
import { Lease, monotonicMs, NOW_MS } from './lease.ts'
import { Notices } from './notices.ts'
import { Transaction, type Trust } from './transaction.ts'

/**
 * The PostgreSQL engine, for many processes and machines. The database is a round trip away, so the statements of all changes of a
 * group are sent together. Transactions see what others commit in the meantime, so a change that reads before it writes first
 * takes a lock that all processes share.
 */

interface PostgresEngineOptions extends Pick<StoreOptions, 'onCommit'> {
  readonly url: string
  /** Address of the database itself, if `url` is a pooler's. */
  readonly direct?: string | undefined
  readonly chain: Chain
  readonly volumes: Volumes
  readonly guard: RowGuard
  readonly leaseMs: number
  readonly wallMs: () => number
}

const MAX_SCAN_MS = 3_600_000

const BEGIN_SNAPSHOT = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'
/** A dropped partition disappears from existing snapshots too, so none is dropped while a snapshot is open. */
const KEEP_PARTS = { text: 'LOCK TABLE ONLY commit_groups IN ACCESS SHARE MODE' }
/** The lock that an exclusive change holds during its transaction: only one writer of the database at a time. */
const EXCLUSIVE_LOCK = { text: 'SELECT pg_advisory_xact_lock(20417)' }

export class PostgresEngine implements Engine {
  readonly #options: PostgresEngineOptions
  readonly #lease: Lease
  readonly #notices: Notices
  readonly #writes: Reconnector
  readonly #reads: Reconnector
  readonly #snapshots: Reconnector
  #reading: PendingRead[] = []
  #waitingReads = 0
  #snapshotTurn: Promise<unknown> = Promise.resolve()

  constructor(options: PostgresEngineOptions) {
    const { url, direct, leaseMs, wallMs } = options
    const own = direct ?? url
    const pooled = direct === undefined ? {} : { isPooled: true }
    this.#options = options
    this.#lease = new Lease({ url: own, leaseMs, wallMs })
    this.#notices = new Notices({
      url: own,
      send: (statement) => this.#readOne(statement),
      foreignVersion: () => this.#foreignVersion(),
    })
    this.#writes = new Reconnector(() => Connection.open(own))
    this.#reads = new Reconnector(() => Connection.open(url, pooled))
    this.#snapshots = new Reconnector(() => Connection.open(url, pooled))
  }

  get waitingReads(): number {
    return this.#waitingReads
  }

  async read<T>(steps: Steps<T>): Promise<T> {
    this.#waitingReads += 1
    try {
      return await driveEach(steps, async (requests) => {
        for (const request of requests) await this.#request(request)
      })
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    } finally {
      this.#waitingReads -= 1
    }
  }

  snapshot<T>(steps: Steps<T>): Promise<T> {
    return this.#inTurn(async (connection) => {
      try {
        await connection.send([...connection.begin(BEGIN_SNAPSHOT), KEEP_PARTS])
        return await driveEach(steps, this.#answerOn(connection, 'read'))
      } finally {
        await connection.one(COMMIT)
      }
    }, 'cannot read the database')
  }

  /** Uses a separate connection, so that short snapshots do not wait for it. */
  async walk<T>(steps: Steps<T>, signal: AbortSignal): Promise<T> {
    const { url, direct } = this.#options
    const connection = await Connection.open(url, direct === undefined ? {} : { isPooled: true })
    try {
      await connection.send([...connection.begin(BEGIN_SNAPSHOT), KEEP_PARTS])
      const answer = this.#answerOn(connection, 'read')
      return await driveEach(steps, async (requests) => {
        signal.throwIfAborted()
        await answer(requests)
      })
    } catch (error) {
      throw signal.aborted ? error : storeErrorOf(error, 'cannot read the database')
    } finally {
      await connection.close()
    }
  }

  async commit(changes: readonly PendingChange[]): Promise<'committed' | 'busy'> {
    const { chain, onCommit } = this.#options
    const startedMs = performance.now()
    try {
      const connection = await this.#writes.current()
      if (this.#lease.isLost) chain.beginAgain()
      if (!chain.isStarted) await this.#beginWriter(connection)
      await this.#apply(connection, changes)
    } catch (error) {
      // The same changes are tried again under a new writer; this writer's claims no longer belong to the process (rule 18).
      if (isFenced(error)) this.#lease.noteLost()
      if (isBusy(error) || isFenced(error)) return 'busy'
      throw isStoreWide(error) ? writeError(error) : error
    }
    onCommit?.(changes.length, performance.now() - startedMs)
    return 'committed'
  }

  obstacle(): string | undefined {
    // Without a lease, the next change starts a writer with a new one.
    const holdsLease = this.#options.chain.isStarted && this.#lease.isBegun && !this.#lease.isLost
    return holdsLease ? this.#lease.obstacle() : undefined
  }

  mayStart(writer: string): boolean {
    return writer === this.#options.chain.id && !this.#lease.isLost && this.#lease.obstacle() === undefined
  }

  async isAlive(writer: string): Promise<boolean> {
    if (writer === this.#options.chain.id) return !this.#lease.isLost
    if (this.#lease.isQuiet) return true
    const { rows } = await this.#readOne({ name: 'isAlive', text: IS_ALIVE, values: [writer] })
    return rows.length > 0
  }

  forgetWriter(): void {}

  async takeTurn(work: string, everyMs: number): Promise<boolean> {
    const values = [`turn:${work}`, everyMs]
    const { rows } = await this.#readOne({ name: 'takeTurn', text: TAKE_TURN, values })
    return rows.length > 0
  }

  watch(notify: NotifyChange): StoreWatcher {
    return this.#notices.watch(notify)
  }

  async maintainPartitions(nowMs: number, keptMs: number): Promise<number> {
    const { rows } = await this.#readOne(LIST_PARTS)
    const plan = planParts(rows, nowMs, keptMs)
    if (plan.make === undefined && plan.drop.length === 0) return 0
    // Uses a separate connection, because scanning a large partition takes long.
    const { url, direct, chain } = this.#options
    const connection = await Connection.open(direct ?? url, { maxSilenceMs: MAX_SCAN_MS })
    try {
      return await maintainPartitions(connection, plan, chain.keys)
    } finally {
      await connection.close()
    }
  }

  checkWritable(waitMs: number): Promise<void> {
    return this.#inTurn(async (connection) => {
      try {
        await connection.send([
          ...connection.begin(),
          { text: `SET LOCAL lock_timeout = ${Math.trunc(waitMs)}` },
          { text: WRITE_CHECK },
        ])
      } finally {
        await connection.one(ROLLBACK)
      }
    }, 'cannot write to the database')
  }

  /** Gives the lease back; calls that are still running then count as interrupted. */
  async close(): Promise<void> {
    await this.#snapshotTurn
    await Promise.all([this.#lease.close(), this.#notices.close()])
    if (this.#options.chain.isStarted) await this.#endLease()
    await Promise.all([this.#writes.close(), this.#reads.close(), this.#snapshots.close()])
    this.#options.chain.forgetWriter()
  }

  async #apply(connection: Connection, changes: readonly PendingChange[]): Promise<void> {
    const { chain, volumes } = this.#options
    if (volumes.isDue(chain.head.n + 1)) await volumes.take(connection, chain.head.n + 1)
    if (await this.#attempt(connection, changes, 'presume')) return
    await this.#attempt(connection, changes, 'wait')
  }

  /**
   * Runs one transaction: the results decide the events, and the events decide the link of the group. Returns whether it was committed; if
   * not, a presumed answer may have been wrong.
   */
  async #attempt(connection: Connection, changes: readonly PendingChange[], trust: Trust): Promise<boolean> {
    const { chain, volumes, guard } = this.#options
    const exclusive = changes.filter(({ lane }) => lane === undefined)
    const opening = [...connection.begin(), ...(exclusive.length === 0 ? [] : [EXCLUSIVE_LOCK])]
    const transaction = new Transaction(connection, guard, opening, trust)
    const answer: AnswerAll = (requests) => transaction.answer(requests)
    const group = chain.openGroup()
    let head: ChainHead | undefined
    let isCommitting = false
    try {
      const inLanes = changes.filter(({ lane }) => lane !== undefined)
      await driveLanes(group, inLanes, answer)
      for (const change of exclusive) change.keep(await driveEach(change.begin(group), answer))
      const sealed = group.isEmpty ? undefined : sealedBy(chain, group)
      head = sealed?.head
      isCommitting = true
      volumes.noteSent(group.isEmpty ? -1 : chain.head.n + 1)
      await transaction.commit(sealed === undefined ? [] : [sealed.insert])
    } catch (error) {
      if (!connection.isLost) {
        await transaction.undo()
        volumes.noteUndone()
        if (transaction.isDoubtful && !isStoreWide(error) && !isBusy(error) && !isFenced(error)) return false
      }
      if (!connection.isLost || !isCommitting || !(await this.#wasCommitted(head))) throw error
    }
    if (head === undefined) return true
    chain.advance(head, group)
    if (exclusive.length > 0 || this.#notices.isWanted)
      this.#notices.announce(group.eventsJson, exclusive.length > 0)
    return true
  }

  /** Creates the writer's row and its lease in one transaction. The lease begins after `sentAtMs`. */
  async #beginWriter(connection: Connection): Promise<void> {
    const { chain, volumes, guard } = this.#options
    await this.#lease.start()
    await volumes.take(connection, chain.head.n + 1)
    // The lock is taken inside the transaction, so that a timeout undoes everything.
    const transaction = new Transaction(connection, guard, [...connection.begin(), EXCLUSIVE_LOCK])
    try {
      await transaction.open()
      const sentAtMs = monotonicMs()
      const head = await driveEach(chain.begin(), (requests) => transaction.answer(requests))
      await transaction.commit([])
      chain.head = head
      this.#lease.hold(chain.no, sentAtMs)
    } catch (error) {
      // If a lost connection did commit it, that writer never writes anything else.
      chain.beginAgain()
      await transaction.undo()
      throw error
    }
  }

  /**
   * After a connection is lost during its commit, it is unknown whether the group was committed, and the server may still commit
   * it. An empty group with the same position and number decides it, because only one of the two can be committed: the database
   * makes the second wait for the first.
   */
  async #wasCommitted(lost: ChainHead | undefined): Promise<boolean> {
    const unknown = 'the connection to PostgreSQL was lost during a commit'
    // A group without events leaves no trace in the chain.
    if (lost === undefined) throw new StoreError('unknown', unknown)
    const { chain } = this.#options
    try {
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const head = await this.#fillPosition(lost)
        if (head === undefined) continue
        if (head.link === lost.link) return true
        chain.head = head
        return false
      }
    } catch (error) {
      throw new StoreError('unknown', unknown, { cause: error })
    }
    throw new StoreError('unknown', unknown)
  }

  /** Returns the chain's group at the position of a group that may be lost; `undefined` if the connection was lost again. */
  async #fillPosition({ n }: ChainHead): Promise<ChainHead | undefined> {
    const { chain } = this.#options
    const connection = await this.#writes.current()
    const { insert } = sealedBy(chain, chain.openGroup())
    try {
      await connection.one({ text: `${insert.text} ON CONFLICT DO NOTHING`, values: insert.values ?? [] })
    } catch (error) {
      if (!connection.isLost && !isFenced(error)) throw error
    }
    if (connection.isLost) return undefined
    const head = await driveEach(chain.readHead(), this.#answerOn(connection, 'read'))
    if (head?.n === n) return head
    throw new StoreError('unknown', 'the lease of this process expired in the meantime')
  }

  async #endLease(): Promise<void> {
    try {
      const connection = await this.#writes.current()
      await driveEach(write('endLease', this.#options.chain.no), this.#answerOn(connection, 'change'))
    } catch {
      // If the database cannot be reached, the lease expires by itself.
    }
  }

  /** Statements from one turn of the event loop are sent together. */
  async #request(request: StatementRequest): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#reading.push({ request, resolve, reject })
      if (this.#reading.length === 1) setImmediate(() => void this.#answerReads(this.#reading.splice(0)))
    })
    this.#options.guard.check(request)
  }

  async #answerReads(reading: readonly PendingRead[]): Promise<void> {
    try {
      await answerAll(
        await this.#reads.current(),
        reading.map(({ request }) => request),
        'read',
      )
      for (const { resolve } of reading) resolve()
    } catch (error) {
      const [first, ...others] = reading
      if (others.length === 0) first?.reject(error)
      // A failed statement must not fail the others, so each is tried alone.
      else for (const read of reading) await this.#answerReads([read])
    }
  }

  async #readOne(statement: Statement): Promise<Result> {
    try {
      return await (await this.#reads.current()).one(statement)
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  /** Runs one transaction at a time, because each needs the connection for itself. */
  #inTurn<T>(act: (connection: Connection) => Promise<T>, doing: string): Promise<T> {
    this.#waitingReads += 1
    const turn = this.#snapshotTurn.then(async () => {
      try {
        return await act(await this.#snapshots.current())
      } catch (error) {
        throw storeErrorOf(error, doing)
      } finally {
        this.#waitingReads -= 1
      }
    })
    this.#snapshotTurn = turn.catch(() => undefined)
    return turn
  }

  async #foreignVersion(): Promise<number> {
    const { no } = this.#options.chain
    const { rows } = await this.#readOne({ name: 'foreignVersion', text: FOREIGN_VERSION, values: [no] })
    return integer(rows[0] ?? {}, 'version')
  }

  #answerOn(connection: Connection, purpose: Purpose): AnswerAll {
    return async (requests) => {
      await answerAll(connection, requests, purpose)
      for (const request of requests) this.#options.guard.check(request)
    }
  }
}

interface PendingRead {
  readonly request: StatementRequest
  resolve(): void
  reject(error: unknown): void
}

/** How often to try to fill a position of the chain if connections are lost again. */
const MAX_TRIES = 5

/** A group is one statement, so it can be sent with the commit; its head is known in advance. */
function sealedBy(
  chain: Chain,
  group: CommitGroup,
): { readonly head: ChainHead; readonly insert: Statement } {
  const steps = chain.insert(group)[Symbol.iterator]()
  const insert = steps.next()
  const end = steps.next()
  if (insert.done === true || end.done !== true) throw new Error('a group must be exactly one statement')
  return { head: end.value, insert: statementOf(insert.value, 'change') }
}

/** If the database cannot be written, the store has failed, whatever the reason (rule 11). */
function writeError(error: unknown): StoreError {
  const found = storeErrorOf(error, 'cannot write to the database')
  return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
}

const IS_ALIVE = `SELECT 1 AS alive FROM writers WHERE id = $1 AND lease_until > ${NOW_MS}`

/** The version changes with every group of another living writer, and when such a writer ends. */
const FOREIGN_VERSION = `SELECT CAST(coalesce(sum(1 + coalesce((SELECT max(n) FROM commit_groups g WHERE g.writer = w.no), 0)), 0)
    + count(*) * 1000003 AS BIGINT) AS version FROM writers w WHERE lease_until > 0 AND ended_at IS NULL AND no <> $1`

const TAKE_TURN = `INSERT INTO meta (name, value) VALUES ($1, CAST(${NOW_MS} + $2 AS TEXT))
  ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(meta.value AS BIGINT) <= ${NOW_MS} RETURNING name`

const WRITE_CHECK = `INSERT INTO meta (name, value) VALUES ('write_check', '')
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`
