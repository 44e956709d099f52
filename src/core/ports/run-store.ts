import type { ErrorCode } from '#core/errors'
import type { CallLabel, RunEvent } from '#core/runs/run-event'
import type { MaybePromise } from './maybe-promise.ts'

/** Where a run lives. `run` is the record of its only call, or the keyed digest of tenant, principal and run id. */
export interface RunAddress {
  readonly tenant: string
  readonly run: string
}

/** A run that calls and sessions name; made by the first that does. */
export interface RunPlace extends RunAddress {
  readonly principal: string
  /** What callers call it. */
  readonly runId: string
}

export interface RunRecord extends RunAddress {
  readonly principal: string
  /** Calls and sessions that began here and have not ended. */
  readonly open: number
  /** When something last happened in it. */
  readonly touchedAtMs: number
  readonly endedAtMs: number | undefined
}

/** A call that a limit kept from running: nothing of it is stored but what its run tells (C10). */
export interface RefusedCall extends CallLabel {
  readonly tenant: string
  readonly record: string
  readonly principal: string
  readonly place: RunPlace
  readonly sessionId: string | undefined
  readonly userId: string | undefined
  /** Full id of the resolved version. */
  readonly tool: string
  readonly code: ErrorCode
  readonly atMs: number
}

/** Runs that have events of their own. The run of a single undisturbed call needs none: its record says it all. */
export interface RunStore {
  findRun(address: RunAddress): MaybePromise<RunRecord | undefined>
  /** Events after a sequence, in order. */
  readRun(address: RunAddress, after: number, limit: number): MaybePromise<readonly RunEvent[]>
  /** Lets nothing new begin in it; `false` when there is no such run or it has ended. */
  endRun(address: RunAddress, atMs: number): MaybePromise<boolean>
  /** Appends that the call was made and refused; `false`, and nothing, when there is no such run or it has ended. */
  noteRefusal(refused: RefusedCall): MaybePromise<boolean>
}
