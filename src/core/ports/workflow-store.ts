import type { EndedParked } from './approval-store.ts'
import type { MaybePromise } from './maybe-promise.ts'
import type { Attempt, CallAddress, CallRecord, ClaimResult, FinishResult } from './store.ts'

/** Why a workflow is put away. */
export interface Suspending {
  /** The step it waits for, when that one is recorded; else `''`. */
  readonly waitsFor: string
  readonly atMs: number
}

/**
 * Calls of workflows that are put away while a step waits (rule 31): `parked`, with `waitsFor`, and the same attempt when
 * they go on. Steps are calls too, with the workflow's call as their `parent`.
 */
export interface WorkflowStore {
  /** `running → parked` of our own attempt; conditional like `finish`. */
  suspend(run: Attempt, suspending: Suspending): MaybePromise<FinishResult>
  /** `parked → running`, of one that was put away. */
  resume(
    seen: CallRecord,
    next: { readonly atMs: number; readonly rerunUntilMs: number },
  ): MaybePromise<ClaimResult>
  /** Ends one that was put away, because its caller wants it; empty when there is no such call. */
  cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParked[]>
  /** One small step of ending what nobody went on with in time. */
  expire(nowMs: number): MaybePromise<readonly EndedParked[]>
  /** Steps of a workflow's call that run or wait. */
  openSteps(parent: CallAddress): MaybePromise<readonly CallAddress[]>
}
