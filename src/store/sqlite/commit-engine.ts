import { deriveStoreKeys } from '#store/keys/store-keys'
import { GroupQueue } from '#store/sql/group-queue'
import type { OpenGroup } from '#store/sql/open-group'
import { CallChanges } from './call-changes.ts'
import { completeChallenge, openChallenge } from './challenge-changes.ts'
import { Checkpointer } from './checkpointer.ts'
import { type Database, openDatabase } from './database.ts'
import { recoverWriter } from './recovery.ts'
import { purgeStep } from './retention.ts'
import type { ChangeName, Commits, StoreChanges } from './store-changes.ts'
import { Writer } from './writer.ts'

export interface CommitEngineOptions {
  readonly path: string
  readonly masterKey: Uint8Array
  /** Id of this process as a writer. */
  readonly writer: string
  readonly lockFolder: string
  readonly nowMs: () => number
  /** Told after each commit: how many changes, how long. */
  readonly onCommit: (changes: number, durationMs: number) => void
}

type Apply = {
  readonly [N in ChangeName]: (
    group: OpenGroup,
    change: StoreChanges[N]['change'],
  ) => StoreChanges[N]['result']
}

/** The writing side of the store, on a connection of its own, in whichever thread made it. */
export class CommitEngine implements Commits {
  readonly #database: Database
  readonly #checkpointer: Checkpointer
  readonly #writer: Writer
  readonly #queue: GroupQueue
  readonly #apply: Apply

  constructor(options: CommitEngineOptions) {
    const keys = deriveStoreKeys(options.masterKey)
    const database = openDatabase(options.path, keys)
    this.#database = database
    this.#checkpointer = new Checkpointer(database)
    this.#writer = new Writer({
      id: options.writer,
      database,
      keys,
      lockFolder: options.lockFolder,
      nowMs: options.nowMs,
      onCommit: (changes, durationMs) => {
        this.#checkpointer.noteCommit()
        options.onCommit(changes, durationMs)
      },
    })
    this.#queue = new GroupQueue(this.#writer)
    const calls = new CallChanges(database, () => this.#writer.no)
    this.#apply = {
      claim: (group, call) => calls.claim(group, call),
      reclaim: (group, { seen, atMs }) => calls.reclaim(group, seen, atMs),
      finish: (group, finished) => calls.finish(group, finished),
      insertFinished: (group, { call, finished }) => calls.insertFinished(group, call, finished),
      recordLate: (group, late) => void calls.recordLate(group, late),
      requestCancel: (group, asked) => calls.requestCancel(group, asked),
      settle: (group, settlement) => calls.settle(group, settlement),
      recover: (group, dead) => recoverWriter(database, group, dead),
      openChallenge: (group, challenge) => openChallenge(database, group, challenge),
      completeChallenge: (group, done) => void completeChallenge(database, group, done),
      purge: (group, { nowMs, policy }) =>
        purgeStep(database, group, { nowMs, policy, chainKey: keys.chain }),
      // Writes a row for real: an empty transaction would not touch the disk.
      probe: (_group, { atMs }) => void database.run('writeMeta', 'probe', String(atMs)),
    }
  }

  submit<N extends ChangeName>(
    name: N,
    change: StoreChanges[N]['change'],
  ): Promise<StoreChanges[N]['result']> {
    return this.#queue.submit(keyOf(change), (group) => this.#apply[name](group, change))
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
}

/** Rule 19: changes of one group are sorted by the record they touch. */
function keyOf(change: object): string {
  if ('record' in change && typeof change.record === 'string') return change.record
  if ('call' in change && typeof change.call === 'object' && change.call !== null) return keyOf(change.call)
  if ('run' in change && typeof change.run === 'object' && change.run !== null) return keyOf(change.run)
  return ''
}
