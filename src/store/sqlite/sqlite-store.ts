import { hash } from 'node:crypto'
import type { JournalGroup, JournalHead } from '#core/journal/journal-group'
import type { Outcome } from '#core/outcome'
import type {
  Attempt,
  CallAddress,
  CallFilter,
  CallRecord,
  ChallengeNeed,
  ChallengeRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  NewChallenge,
  RecoveryReport,
  RetentionPolicy,
  Settlement,
  SettleResult,
  Store,
} from '#core/ports/store'
import { StoreError } from '#core/store-error'
import { challengeKey } from '#store/challenge-key'
import { deriveStoreKeys, type StoreKeys } from '#store/keys/store-keys'
import { callFromRow } from '#store/sql/call-row'
import { GroupQueue } from '#store/sql/group-queue'
import { integer, text } from '#store/sql/row'
import { CallChanges, TAKEN } from './call-changes.ts'
import { challengeFromRow, completeChallenge, openChallenge } from './challenge-changes.ts'
import { Checkpointer } from './checkpointer.ts'
import { type Database, openDatabase } from './database.ts'
import { GroupContents } from './group-contents.ts'
import { readJournal } from './journal-reader.ts'
import { recoverWriter } from './recovery.ts'
import { purgeStep } from './retention.ts'
import { storeErrorOf } from './sqlite-errors.ts'
import { type Verification, verifyJournal } from './verify-journal.ts'
import { Writer } from './writer.ts'
import { isWriterLocked, removeLockFile } from './writer-lock.ts'

const DIGEST_CHARACTERS = 24

/** How long a look waits for another process that is writing. */
const LONGEST_LOCK_MS = 5_000

export interface SqliteStoreOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  readonly nowMs?: () => number
  /** Told after each commit: how many changes, how long. */
  readonly onCommit?: (changes: number, durationMs: number) => void
}

/** Calls and journal in one SQLite file: every change fsynced before it is acknowledged, many per commit. */
export class SqliteStore implements Store {
  readonly #keys: StoreKeys
  readonly #database: Database
  readonly #contents: GroupContents
  readonly #checkpointer: Checkpointer
  readonly #writer: Writer
  readonly #queue: GroupQueue
  readonly #changes: CallChanges
  readonly #lockFolder: string
  readonly #nowMs: () => number

  constructor(options: SqliteStoreOptions) {
    this.#keys = deriveStoreKeys(options.masterKey)
    this.#nowMs = options.nowMs ?? Date.now
    this.#lockFolder = `${options.path}-writers`
    this.#database = openDatabase(options.path, this.#keys)
    this.#contents = new GroupContents(this.#database, this.#keys.wrap)
    this.#checkpointer = new Checkpointer(this.#database)
    this.#writer = new Writer({
      database: this.#database,
      keys: this.#keys,
      lockFolder: this.#lockFolder,
      nowMs: this.#nowMs,
      observer: {
        committed: (changes, durationMs) => {
          this.#checkpointer.noteCommit()
          options.onCommit?.(changes, durationMs)
        },
      },
    })
    this.#queue = new GroupQueue(this.#writer)
    this.#changes = new CallChanges({
      database: this.#database,
      sealed: this.#contents,
      writerNo: () => this.#writer.no,
    })
  }

  get writer(): string {
    return this.#writer.id
  }

  /** Keyed by a secret prefix: one-shot hashing is far cheaper than an HMAC object per call. */
  digest(plain: string): string {
    return hash('sha256', this.#keys.digest + plain, 'base64url').slice(0, DIGEST_CHARACTERS)
  }

  find(address: CallAddress): CallRecord | undefined {
    const found = this.#read(() => this.#changes.find(address.record))
    return found?.tenant === address.tenant ? found : undefined
  }

  async claim(call: NewCall): Promise<ClaimResult> {
    const claimed = await this.#queue.submit(call.record, (group) => this.#changes.claim(group, call))
    return claimed === TAKEN ? this.#holderOf(call.record) : claimed
  }

  async reclaim(seen: CallRecord, atMs: number): Promise<ClaimResult> {
    const claimed = await this.#queue.submit(seen.record, (group) => this.#changes.reclaim(group, seen, atMs))
    return claimed === TAKEN ? this.#holderOf(seen.record) : claimed
  }

  async finish(finished: FinishedRun): Promise<FinishResult> {
    const { record } = finished.run
    const recorded = await this.#queue.submit(record, (group) => this.#changes.finish(group, finished))
    return recorded === TAKEN ? this.#holderOf(record) : recorded
  }

  async insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): Promise<FinishResult> {
    const recorded = await this.#queue.submit(call.record, (group) =>
      this.#changes.insertFinished(group, call, finished),
    )
    return recorded === TAKEN ? this.#holderOf(call.record) : recorded
  }

  recordLate(run: Attempt, outcome: Outcome, atMs: number): Promise<void> {
    return this.#queue.submit(run.record, (group) => this.#changes.recordLate(group, { run, outcome, atMs }))
  }

  requestCancel(address: CallAddress, by: string, atMs: number): Promise<boolean> {
    const asked = { ...address, by, atMs }
    return this.#queue.submit(address.record, (group) => this.#changes.requestCancel(group, asked))
  }

  cancelRequests(): readonly CallAddress[] {
    return this.#read(() =>
      this.#database
        .all('cancelRequests', this.#writer.no)
        .map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') })),
    )
  }

  /** Looks before it writes: a refusal begins no writer and leaves no trace. */
  async settle(settlement: Settlement): Promise<SettleResult> {
    const { record } = settlement
    const found = this.#read(() => this.#changes.findUnsettled(record))
    if (typeof found === 'string') return found
    return await this.#queue.submit(record, (group) => this.#changes.settle(group, settlement))
  }

  async recover(nowMs: number): Promise<RecoveryReport> {
    let deadWriters = 0
    let ambiguous = 0
    for (const dead of this.#deadWriters()) {
      deadWriters += 1
      const recovered = await this.#queue.submit('', (group) =>
        recoverWriter(this.#database, group, { ...dead, nowMs }),
      )
      ambiguous += recovered.ambiguous
      if (recovered.isDone) removeLockFile(this.#lockFolder, dead.id)
    }
    return { deadWriters, ambiguous }
  }

  isWriterAlive(writer: string): boolean {
    return writer === this.#writer.id || isWriterLocked(this.#lockFolder, writer)
  }

  openChallenge(challenge: NewChallenge): Promise<ChallengeRecord> {
    return this.#queue.submit(challenge.id, (group) => openChallenge(this.#database, group, challenge))
  }

  findChallenge(id: string): ChallengeRecord | undefined {
    const row = this.#read(() => this.#database.get('findChallenge', id))
    return row === undefined ? undefined : challengeFromRow(row)
  }

  /** Looks before it writes: most calls that bring a token were never challenged. */
  async completeChallenge(need: ChallengeNeed, atMs: number): Promise<void> {
    const key = challengeKey(need)
    if (this.#read(() => this.#database.get('openChallenge', key)) === undefined) return
    await this.#queue.submit(key, (group) => completeChallenge(this.#database, group, { key, atMs }))
  }

  list(filter: CallFilter): readonly CallRecord[] {
    const { state, limit } = filter
    const tenant = filter.tenant ?? null
    return this.#read(() => {
      const rows =
        state === undefined
          ? this.#database.all('listCalls', tenant, tenant, limit)
          : this.#database.all('listCallsByState', state, tenant, tenant, limit)
      return rows.map((row) => callFromRow(row, this.#contents))
    })
  }

  findByRecord(record: string): CallRecord | undefined {
    return this.#read(() => this.#changes.find(record))
  }

  readJournal(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    return this.#read(() => readJournal(this.#database, after, limit))
  }

  /** Checks the whole journal against the key; `head` is one kept elsewhere. */
  verify(head?: JournalHead): Verification {
    return this.#read(() => verifyJournal(this.#database, this.#keys.chain, head))
  }

  purge(nowMs: number, policy: RetentionPolicy): Promise<boolean> {
    const forgetting = { nowMs, policy, chainKey: this.#keys.chain }
    return this.#queue.submit('', (group) => purgeStep(this.#database, group, forgetting))
  }

  /** Writes a row for real: an empty transaction would not touch the disk. */
  probe(): Promise<void> {
    return this.#queue.submit('', () => {
      this.#database.run('writeMeta', 'probe', String(this.#nowMs()))
    })
  }

  /** Throws when a change could not be written; unlike `probe` it writes nothing, not even to the journal. */
  checkWritable(waitMs = LONGEST_LOCK_MS): void {
    try {
      this.#database.checkWritable(waitMs)
    } catch (error) {
      throw storeErrorOf(error, 'cannot write to the database')
    }
  }

  async close(): Promise<void> {
    await this.#checkpointer.close()
    if (this.#writer.isStarted) {
      await this.#queue
        .submit('', (group) => this.#writer.sayGoodbye(group))
        .finally(() => this.#writer.release())
    }
    this.#database.close()
  }

  #holderOf(record: string): { readonly kind: 'found'; readonly record: CallRecord } {
    const holder = this.findByRecord(record)
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }

  #deadWriters(): readonly { readonly no: number; readonly id: string }[] {
    return this.#read(() => this.#database.all('openWriters'))
      .map((row) => ({ no: integer(row, 'no'), id: text(row, 'id') }))
      .filter(({ id }) => !this.isWriterAlive(id))
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }
}
