import type { SessionOutcome } from '#core/runs/run-event'
import type { MaybePromise } from './maybe-promise.ts'
import type { RunPlace } from './run-store.ts'

/** `open`: takes calls. `closing`: takes none, and its close is on its way. */
export type SessionState = 'open' | 'closing' | 'closed'

export interface SessionAddress {
  readonly tenant: string
  /** Unguessable, made by us. */
  readonly sessionId: string
}

export interface NewSession extends SessionAddress {
  readonly principal: string
  /** Full id of the version whose state it holds. */
  readonly tool: string
  /** Catalog id. */
  readonly toolId: string
  readonly place: RunPlace
  /** Its run was made for it, and ends with it. */
  readonly endsRun?: boolean
  readonly atMs: number
}

export interface SessionRecord extends SessionAddress {
  readonly principal: string
  readonly tool: string
  readonly toolId: string
  readonly run: string
  readonly state: SessionState
  /** Who holds its state. */
  readonly writer: string
  readonly outcome: SessionOutcome | undefined
}

/** Sessions of stateful tools: their brackets in the run they belong to (rule 30). The state itself is never stored. */
export interface SessionStore {
  findSession(address: SessionAddress): MaybePromise<SessionRecord | undefined>
  openSession(session: NewSession): MaybePromise<'opened' | 'run_ended'>
  /** `open → closing`; `false` when somebody else closes or closed it. */
  beginSessionClose(address: SessionAddress, atMs: number): MaybePromise<boolean>
  /** `closing → closed` with its event, and the end of a run made for it, in one transaction; `false` when it is closed already. */
  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): MaybePromise<boolean>
}
