import type { ApprovalRules } from '#core/approvals/approval-rules'
import type { ApprovalWaits } from '#core/approvals/approval-waits'
import type { ConsentTeller } from '#core/credentials/consent-teller'
import type { TokenRefresher } from '#core/credentials/token-refresher'
import type { Budgets } from '#core/limits/budgets'
import type { CallLimits } from '#core/limits/call-limits'
import type { RefusalTeller } from '#core/limits/refusal-teller'
import type { WaitingPlaces } from '#core/limits/waiting-places'
import type { ToolSet } from '#core/live-registry'
import type { Clock } from '#core/ports/clock'
import type { Hooks } from '#core/ports/hooks'
import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { TokenBroker } from '#core/ports/token-broker'
import type { Principal } from '#core/principal'
import type { RunFeed } from '#core/runs/run-feed'
import type { Sessions } from '#core/sessions/sessions'
import type { StepOrigin } from '#core/workflow/step-origin'
import type { CallReply, CallRequest } from './call-request.ts'
import type { OutcomeKeeper } from './outcome-keeper.ts'
import type { Readiness } from './readiness.ts'
import type { RunningCalls } from './running-calls.ts'
import type { StartingCalls } from './starting-calls.ts'

/** Everything the call pipeline needs from outside, handed in once. */
export interface CallServices {
  readonly registry: ToolSet
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly hooks: Hooks
  /** Who renews the tokens of the vault, and can ask people for more. */
  readonly broker: TokenBroker
  readonly refresher: TokenRefresher
  readonly approvalRules: ApprovalRules
  /** UUID v4 (T-24). */
  newCallId(): string
  /** Unguessable, URL-safe. */
  newChallengeId(): string
  /** Unguessable, URL-safe; also for the runs of sessions that name none. */
  newSessionId(): string
  /** Base of the URLs we hand out, never taken from a request (T-16). */
  publicUrl(): string
  readonly running: RunningCalls
  readonly starting: StartingCalls
  readonly sessions: Sessions
  readonly feed: RunFeed
  readonly waits: ApprovalWaits
  readonly places: WaitingPlaces
  readonly readiness: Readiness
  readonly keeper: OutcomeKeeper
  readonly limits: CallLimits
  readonly budgets: Budgets
  readonly refusals: RefusalTeller
  readonly consents: ConsentTeller
  readonly maxResultBytes: number
  /** Makes one step of a workflow: a call like any other, under a key that no caller can have. */
  callStep(principal: Principal, request: CallRequest, step: StepOrigin): Promise<CallReply>
}
