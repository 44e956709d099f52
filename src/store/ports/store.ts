import type { MaybePromise } from '#kernel/base/waiting'
import type { JournalHead } from '#kernel/journal/events'
import type { NoticeStore } from '#kernel/ports/notice-store'
import type {
  ChallengeNeed,
  ChallengeRecord,
  JournalVerification,
  KernelStore,
  NewChallenge,
  VerificationWatch,
  WorkflowStore,
} from '#kernel/ports/store'
import type { PinStore, SourceStore } from './import-store.ts'
import type { KeyChange } from './key-change.ts'
import type { AuditStore, KeyStore } from './key-store.ts'
import type { OperatorStore } from './operator-store.ts'
import type {
  BudgetStore,
  IdempotentRequestStore,
  ProtocolSessionStore,
  RateStore,
} from './protocol-store.ts'
import type { RejectionStore } from './rejection-store.ts'
import type { ConsentStore, VaultStore } from './vault-store.ts'

/** The store of the product: the kernel's part and the methods of all other modules. */
export interface Store extends KernelStore, OperatorStore {
  readonly keys: KeyStore
  readonly audit: AuditStore
  /** Requests that were rejected before a call was recorded. */
  readonly rejections: RejectionStore
  /** Tokens that processes share. */
  readonly rates: RateStore
  /** What budgets have handed out. */
  readonly budgets: BudgetStore
  readonly vault: VaultStore
  readonly consents: ConsentStore
  /** What callers with several requests for one exchange leave behind. */
  readonly callers: ProtocolSessionStore
  /** What operators are to be told of. */
  readonly notices: NoticeStore
  /** Imported definitions that were let in, and those that wait (rule 32). */
  readonly pins: PinStore
  /** Sources beside those of the configuration. */
  readonly sources: SourceStore
  /** Workflows that are suspended while a step waits (rule 31). */
  readonly workflows: WorkflowStore
  /** Requests that have a key of their caller's own, and are no calls. */
  readonly requests: IdempotentRequestStore
  /** The change of `COLLET_KEY`. */
  readonly keyChange: KeyChange
  /** Gives the open challenge of the same need, or stores this one. */
  openChallenge(challenge: NewChallenge): MaybePromise<ChallengeRecord>
  findChallenge(id: string): MaybePromise<ChallengeRecord | undefined>
  /** Ends the open challenge of this need, if there is one: its token has arrived, or was refused (OTC-78). */
  endChallenge(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): MaybePromise<void>
  /** Checks the whole journal and the rows that decide against the key; `head` is one kept elsewhere (rule 15). */
  verify(head?: JournalHead): MaybePromise<JournalVerification>
  /** The same beside calls, which have their turn all the while. */
  verifyInPieces(watch: VerificationWatch): Promise<JournalVerification>
}
