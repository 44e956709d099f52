import type { ApprovalDesk } from './approvals/approval-desk.ts'
import type { CallReply, CallRequest } from './call/call-request.ts'
import type { CallsPage, CallsQuery, CallView } from './call/call-view.ts'
import type { Catalog } from './catalog.ts'
import type { CatalogChanges } from './catalog-changes.ts'
import type { LeavePlace } from './limits/waiting-places.ts'
import type { ChallengeRecord } from './ports/store.ts'
import type { Principal } from './principal.ts'
import type { RunPage, RunQuery } from './runs/run-view.ts'
import type { OpenedSession, SessionRequest } from './sessions/session-request.ts'

/** What every protocol, and in-process code, may ask of the one server behind it. */
export interface Gateway {
  /** The frozen snapshot this principal may see; the same object until tools or scopes change. */
  catalogFor(principal: Principal): Catalog
  /** Tells when tools came, changed or went. */
  readonly catalogChanges: CatalogChanges
  /** Toolkit descriptions by name, as of now. */
  toolkits(): ReadonlyMap<string, string>
  /** Runs, replays or joins one call. Never throws for a call's own failure: that is an outcome. */
  call(principal: Principal, request: CallRequest): Promise<CallReply>
  /** The principal's own call by its call id; `undefined` for any other. */
  readCall(principal: Principal, callId: string): Promise<CallView | undefined>
  /** The principal's own calls, newest first, without their outcomes; a wrong cursor is a `ToolError`. */
  listCalls(principal: Principal, query: CallsQuery): Promise<CallsPage>
  /** Asks for a stop; the view after the request, or `undefined` when there is no such call. */
  cancelCall(principal: Principal, callId: string): Promise<CallView | undefined>
  /** Events of one of the principal's own runs, waiting for the next if asked; `undefined` for any other run. */
  readRun(principal: Principal, query: RunQuery): Promise<RunPage | undefined>
  /** Counts something that is no call, but costs, towards the load and the caller's own rate; a `ToolError` when that is spent. */
  admit(principal: Principal): void
  /** A place for a request that is held open, or a `ToolError` when there is none; call what it gives to leave it. */
  enterWaiting(principal: Principal): LeavePlace
  /** Closes the run's sessions and lets nothing new begin in it; `false` when there is no such run. */
  endRun(principal: Principal, runId: string): Promise<boolean>
  /** Throws a `ToolError` for a tool that is unknown or keeps no state, and when its state cannot be opened. */
  openSession(principal: Principal, request: SessionRequest): Promise<OpenedSession>
  /** Ends what runs in it and closes it; `false` when the principal has no such session. */
  closeSession(principal: Principal, sessionId: string): Promise<boolean>
  /** Questions for a yes: look at them, and answer them. */
  readonly approvals: ApprovalDesk
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
  /** Whether new calls are taken: false while starting, draining, or after a store write error. */
  isReady(): boolean
}
