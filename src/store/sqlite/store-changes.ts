import type { Outcome } from '#core/outcome'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ChallengeRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  NewChallenge,
  RetentionPolicy,
  Settlement,
  SettleResult,
} from '#core/ports/store'
import type { DeadWriter, Recovered } from './recovery.ts'

/**
 * Somebody else has the call. Its record is read after the commit: the winner may be in the very group that is
 * being put together, its text not sealed yet (rule 19).
 */
export const TAKEN = 'taken'
export type Taken = typeof TAKEN

export type Claimed = Extract<ClaimResult, { readonly kind: 'claimed' }>
export type Recorded = Extract<FinishResult, { readonly kind: 'recorded' }>

/** The part of a record that taking it again compares and journals. */
export type SeenCall = Pick<
  CallRecord,
  'tenant' | 'record' | 'principal' | 'tool' | 'tier' | 'state' | 'attempt' | 'writer'
>

/** Every change the store can make, as data that can be sent to another thread, with what it gives back. */
export interface StoreChanges {
  readonly claim: { readonly change: NewCall; readonly result: Claimed | Taken }
  readonly reclaim: {
    readonly change: { readonly seen: SeenCall; readonly atMs: number }
    readonly result: Claimed | Taken
  }
  readonly finish: { readonly change: FinishedRun; readonly result: Recorded | Taken }
  readonly insertFinished: {
    readonly change: { readonly call: NewCall; readonly finished: Omit<FinishedRun, 'run'> }
    readonly result: Recorded | Taken
  }
  readonly recordLate: {
    readonly change: { readonly run: Attempt; readonly outcome: Outcome; readonly atMs: number }
    readonly result: undefined
  }
  readonly requestCancel: {
    readonly change: CallAddress & { readonly by: string; readonly atMs: number }
    readonly result: boolean
  }
  readonly settle: { readonly change: Settlement; readonly result: SettleResult }
  readonly recover: { readonly change: DeadWriter & { readonly nowMs: number }; readonly result: Recovered }
  readonly openChallenge: { readonly change: NewChallenge; readonly result: ChallengeRecord }
  readonly completeChallenge: {
    readonly change: { readonly id: string; readonly atMs: number }
    readonly result: undefined
  }
  readonly purge: {
    readonly change: { readonly nowMs: number; readonly policy: RetentionPolicy }
    readonly result: boolean
  }
  readonly probe: { readonly change: { readonly atMs: number }; readonly result: undefined }
}

export type ChangeName = keyof StoreChanges

/** Where changes become durable: in this thread, or in one of their own. */
export interface Commits {
  submit<N extends ChangeName>(name: N, change: StoreChanges[N]['change']): Promise<StoreChanges[N]['result']>
  /** Ends the writer's chain and gives its lock back. Nothing may be submitted afterwards. */
  close(): Promise<void>
}
