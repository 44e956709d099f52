import { hash, randomBytes } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'
import type { Outcome } from '#core/call'
import { StoreError } from '#core/errors'
import type { JournalGroup, JournalHead } from '#core/journal/events'
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
  NewSession,
  NextAttempt,
  RecoveryReport,
  RefusedCall,
  RetentionPolicy,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
  Settlement,
  SettleResult,
  Store,
} from '#core/ports/store'
import type { RunEvent, SessionOutcome } from '#core/runs/events'
import { ApprovalChanges, ParkedEnds } from '#store/approval-changes'
import { ApprovalReasons, SqliteApprovals } from '#store/approvals'
import { CallChanges, listCalls, listOwnCalls, RUN_ENDED, showCall, TAKEN } from '#store/calls'
import { CommitQueue } from '#store/commit-queue'
import { challengeFromRow, challengeKey, endChallenge, openChallenge, SqliteConsents } from '#store/consents'
import { deriveStoreKeys, type StoreKeys } from '#store/encryption'
import { SqlitePins, SqliteSources } from '#store/imports'
import { readJournal, SealedGroups, type Verification, verifyJournal } from '#store/journal'
import { SqliteAudit, SqliteKeys, type StoreContext } from '#store/keys'
import { SqliteBudgets, SqliteCallers, SqliteRequests } from '#store/protocol-state'
import { purgeStep, Recovery } from '#store/recovery'
import { integer, text } from '#store/rows'
import { CallRunEvents, RunChanges, SessionChanges } from '#store/runs'
import { SqliteVault, VaultSealer } from '#store/vault'
import { SqliteWorkflows } from '#store/workflows'
import { Checkpointer } from './checkpointer.ts'
import { type Database, IN_MEMORY, openDatabase, storeErrorOf } from './database.ts'
import { removeLockFile, Writer, WriterLiveness } from './writer.ts'

const DIGEST_CHARACTERS = 24
/** Sorts behind every record: a writer's last change comes after all others of its group. */
const LAST_KEY = '~'
/** Sorts behind every record too: a session closes after the calls that end in the same group (OWP-41). */
const CLOSE_KEY = '|'

/** How long a look waits for another process that is writing. */
const LONGEST_LOCK_MS = 5_000

interface SqliteStoreOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  readonly nowMs?: () => number
  /** How large the database may become. */
  readonly mostBytes?: number
  /** Told after each commit: how many changes, how long. */
  readonly onCommit?: (changes: number, durationMs: number) => void
  /** Told once of each row that decides and was changed by somebody without the key. */
  readonly onForeign?: (row: string, table: string) => void
}

/**
 * A store that is gone with its process: the same rules, without a file, locks and checkpoints. It is for tests and for
 * tools without effects. When it holds `mostBytes` it refuses what is new and evicts nothing (rule 13).
 */
export function openMemoryStore(
  options: Omit<SqliteStoreOptions, 'path' | 'masterKey'> = {},
  mostBytes = Math.floor(getHeapStatistics().heap_size_limit / 2),
): SqliteStore {
  return new SqliteStore({ ...options, path: IN_MEMORY, masterKey: randomBytes(32), mostBytes })
}

/** Calls and journal in one SQLite file: every change fsynced before it is acknowledged, many per commit. */
export class SqliteStore implements Store {
  readonly keys: SqliteKeys
  readonly audit: SqliteAudit
  readonly budgets: SqliteBudgets
  readonly vault: SqliteVault
  readonly consents: SqliteConsents
  readonly callers: SqliteCallers
  readonly approvals: SqliteApprovals
  readonly pins: SqlitePins
  readonly sources: SqliteSources
  readonly workflows: SqliteWorkflows
  readonly requests: SqliteRequests
  readonly #keys: StoreKeys
  readonly #database: Database
  readonly #contents: SealedGroups
  readonly #reasons: ApprovalReasons
  readonly #checkpointer: Checkpointer | undefined
  readonly #writer: Writer
  readonly #queue: CommitQueue
  readonly #changes: CallChanges
  readonly #runs: RunChanges
  readonly #sessions: SessionChanges
  readonly #runEvents: CallRunEvents
  readonly #parkedEnds: ParkedEnds
  readonly #recovery: Recovery
  readonly #lockFolder: string | undefined
  readonly #nowMs: () => number
  readonly #liveness: WriterLiveness
  #closing: Promise<void> | undefined

  constructor(options: SqliteStoreOptions) {
    this.#keys = deriveStoreKeys(options.masterKey)
    this.#nowMs = options.nowMs ?? Date.now
    this.#database = openDatabase(options.path, this.#keys, options.onForeign)
    if (options.mostBytes !== undefined) this.#database.limitTo(options.mostBytes)
    const isFile = options.path !== IN_MEMORY
    // The same database under another name must have the same locks.
    this.#lockFolder = isFile ? `${realpathSync(options.path)}-writers` : undefined
    this.#liveness = new WriterLiveness(this.#database, this.#lockFolder)
    this.#contents = new SealedGroups(this.#database, this.#keys.wrap)
    this.#reasons = new ApprovalReasons(this.#keys.reasons)
    this.#checkpointer = isFile ? new Checkpointer(this.#database) : undefined
    this.#writer = new Writer({
      database: this.#database,
      keys: this.#keys,
      lockFolder: this.#lockFolder,
      nowMs: this.#nowMs,
      observer: {
        committed: (changes, durationMs) => {
          this.#checkpointer?.noteCommit()
          options.onCommit?.(changes, durationMs)
        },
      },
    })
    this.#queue = new CommitQueue(this.#writer)
    const [database, sealed, reasons] = [this.#database, this.#contents, this.#reasons]
    this.budgets = new SqliteBudgets(database, this.#queue)
    const writerNo = () => this.#writer.no
    const runs = new RunChanges(database, sealed, reasons)
    const sessions = new SessionChanges({ database, runs, writerNo })
    const runEvents = new CallRunEvents({ database, runs, sessions })
    this.#runs = runs
    this.#sessions = sessions
    this.#runEvents = runEvents
    const calls = new CallChanges({ database, sealed, runs, runEvents, writerNo })
    const ends = new ParkedEnds({ database, runs, runEvents })
    const changes = new ApprovalChanges({ database, calls, runs, ends, reasons, writerNo })
    this.#changes = calls
    this.#parkedEnds = ends
    this.approvals = new SqliteApprovals({
      ...{ database, sealed, calls, changes, ends, reasons },
      ...{ queue: this.#queue, key: this.#keys.approvals },
    })
    this.workflows = new SqliteWorkflows({ database, calls, runEvents, queue: this.#queue, writerNo })
    this.#recovery = new Recovery({ database, runEvents, sessions, ends })
    const ways: StoreContext = {
      database,
      submit: (key, apply) => this.#queue.submit(key, apply),
      read: (read) => this.#read(read),
    }
    this.keys = new SqliteKeys(ways)
    this.audit = new SqliteAudit(ways)
    this.pins = new SqlitePins(ways)
    this.sources = new SqliteSources(ways, this.#keys.sources)
    this.requests = new SqliteRequests(ways, { sealingKey: this.#keys.requests, writer: () => this.writer })
    const sealing = { database, queue: this.#queue, sealer: new VaultSealer(database, this.#keys.vault) }
    this.vault = new SqliteVault(sealing)
    this.consents = new SqliteConsents({ ...sealing, runs })
    this.callers = new SqliteCallers(sealing, (plain) => this.digest(plain))
  }

  get pendingWrites(): number {
    return this.#queue.size
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

  async reclaim(seen: CallRecord, next: NextAttempt): Promise<ClaimResult> {
    const claimed = await this.#queue.submit(seen.record, (group) => this.#changes.reclaim(group, seen, next))
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
    this.#writer.keepLock()
    const dead = this.#read(() => this.#database.all('openWriters'))
      .map((row) => ({ no: integer(row, 'no'), id: text(row, 'id') }))
      .filter(({ id }) => !this.isWriterAlive(id))
    let ambiguous = 0
    for (const writer of dead) {
      ambiguous += await this.#recovery.recoverAll(this.#queue, writer, nowMs)
      const row = this.#read(() => this.#database.get('writerEnd', writer.id))
      const isDone = row !== undefined && row.ended_at !== null
      if (isDone && this.#lockFolder !== undefined) removeLockFile(this.#lockFolder, writer.id)
    }
    return { deadWriters: dead.length, ambiguous }
  }

  isWriterAlive(writer: string): boolean {
    return writer === this.#writer.id || this.#read(() => this.#liveness.isAlive(writer))
  }

  findRun(address: RunAddress): RunRecord | undefined {
    return this.#read(() => this.#runs.find(address))
  }

  readRun(address: RunAddress, after: number, limit: number): readonly RunEvent[] {
    return this.#snapshot(() => this.#runs.read(address, after, limit))
  }

  endRun(address: RunAddress, atMs: number): Promise<boolean> {
    return this.#queue.submit(address.run, (group) => this.#runs.end(group, address, atMs))
  }

  noteRefusal(refused: RefusedCall): Promise<boolean> {
    return this.#queue.submit(refused.record, (group) => this.#runEvents.refuse(group, refused))
  }

  findSession(address: SessionAddress): SessionRecord | undefined {
    return this.#read(() => this.#sessions.find(address))
  }

  openSession(session: NewSession): Promise<'opened' | 'run_ended'> {
    return this.#queue.submit(session.sessionId, (group) => {
      if (!this.#runs.open(session.place, session.atMs)) return RUN_ENDED.kind
      this.#sessions.open(group, session, 'open')
      return 'opened'
    })
  }

  beginSessionClose(address: SessionAddress): Promise<boolean> {
    return this.#queue.submit(address.sessionId, () => this.#sessions.beginClose(address))
  }

  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): Promise<boolean> {
    return this.#queue.submit(`${CLOSE_KEY}${address.sessionId}`, (group) => {
      this.#parkedEnds.endIn(group, address, { why: 'session', atMs })
      return this.#sessions.close(group, address, outcome, atMs)
    })
  }

  openChallenge(challenge: NewChallenge): Promise<ChallengeRecord> {
    return this.#queue.submit(challenge.id, (group) => openChallenge(this.#database, group, challenge))
  }

  findChallenge(id: string): ChallengeRecord | undefined {
    const row = this.#read(() => this.#database.get('findChallenge', id))
    return row === undefined ? undefined : challengeFromRow(row)
  }

  /** Looks before it writes: most calls that bring a token were never challenged. */
  async endChallenge(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): Promise<void> {
    const key = challengeKey(need)
    if (this.#read(() => this.#database.get('openChallenge', key)) === undefined) return
    await this.#queue.submit(key, (group) => endChallenge(this.#database, group, { key, as, atMs }))
  }

  listOwn: Store['listOwn'] = (query) =>
    this.#snapshot(() => listOwnCalls(this.#database, this.#contents, query))

  list(filter: CallFilter): readonly CallRecord[] {
    return this.#snapshot(() => listCalls(this.#database, filter).map((row) => showCall(row, this.#contents)))
  }

  findByRecord(record: string): CallRecord | undefined {
    const row = this.#read(() => this.#database.get('findCall', record))
    return row === undefined ? undefined : showCall(row, this.#contents)
  }

  readJournal(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    return this.#snapshot(() => readJournal(this.#database, this.#reasons, after, limit))
  }

  /** Checks the whole journal against the key; `head` is one kept elsewhere. */
  verify(head?: JournalHead): Verification {
    return this.#snapshot(() => verifyJournal(this.#database, this.#keys.chain, head))
  }

  purge(nowMs: number, policy: RetentionPolicy): Promise<boolean> {
    const forgetting = { nowMs, policy, chainKey: this.#keys.chain }
    return this.#queue.submit('', (group) =>
      purgeStep({ database: this.#database, runs: this.#runs }, group, forgetting),
    )
  }

  foreignVersion(): number {
    return this.#read(() => integer(this.#database.get('foreignVersion') ?? {}, 'data_version'))
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

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const goodbye = this.#writer.isStarted
      ? this.#queue.submit(LAST_KEY, (group) => this.#writer.recordStop(group))
      : undefined
    this.#queue.close()
    try {
      await goodbye
    } finally {
      await this.#checkpointer?.close()
      this.#writer.release()
      this.#database.close()
    }
  }

  #holderOf(record: string): { readonly kind: 'found'; readonly record: CallRecord } {
    const holder = this.#read(() => this.#changes.find(record))
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }

  /** Several reads of one moment. */
  #snapshot<T>(read: () => T): T {
    return this.#read(() => this.#database.snapshot(read))
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }
}
