import { hash, randomUUID } from 'node:crypto'
import type { JournalGroup, JournalHead } from '#core/journal/journal-group'
import type { Outcome } from '#core/outcome'
import type {
  Attempt,
  CallAddress,
  CallFilter,
  CallRecord,
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
import { deriveStoreKeys, type StoreKeys } from '#store/keys/store-keys'
import { challengeFromRow } from './challenge-changes.ts'
import { CommitEngine } from './commit-engine.ts'
import { CommitThread } from './commit-thread.ts'
import { openDatabase } from './database.ts'
import { type Commits, TAKEN } from './store-changes.ts'
import { StoreReader } from './store-reader.ts'
import type { Verification } from './verify-journal.ts'
import { isWriterLocked, removeLockFile } from './writer-lock.ts'

const DIGEST_CHARACTERS = 24

export interface SqliteStoreOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  /** Where commits run: `own` keeps fsyncs off the caller's thread; a short command needs no thread. */
  readonly thread: 'own' | 'caller'
  /** Only for commits on the caller's thread. */
  readonly nowMs?: () => number
  /** Told after each commit: how many changes, how long. */
  readonly onCommit?: (changes: number, durationMs: number) => void
}

/** Calls and journal in one SQLite file: every change fsynced before it is acknowledged, many per commit. */
export class SqliteStore implements Store {
  readonly writer = randomUUID()
  readonly #keys: StoreKeys
  readonly #reader: StoreReader
  readonly #commits: Commits
  readonly #lockFolder: string
  readonly #nowMs: () => number

  constructor(options: SqliteStoreOptions) {
    this.#keys = deriveStoreKeys(options.masterKey)
    this.#nowMs = options.nowMs ?? Date.now
    this.#lockFolder = `${options.path}-writers`
    this.#reader = new StoreReader(openDatabase(options.path, this.#keys), this.#keys)
    const { path, masterKey, onCommit = () => {} } = options
    const writing = { path, masterKey, writer: this.writer, lockFolder: this.#lockFolder }
    this.#commits =
      options.thread === 'own'
        ? new CommitThread(writing, onCommit)
        : new CommitEngine({ ...writing, onCommit, nowMs: this.#nowMs })
  }

  /** Keyed by a secret prefix: one-shot hashing is far cheaper than an HMAC object per call. */
  digest(plain: string): string {
    return hash('sha256', this.#keys.digest + plain, 'base64url').slice(0, DIGEST_CHARACTERS)
  }

  find(address: CallAddress): CallRecord | undefined {
    const found = this.#reader.find(address.record)
    return found?.tenant === address.tenant ? found : undefined
  }

  async claim(call: NewCall): Promise<ClaimResult> {
    const claimed = await this.#commits.submit('claim', call)
    return claimed === TAKEN ? this.#holderOf(call.record) : claimed
  }

  async reclaim(seen: CallRecord, atMs: number): Promise<ClaimResult> {
    const { tenant, record, principal, tool, tier, state, attempt, writer } = seen
    const change = { seen: { tenant, record, principal, tool, tier, state, attempt, writer }, atMs }
    const claimed = await this.#commits.submit('reclaim', change)
    return claimed === TAKEN ? this.#holderOf(record) : claimed
  }

  async finish(finished: FinishedRun): Promise<FinishResult> {
    const recorded = await this.#commits.submit('finish', finished)
    return recorded === TAKEN ? this.#holderOf(finished.run.record) : recorded
  }

  async insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): Promise<FinishResult> {
    const { state, outcome, atMs } = finished
    const recorded = await this.#commits.submit('insertFinished', {
      call,
      finished: { state, outcome, atMs },
    })
    return recorded === TAKEN ? this.#holderOf(call.record) : recorded
  }

  recordLate(run: Attempt, outcome: Outcome, atMs: number): Promise<void> {
    return this.#commits.submit('recordLate', { run, outcome, atMs })
  }

  requestCancel({ tenant, record }: CallAddress, by: string, atMs: number): Promise<boolean> {
    return this.#commits.submit('requestCancel', { tenant, record, by, atMs })
  }

  cancelRequests(): readonly CallAddress[] {
    return this.#reader.cancelRequests(this.writer)
  }

  settle(settlement: Settlement): Promise<SettleResult> {
    return this.#commits.submit('settle', settlement)
  }

  async recover(nowMs: number): Promise<RecoveryReport> {
    const dead = this.#reader.openWriters().filter(({ id }) => !this.isWriterAlive(id))
    let ambiguous = 0
    for (const writer of dead) {
      const recovered = await this.#commits.submit('recover', { ...writer, nowMs })
      ambiguous += recovered.ambiguous
      if (recovered.isDone) removeLockFile(this.#lockFolder, writer.id)
    }
    return { deadWriters: dead.length, ambiguous }
  }

  isWriterAlive(writer: string): boolean {
    return writer === this.writer || isWriterLocked(this.#lockFolder, writer)
  }

  openChallenge(challenge: NewChallenge): Promise<ChallengeRecord> {
    return this.#commits.submit('openChallenge', challenge)
  }

  findChallenge(id: string): ChallengeRecord | undefined {
    const row = this.#reader.findChallenge(id)
    return row === undefined ? undefined : challengeFromRow(row)
  }

  completeChallenge(id: string, atMs: number): Promise<void> {
    return this.#commits.submit('completeChallenge', { id, atMs })
  }

  list(filter: CallFilter): readonly CallRecord[] {
    return this.#reader.list(filter)
  }

  findByRecord(record: string): CallRecord | undefined {
    return this.#reader.find(record)
  }

  readJournal(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    return this.#reader.readJournal(after, limit)
  }

  /** Checks the whole journal against the key; `head` is one kept elsewhere. */
  verify(head?: JournalHead): Verification {
    return this.#reader.verify(head)
  }

  purge(nowMs: number, policy: RetentionPolicy): Promise<boolean> {
    return this.#commits.submit('purge', { nowMs, policy })
  }

  probe(): Promise<void> {
    return this.#commits.submit('probe', { atMs: this.#nowMs() })
  }

  async close(): Promise<void> {
    await this.#commits.close()
    this.#reader.close()
  }

  #holderOf(record: string): { readonly kind: 'found'; readonly record: CallRecord } {
    const holder = this.findByRecord(record)
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }
}
