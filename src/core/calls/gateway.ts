import { type ApprovalRules, Approvals, type ApprovalsOptions } from '#core/approvals/approvals'
import type { CallReply, CallRequest, CallsPage, CallsQuery, CallView } from '#core/call'
import { TokenRefresher } from '#core/credentials/credentials'
import { type BudgetRule, Budgets } from '#core/limits/budgets'
import { CallLimits, type Release } from '#core/limits/limits'
import { type LimitName, type LimitSettings, NO_LIMITS } from '#core/limits/settings'
import type { ChallengeRecord, MaybePromise, Store, TellChange } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { ApprovalWaits, noteEnded, RunFeed, StoreChanges } from '#core/runs/feed'
import { ConsentEvents, RefusalEvents } from '#core/runs/notices'
import { endOwnRun, type RunPage, type RunQuery, readOwnRun } from '#core/runs/runs'
import { type OpenedSession, type SessionRequest, Sessions } from '#core/runs/sessions'
import { type Clock, type Hooks, type Logger, NO_BROKER, type TokenBroker } from '#core/runtime'
import { type Catalog, CatalogChanges, type ToolSet } from '#core/tools/catalog'
import { callTool } from './call-tool.ts'
import type { ExplainThrown } from './execute.ts'
import { callWhereHeld, closeWhereHeld, type ForwardNeeds, type Hop } from './forward.ts'
import { StartingCalls } from './look-up.ts'
import { cancelOwnCall, listOwnCalls, readOwnCall } from './own-calls.ts'
import { RunningCalls } from './running.ts'
import { type Hindrance, StoreHealth } from './store-health.ts'

const CANCEL_POLL_MS = 1_000
const RECOVERY_POLL_MS = 5_000
/** A change of the key waits for every process to have looked. */
const KEYS_POLL_MS = 1_000
const EXPIRY_POLL_MS = 1_000
const CANCEL_WAIT_MS = 5_000

const BUDGET_TIDY_MS = 5_000

export interface RunningGatewayOptions {
  readonly registry: ToolSet
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly hooks: Hooks
  readonly approvalRules: ApprovalRules
  readonly maxResultBytes: number
  /** UUID v4 (OTC/T-24). */
  newCallId(): string
  /** Unguessable, URL-safe. */
  newChallengeId(): string
  /** Unguessable, URL-safe; also for the runs of sessions that name none. */
  newSessionId(): string
  /** Base of the URLs we hand out, never taken from a request (OTC/T-16). */
  publicUrl(): string
  /** The same for approvals, where their pages are served elsewhere. */
  approvalsUrl?(): MaybePromise<string>
  /** Renews the tokens of the vault, and can ask people for more. */
  readonly broker?: TokenBroker
  /** Where changes of tools are announced; default one without announcements. */
  readonly catalogChanges?: CatalogChanges
  /** The way to processes that hold sessions; default none. */
  readonly hop?: Hop | undefined
  /** Default none. */
  readonly limits?: LimitSettings
  readonly budgets?: readonly BudgetRule[]
  /** Where only the author of the tools calls them: what they throw is explained to callers. Default: it stays in the log. */
  readonly explainThrown?: ExplainThrown | undefined
  /** How late the event loop has been for some time, if that is measured. */
  readonly delayMs?: () => number
  /** Called for every call that a limit refused. */
  readonly onLimitRefused?: (name: LimitName) => void
  /** So many calls were found cut, and nobody knows whether they took effect. */
  readonly onAmbiguous?: (calls: number) => void
  /** Whether approvers can sign in, so that links alone decide nothing (rule 23). */
  readonly canSignIn?: boolean
  /** Called for approvers who were refused (rule 30a). */
  readonly onApproverDenied?: ApprovalsOptions['onDenied']
}

/** A gateway with its lifetime: takes calls, looks after the store's health and other writers, and drains at the end. */
export interface RunningGateway extends Gateway {
  /** Decides what dead servers left running, and tells who waits for it. */
  recover(): Promise<void>
  readonly store: Store
  readonly running: RunningCalls
  /** What others pass on to this process: the same, and never passed on again. */
  readonly here: Pick<Gateway, 'call' | 'closeSession'>
  /** For consents that end outside of calls. */
  readonly consents: Pick<ConsentEvents, 'resolve'>
  /** Other rules from now on. What a call has passed is not asked of it again. */
  govern(rules: Governing): void
  /** Reports itself as not ready, for load balancers to see, and goes on taking calls until `drain`. */
  announceStop(): void
  /** Stops taking calls, lets running ones finish for `graceMs`, then cancels them; the first grace counts. */
  drain(graceMs: number): Promise<void>
}

/** The rules that may change while calls run. */
type Governing = Pick<RunningGatewayOptions, 'approvalRules' | 'maxResultBytes' | 'limits' | 'budgets'>

export function openGateway(options: RunningGatewayOptions): RunningGateway {
  const { store, clock, log, registry } = options
  const running = new RunningCalls()
  const health = new StoreHealth({ store, log })
  const changes = new StoreChanges(store)
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
    sharedRates: store.isShared ? store.rates : undefined,
    onRefused,
  })
  const budgets = new Budgets({ store: store.budgets, rules: options.budgets ?? [], clock, onRefused })
  const refusals = new RefusalEvents({ store, clock, log, feed })
  const consents = new ConsentEvents({ store, clock, log, feed })
  const { newSessionId, hooks } = options
  const { unsaved } = health
  const { hop } = options
  const address = () => hop?.address()
  const parts = { store, clock, log, registry, hooks, feed, unsaved, limits, address, newSessionId }
  const sessions = new Sessions(parts)
  const { broker = NO_BROKER } = options
  const refresher = new TokenRefresher({ store, clock, log, broker })
  const waits = new ApprovalWaits(changes)
  let governing: Governing = options
  const needs: ForwardNeeds = {
    ...{ registry, store, clock, log, hooks, broker, hop },
    fetch: options.fetch,
    explainThrown: options.explainThrown,
    get approvalRules() {
      return governing.approvalRules
    },
    get maxResultBytes() {
      return governing.maxResultBytes
    },
    newCallId: () => options.newCallId(),
    newChallengeId: () => options.newChallengeId(),
    publicUrl: () => options.publicUrl(),
    approvalsUrl: () => options.approvalsUrl?.() ?? options.publicUrl(),
    ...{ running, health, changes, sessions, feed, waits, limits, budgets, refusals, consents, refresher },
    starting: new StartingCalls(),
    recover,
    callStep: (principal, request, step) => callTool(needs, principal, request, step),
  }
  const approvals = new Approvals({
    store,
    clock,
    canSignIn: options.canSignIn ?? false,
    toolOf: (asked) => registry.tools.find(({ id }) => id === asked),
    onChange: ({ record, run }) => noteEnded(needs, [{ record, run }]),
    onDenied: (approver, facts) => options.onApproverDenied?.(approver, facts),
  })
  async function recover(): Promise<void> {
    const { ambiguous, deadWriters } = await store.recover(clock.nowMs())
    if (deadWriters > 0) feed.notifyAll()
    if (ambiguous === 0) return
    log.warn({ ambiguous }, 'calls cut by a crash wait to be settled: collet calls --state ambiguous')
    options.onAmbiguous?.(ambiguous)
  }

  const timers = new Set<NodeJS.Timeout>()
  let drained: Promise<void> | undefined

  function every(ms: number, what: string, act: () => Promise<void>): void {
    const timer = setInterval(() => {
      act().catch((error: unknown) => log.error({ err: error }, `${what} failed`))
    }, ms)
    timers.add(timer.unref())
  }

  async function heedCancels(): Promise<void> {
    if (running.size === 0) return
    for (const { record } of await store.cancelRequests()) running.get(record)?.interrupt('cancel')
  }

  every(CANCEL_POLL_MS, 'looking for cancel requests', heedCancels)
  // Rare changes of other replicas are told without a name.
  const onChange: TellChange = (names) => {
    if (names !== undefined) return
    heedCancels().catch((error: unknown) => log.error({ err: error }, 'looking for cancel requests failed'))
  }
  if (store.isShared) changes.listen(onChange)
  every(CANCEL_POLL_MS, 'looking for ended runs', () => sessions.closeEnded())
  every(RECOVERY_POLL_MS, 'recovery', async () => {
    if (!(await store.takeTurn('recovery', RECOVERY_POLL_MS / 2))) return
    await recover()
  })
  every(KEYS_POLL_MS, 'looking for new keys', () => store.keyChange.follow())
  every(BUDGET_TIDY_MS, 'giving back unused budget', () => budgets.tidy())
  every(EXPIRY_POLL_MS, 'ending what was not given in time', async () => {
    if (!(await store.takeTurn('expiry', EXPIRY_POLL_MS / 2))) return
    await consents.expire()
    noteEnded(needs, await store.approvals.expire(clock.nowMs()))
    noteEnded(needs, await store.workflows.expire(clock.nowMs()))
  })

  return {
    store,
    running,
    consents,
    approvals,
    catalogChanges: options.catalogChanges ?? new CatalogChanges(),
    toolkits: () => registry.toolkits,
    catalogFor: (principal) => registry.catalogFor(principal),
    call: (principal, request) => callWhereHeld(needs, principal, request),
    here: {
      call: (principal, request) => callTool(needs, principal, request),
      closeSession: (principal, sessionId) => sessions.close(principal, sessionId),
    },
    listCalls: (principal, query) => listOwnCalls(needs, principal, query),
    readCall: (principal, callId) => readOwnCall(needs, principal, callId),
    cancelCall: (principal, callId) => cancelOwnCall(needs, principal, callId),
    readRun: (principal, query) =>
      readOwnRun(needs, principal, { ...query, waitMs: limits.shortenWait(query.waitMs) }),
    admit: (principal) => limits.checkCaller(principal),
    enterWaiting: (principal) => limits.enterWaiting(principal),
    endRun: (principal, runId) => endOwnRun({ ...needs, sessions }, principal, runId),
    openSession: async (principal, request) => {
      health.checkReady()
      await limits.checkCaller(principal)
      return await sessions.open(principal, request)
    },
    closeSession: (principal, sessionId) => closeWhereHeld(needs, principal, sessionId),
    findChallenge: async (id) => await store.findChallenge(id),
    isReady: () => health.isReady(),
    hindrance: () => health.hindrance(),
    recover,
    govern(rules) {
      governing = rules
      limits.change(rules.limits ?? NO_LIMITS)
      budgets.change(rules.budgets ?? [])
    },
    announceStop: () => health.announceStop(),
    drain(graceMs) {
      drained ??= drain(graceMs)
      return drained
    },
  }

  async function drain(graceMs: number): Promise<void> {
    health.drain()
    // Callers that wait for a decision are asked to come again.
    waits.close()
    if (!(await running.waitUntilIdle(graceMs))) {
      running.interruptAll('shutdown')
      await running.waitUntilIdle(CANCEL_WAIT_MS)
    }
    await sessions.closeAll()
    feed.close()
    await health.close()
    await budgets
      .close()
      .catch((error: unknown) => log.warn({ err: error }, 'unused budget was not given back'))
    for (const timer of timers) clearInterval(timer)
    changes.ignore(onChange)
  }
}

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
  admit(principal: Principal): MaybePromise<void>
  /** Counts a request that is held open until it is released; a `ToolError` when there are too many. */
  enterWaiting(principal: Principal): Release
  /** Closes the run's sessions and lets nothing new begin in it; `false` when there is no such run. */
  endRun(principal: Principal, runId: string): Promise<boolean>
  /** Throws a `ToolError` for a tool that is unknown or keeps no state, and when its state cannot be opened. */
  openSession(principal: Principal, request: SessionRequest): Promise<OpenedSession>
  /** Ends what runs in it and closes it; `false` when the principal has no such session. */
  closeSession(principal: Principal, sessionId: string): Promise<boolean>
  /** Requests for approval: look at them, and answer them. */
  readonly approvals: Approvals
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
  /** Whether new calls are taken: false while starting, draining, or after a store write error. */
  isReady(): boolean
  /** Why they are not, in a word for everybody; `undefined` while they are. */
  hindrance(): Hindrance | undefined
}
