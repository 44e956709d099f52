import type { CallReply, CallRequest } from './call/call-request.ts'
import type { CallView } from './call/call-view.ts'
import type { Catalog } from './catalog.ts'
import type { ChallengeRecord } from './ports/store.ts'
import type { Principal } from './principal.ts'

/** What every protocol, and in-process code, may ask of the one server behind it. */
export interface Gateway {
  /** The frozen snapshot this principal may see; the same object until tools or scopes change. */
  catalogFor(principal: Principal): Catalog
  /** Toolkit descriptions by name. */
  readonly toolkits: ReadonlyMap<string, string>
  /** Runs, replays or joins one call. Never throws for a call's own failure: that is an outcome. */
  call(principal: Principal, request: CallRequest): Promise<CallReply>
  /** The principal's own call by its call id; `undefined` for any other. */
  readCall(principal: Principal, callId: string): Promise<CallView | undefined>
  /** Asks for a stop; the view after the request, or `undefined` when there is no such call. */
  cancelCall(principal: Principal, callId: string): Promise<CallView | undefined>
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
  /** Whether new calls are taken: false while starting, draining, or after a store write error. */
  isReady(): boolean
}
