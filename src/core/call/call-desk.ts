import { ApprovalDesk, type ApprovalDeskOptions } from '#core/approvals/approval-desk'
import { ApprovalWaits } from '#core/approvals/approval-waits'
import { CatalogChanges } from '#core/catalog-changes'
import { ConsentTeller } from '#core/credentials/consent-teller'
import { TokenRefresher } from '#core/credentials/token-refresher'
import type { Gateway } from '#core/gateway'
import type { BudgetRule } from '#core/limits/budget-rule'
import { Budgets } from '#core/limits/budgets'
import { CallLimits } from '#core/limits/call-limits'
import type { LimitName } from '#core/limits/limit-refusal'
import { type LimitSettings, NO_LIMITS } from '#core/limits/limit-settings'
import { RefusalTeller } from '#core/limits/refusal-teller'
import { WaitingPlaces } from '#core/limits/waiting-places'
import type { Store } from '#core/ports/store'
import { NO_BROKER, type TokenBroker } from '#core/ports/token-broker'
import type { Principal } from '#core/principal'
import { endOwnRun, readOwnRun } from '#core/runs/own-runs'
import { RunFeed } from '#core/runs/run-feed'
import { StoreChanges } from '#core/runs/store-changes'
import { Sessions } from '#core/sessions/sessions'
import type { StepOrigin } from '#core/workflow/step-origin'
import type { CallRequest } from './call-request.ts'
import type { CallServices } from './call-services.ts'
import { callTool } from './call-tool.ts'
import { checkReady } from './check-ready.ts'
import { noteEnded } from './note-ended.ts'
import { OutcomeKeeper } from './outcome-keeper.ts'
import { cancelOwnCall, listOwnCalls, readOwnCall } from './own-call.ts'
import { Readiness } from './readiness.ts'
import { RunningCalls } from './running-calls.ts'
import { StartingCalls } from './starting-calls.ts'
import { StoreWatch } from './store-watch.ts'

const CANCEL_POLL_MS = 1_000
const RECOVERY_POLL_MS = 5_000
const EXPIRY_POLL_MS = 1_000
const CANCEL_WAIT_MS = 5_000

const BUDGET_TIDY_MS = 5_000

type Made =
  | 'running'
  | 'starting'
  | 'readiness'
  | 'keeper'
  | 'sessions'
  | 'feed'
  | 'limits'
  | 'budgets'
  | 'refusals'
  | 'consents'
  | 'broker'
  | 'refresher'
  | 'waits'
  | 'places'
  | 'callStep'

export interface CallDeskOptions extends Omit<CallServices, Made> {
  readonly broker?: TokenBroker
  /** Where changes of tools are told; default one that nobody tells anything. */
  readonly catalogChanges?: CatalogChanges
  /** Default none. */
  readonly limits?: LimitSettings
  readonly budgets?: readonly BudgetRule[]
  /** How late the event loop has been for some time, if somebody looks. */
  readonly delayMs?: () => number
  /** Told of every call that a limit refused. */
  readonly onLimitRefused?: (name: LimitName) => void
  /** Whether approvers can sign in, so that links alone decide nothing (rule 23). */
  readonly canSignIn?: boolean
  /** Told of approvers who were refused (rule 30a). */
  readonly onApproverDenied?: ApprovalDeskOptions['onDenied']
}

/** A gateway with its lifetime: takes calls, looks after the store's health and other writers, and drains at the end. */
export interface CallDesk extends Gateway {
  readonly store: Store
  readonly running: RunningCalls
  /** For whoever ends consents outside of calls. */
  readonly consents: Pick<ConsentTeller, 'resolve'>
  /** Stops taking calls, lets running ones finish for `graceMs`, then cancels them; the first grace counts. */
  drain(graceMs: number): Promise<void>
}

export function openCallDesk(options: CallDeskOptions): CallDesk {
  const { store, clock, log, registry } = options
  const running = new RunningCalls()
  const watch = new StoreWatch({ store, log, keeper: () => keeper, readiness: () => readiness })
  const keeper = new OutcomeKeeper({ store, clock, log, onKept: () => watch.start() })
  const readiness = new Readiness(() => watch.start())
  const changes = new StoreChanges(() => store.changeMark())
  const feed = new RunFeed(changes)
  const onRefused = options.onLimitRefused ?? (() => undefined)
  const limits = new CallLimits({
    settings: options.limits ?? NO_LIMITS,
    clock,
    signs: {
      runs: () => running.slots,
      pendingWrites: () => store.pendingWrites,
      delayMs: options.delayMs ?? (() => 0),
    },
    onRefused,
  })
  const places = new WaitingPlaces({ limit: (options.limits ?? NO_LIMITS).waiting, onRefused })
  const budgets = new Budgets({ store: store.budgets, rules: options.budgets ?? [], clock, onRefused })
  const refusals = new RefusalTeller({ store, clock, log, feed })
  const consents = new ConsentTeller({ store, clock, log, feed })
  const { newSessionId, hooks } = options
  const sessions = new Sessions({ store, clock, log, registry, hooks, feed, keeper, limits, newSessionId })
  const { broker = NO_BROKER } = options
  const refresher = new TokenRefresher({ store, clock, log, broker })
  const waits = new ApprovalWaits(changes)
  const services: CallServices = {
    ...options,
    ...{
      running,
      starting: new StartingCalls(),
      readiness,
      keeper,
      sessions,
      feed,
      limits,
      budgets,
      refusals,
      consents,
      broker,
      refresher,
      waits,
      places,
      callStep: (principal: Principal, request: CallRequest, step: StepOrigin) =>
        callTool(services, principal, request, step),
    },
  }
  const approvals = new ApprovalDesk({
    store,
    clock,
    canSignIn: options.canSignIn ?? false,
    definitionOf: (tool) => registry.tools.find(({ id }) => id === tool)?.definitionHash,
    onChange: ({ record, run }) => noteEnded(services, [{ record, run }]),
    onDenied: (approver, facts) => options.onApproverDenied?.(approver, facts),
  })
  const timers = new Set<NodeJS.Timeout>()
  let drained: Promise<void> | undefined

  function every(ms: number, what: string, act: () => Promise<void>): void {
    const timer = setInterval(() => {
      act().catch((error: unknown) => log.error({ err: error }, `${what} failed`))
    }, ms)
    timers.add(timer.unref())
  }

  every(CANCEL_POLL_MS, 'looking for cancel requests', async () => {
    if (running.size === 0) return
    for (const { record } of await store.cancelRequests()) running.get(record)?.interrupt('cancel')
  })
  every(CANCEL_POLL_MS, 'looking for ended runs', () => sessions.closeEnded())
  every(RECOVERY_POLL_MS, 'recovery', async () => {
    const { ambiguous, deadWriters } = await store.recover(clock.nowMs())
    if (deadWriters > 0) feed.notifyAll()
    if (ambiguous > 0) log.warn({ ambiguous }, 'calls cut by a crash wait to be settled')
  })
  every(BUDGET_TIDY_MS, 'giving back unused budget', () => budgets.tidy())
  every(EXPIRY_POLL_MS, 'ending consents nobody gave', () => consents.expire())
  every(EXPIRY_POLL_MS, 'ending approvals nobody gave', async () => {
    noteEnded(services, await store.approvals.expire(clock.nowMs()))
    noteEnded(services, await store.workflows.expire(clock.nowMs()))
  })

  return {
    store,
    running,
    consents,
    approvals,
    catalogChanges: options.catalogChanges ?? new CatalogChanges(),
    toolkits: () => registry.toolkits,
    catalogFor: (principal) => registry.catalogFor(principal),
    call: (principal, request) => callTool(services, principal, request),
    listCalls: (principal, query) => listOwnCalls(services, principal, query),
    readCall: (principal, callId) => readOwnCall(services, principal, callId),
    cancelCall: (principal, callId) => cancelOwnCall(services, principal, callId),
    readRun: (principal, query) =>
      readOwnRun(services, principal, { ...query, waitMs: places.shorten(query.waitMs) }),
    admit: (principal) => limits.checkCaller(principal),
    enterWaiting: (principal) => places.enter(principal),
    endRun: (principal, runId) => endOwnRun(services, principal, runId),
    openSession: (principal, request) => {
      checkReady(services)
      limits.checkCaller(principal)
      return sessions.open(principal, request)
    },
    closeSession: (principal, sessionId) => sessions.close(principal, sessionId),
    findChallenge: async (id) => await store.findChallenge(id),
    isReady: () => readiness.isReady(),
    drain(graceMs) {
      drained ??= drain(graceMs)
      return drained
    },
  }

  async function drain(graceMs: number): Promise<void> {
    readiness.drain()
    // Whoever waits for a decision is told to come again.
    waits.close()
    if (!(await running.waitUntilIdle(graceMs))) {
      running.interruptAll('shutdown')
      await running.waitUntilIdle(CANCEL_WAIT_MS)
    }
    await sessions.closeAll()
    feed.close()
    watch.stop()
    await keeper.flush()
    await budgets
      .close()
      .catch((error: unknown) => log.warn({ err: error }, 'unused budget was not given back'))
    for (const timer of timers) clearInterval(timer)
  }
}
