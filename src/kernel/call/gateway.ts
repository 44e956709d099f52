import { type ApprovalRules, Approvals, type ApprovalsOptions } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { fault, StoreError } from '#kernel/base/errors'
import type { Hooks } from '#kernel/base/hooks'
import { type Logger, OutageLog } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import {
  ApprovalWaits,
  endOwnRun,
  noteEnded,
  RunFeed,
  type RunPage,
  type RunQuery,
  readOwnRun,
  StoreChanges,
} from '#kernel/run/runs'
import type { NotifyChange } from '#kernel/store/engine'
import type { KernelStore } from '#kernel/store/store'
import type { Catalog, ToolSet } from '#kernel/tool/catalog'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import type { CallReply, CallRequest, CallsPage, CallsQuery, CallView } from './call.ts'
import { type CallNeeds, callTool } from './call-tool.ts'
import { StartingCalls } from './look-up.ts'
import { cancelOwnCall, listOwnCalls, readOwnCall } from './own-calls.ts'
import { RunningCalls } from './running.ts'
import {
  type ChallengeRecord,
  NO_STAGES,
  type OpenedSession,
  type OpenStages,
  type Release,
  type SessionRequest,
} from './stages.ts'

/**
 * The gateway: wires the kernel's parts together, runs their timers, closes them, and decides whether new calls are accepted.
 * `open-gateway.ts` adds the product's stages; an embedder can open the kernel alone. After `drain` no call or timer is left. While
 * the store fails, one loop probes it and writes the outcomes that it refused (rule 11); recorded outcomes are still returned.
 */

const CANCEL_POLL_MS = 1_000
const RECOVERY_POLL_MS = 5_000
const EXPIRY_POLL_MS = 1_000
const CANCEL_WAIT_MS = 5_000

export interface KernelOptions {
  readonly registry: ToolSet
  readonly store: KernelStore
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly hooks: Hooks
  readonly approvalRules: ApprovalRules
  readonly maxResultBytes: number
  /** Returns a UUID v4 (OTC/T-24). */
  newCallId(): string
  /** Returns an unguessable, URL-safe id for an approval or a challenge. */
  newChallengeId(): string
  /** Base of the URLs that the server hands out, never taken from a request (OTC/T-16). */
  publicUrl(): string
  /** Base of approval URLs, if their pages are served elsewhere. */
  approvalsUrl?(): MaybePromise<string>
  /** Announces changes to tools; default: no announcements. */
  readonly catalogChanges?: CatalogChanges
  /** Opens the stages that are not part of the kernel; default: no stages. */
  readonly openStages?: OpenStages
  /** Explains exceptions thrown by tools, if the tools' author is the only caller. Default: exceptions are only logged. */
  readonly explainThrown?: ((thrown: unknown) => string) | undefined
  /** Called with the number of calls that a crash interrupted and whose effect is unknown. */
  readonly onAmbiguous?: (calls: number) => void
  /** Whether approvers can sign in, so that a link alone is not enough to decide (rule 23). */
  readonly canSignIn?: boolean
  /** Called when an approver is refused (rule 30a). */
  readonly onApproverDenied?: ApprovalsOptions['onDenied']
}

/** A gateway with its lifecycle: it accepts calls, watches the store and other writers, and drains at the end. */
export interface KernelGateway extends Gateway {
  /** Settles the calls that dead servers left running, and notifies requests that wait for them. */
  recover(): Promise<void>
  readonly store: KernelStore
  readonly running: RunningCalls
  /** Handles the calls that other processes forward to this one, without forwarding them again. */
  readonly here: Pick<Gateway, 'call' | 'closeSession'>
  /** Applies new rules to later checks. A check that a call has passed is not repeated. */
  updateRules(rules: LiveRules): void
  /** Reports the gateway as not ready, for load balancers, but accepts calls until `drain`. */
  announceStop(): void
  /** Refuses new calls, waits up to `graceMs` for running calls, then cancels them. Repeated drains return the first promise. */
  drain(graceMs: number): Promise<void>
}

type LiveRules = Pick<KernelOptions, 'approvalRules' | 'maxResultBytes'>

export function openKernel(options: KernelOptions): KernelGateway {
  const { store, clock, log, registry } = options
  const running = new RunningCalls()
  const health = new StoreHealth(store, log)
  const changes = new StoreChanges(store)
  const feed = new RunFeed(changes)
  const timers = new Set<NodeJS.Timeout>()

  const logged = (what: string, act: () => Promise<void>) => () => {
    act().catch((error: unknown) => log.error({ err: error }, `${what} failed`))
  }
  const every = (ms: number, what: string, act: () => Promise<void>): void => {
    timers.add(setInterval(logged(what, act), ms).unref())
  }

  let drained: Promise<void> | undefined
  const waits = new ApprovalWaits(changes)
  const { hooks } = options
  let live: LiveRules = options
  const newCallId = () => options.newCallId()
  const stages = (options.openStages ?? NO_STAGES)({
    ...{ store, clock, log, registry, hooks, feed, waits, running, newCallId, every },
    unsaved: health.unsaved,
    callTool: (principal, request, step) => callTool(needs, principal, request, step),
  })
  const { limits, sessions, credentials, workflows, resumptions } = stages
  const needs: CallNeeds = {
    ...{ registry, store, clock, log, hooks, newCallId },
    ...{ running, health, changes, feed, waits, limits, sessions, credentials, workflows, resumptions },
    standingRules: stages.standingRules,
    fetch: options.fetch,
    explainThrown: options.explainThrown,
    get approvalRules() {
      return live.approvalRules
    },
    get maxResultBytes() {
      return live.maxResultBytes
    },
    newChallengeId: () => options.newChallengeId(),
    approvalsUrl: () => options.approvalsUrl?.() ?? options.publicUrl(),
    starting: new StartingCalls(),
    recover,
  }
  const approvals = new Approvals({
    store,
    clock,
    canSignIn: options.canSignIn ?? false,
    toolOf: (toolId) => registry.get(toolId),
    onChange: ({ record, run }) => noteEnded(needs, [{ record, run }]),
    onDenied: (approver, facts) => options.onApproverDenied?.(approver, facts),
  })
  async function recover(): Promise<void> {
    const { ambiguous, deadWriters } = await store.recover(clock.nowMs())
    if (deadWriters > 0) feed.notifyAll()
    if (ambiguous === 0) return
    log.warn(
      { ambiguous },
      'a crash interrupted calls whose effect is unknown; list them with: collet calls --state ambiguous',
    )
    options.onAmbiguous?.(ambiguous)
  }

  const pollCancellations = logged('looking for cancel requests', async () => {
    if (running.size === 0) return
    for (const { record } of await store.cancelRequests()) running.get(record)?.interrupt('cancel')
  })
  timers.add(setInterval(pollCancellations, CANCEL_POLL_MS).unref())
  // Other replicas announce rare changes, such as cancel requests, without a name.
  const onChange: NotifyChange = (names) => {
    if (names === undefined) pollCancellations()
  }
  if (store.isShared) changes.listen(onChange)
  every(RECOVERY_POLL_MS, 'recovery', async () => {
    if (!(await store.takeTurn('recovery', RECOVERY_POLL_MS / 2))) return
    await recover()
  })
  every(EXPIRY_POLL_MS, 'ending expired approvals and consents', async () => {
    if (!(await store.takeTurn('expiry', EXPIRY_POLL_MS / 2))) return
    await credentials.expire()
    noteEnded(needs, await store.approvals.expire(clock.nowMs()))
    noteEnded(needs, await workflows.store.expire(clock.nowMs()))
  })

  return {
    store,
    running,
    approvals,
    catalogChanges: options.catalogChanges ?? new CatalogChanges(),
    toolkits: () => registry.toolkits,
    catalogFor: (principal) => registry.catalogFor(principal),
    call: (principal, request) =>
      request.sessionId === undefined
        ? callTool(needs, principal, request)
        : sessions.call(principal, request),
    here: {
      call: (principal, request) => callTool(needs, principal, request),
      closeSession: (principal, sessionId) => sessions.close(principal, sessionId, 'here'),
    },
    listCalls: (principal, query) => listOwnCalls(needs, principal, query),
    readCall: (principal, callId) => readOwnCall(needs, principal, callId),
    cancelCall: (principal, callId) => cancelOwnCall(needs, principal, callId),
    readRun: (principal, query) =>
      readOwnRun(needs, principal, { ...query, waitMs: limits.shortenWait(query.waitMs) }),
    admit: (principal) => limits.checkCaller(principal),
    enterWaiting: (principal) => limits.enterWaiting(principal),
    endRun: (principal, runId) => endOwnRun(needs, principal, runId),
    openSession: async (principal, request) => {
      health.checkReady()
      await limits.checkCaller(principal)
      return await sessions.open(principal, request)
    },
    closeSession: (principal, sessionId) => sessions.close(principal, sessionId),
    findChallenge: (id) => credentials.findChallenge(id),
    isReady: () => health.unavailableReason() === undefined,
    unavailableReason: () => health.unavailableReason(),
    recover,
    updateRules(rules) {
      live = rules
    },
    announceStop: () => health.announceStop(),
    drain(graceMs) {
      drained ??= drain(graceMs)
      return drained
    },
  }

  async function drain(graceMs: number): Promise<void> {
    health.drain()
    // Callers that wait for a decision get `approval_required` and may repeat the call.
    waits.close()
    if (!(await running.waitUntilIdle(graceMs))) {
      running.interruptAll('shutdown')
      await running.waitUntilIdle(CANCEL_WAIT_MS)
    }
    await sessions.closeAll()
    feed.close()
    await health.close()
    await limits
      .close()
      .catch((error: unknown) => log.warn({ err: error }, 'unused budget could not be returned'))
    for (const timer of timers) clearInterval(timer)
    changes.ignore(onChange)
  }
}

/** The interface that every protocol and in-process code use. */
export interface Gateway {
  /** The frozen catalog that this principal may see; the same object until tools or scopes change. */
  catalogFor(principal: Principal): Catalog
  /** Notifies when tools are added, changed or removed. */
  readonly catalogChanges: CatalogChanges
  toolkits(): ReadonlyMap<string, string>
  /** Runs, replays or joins one call. A failed call does not throw: its failure is an outcome. */
  call(principal: Principal, request: CallRequest): Promise<CallReply>
  /** The principal's own call by its call id; `undefined` for any other call. */
  readCall(principal: Principal, callId: string): Promise<CallView | undefined>
  /** The principal's own calls, newest first, without their outcomes; a wrong cursor is a `ToolError`. */
  listCalls(principal: Principal, query: CallsQuery): Promise<CallsPage>
  /** Cancels a call and returns its view afterwards; `undefined` if the principal has no such call. */
  cancelCall(principal: Principal, callId: string): Promise<CallView | undefined>
  /** Events of one of the principal's own runs; waits for the next event if requested. `undefined` for any other run. */
  readRun(principal: Principal, query: RunQuery): Promise<RunPage | undefined>
  /** Counts other costly work towards the load and the caller's rate; throws a `ToolError` if a limit is reached. */
  admit(principal: Principal): MaybePromise<void>
  /** Counts a request that is held open until the returned function is called; throws a `ToolError` if there are too many. */
  enterWaiting(principal: Principal): Release
  /** Closes the run's sessions and refuses new calls in it; `false` if the principal has no such run. */
  endRun(principal: Principal, runId: string): Promise<boolean>
  /** Throws a `ToolError` if the tool is unknown or keeps no state, or if its state cannot be opened. */
  openSession(principal: Principal, request: SessionRequest): Promise<OpenedSession>
  /** Ends the calls running in the session and closes it; `false` if the principal has no such session. */
  closeSession(principal: Principal, sessionId: string): Promise<boolean>
  readonly approvals: Approvals
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
  /** False while the server stops, after a store write error, and while its lease on a shared store is in doubt. */
  isReady(): boolean
  /** Why the server is not ready; `undefined` while it is. */
  unavailableReason(): UnavailableReason | undefined
}

const FIRST_RETRY_MS = 250
const MAX_RETRY_MS = 2_000

/**
 * Why no new call is accepted, as a code that is safe to show to anyone: the process is stopping, its store refused a
 * write, or its lease on a shared store is in doubt. Details are in the log.
 */
type UnavailableReason = 'stopping' | 'store_unavailable' | 'lease_in_doubt'

export class StoreHealth {
  readonly unsaved: UnsavedOutcomes
  readonly #store: Pick<KernelStore, 'probe' | 'obstacle'>
  readonly #log: Logger
  readonly #outage: OutageLog
  #isStopAnnounced = false
  #isDraining = false
  #hasFailed = false
  #timer: NodeJS.Timeout | undefined
  #delayMs = FIRST_RETRY_MS
  #isClosed = false

  constructor(store: Pick<KernelStore, 'probe' | 'obstacle'>, log: Logger) {
    this.#store = store
    this.#log = log
    this.#outage = new OutageLog(log)
    this.unsaved = new UnsavedOutcomes(log, () => this.#watch())
  }

  unavailableReason(): UnavailableReason | undefined {
    return this.#isStopAnnounced || this.#isDraining ? 'stopping' : this.#storeReason()
  }

  #storeReason(): UnavailableReason | undefined {
    if (this.#hasFailed) return 'store_unavailable'
    const obstacle = this.#store.obstacle()
    if (obstacle === undefined) return undefined
    this.#outage.report({ obstacle }, 'the server accepts no new calls')
    return 'lease_in_doubt'
  }

  /**
   * OTC-68: no run starts while draining, or after a store write error (rule 11). An announced stop does not refuse calls yet.
   */
  checkReady(): void {
    if (!this.#isDraining && this.#storeReason() === undefined) return
    throw fault(
      'not_ready',
      'The tool server cannot take new calls right now. Nothing was run; try again shortly.',
      { retryAfterMs: 2_000 },
    )
  }

  announceStop(): void {
    this.#isStopAnnounced = true
  }

  drain(): void {
    this.#isDraining = true
  }

  /** After a store write error no new run starts until a probe succeeds (rule 11). */
  noteFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code === 'unreadable' || this.#hasFailed) return
    this.#hasFailed = true
    this.#watch()
  }

  /** Stops probing; tries to write unsaved outcomes one last time. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.unsaved.flush()
  }

  #watch(): void {
    if (this.#timer !== undefined || this.#isClosed) return
    this.#timer = setTimeout(() => void this.#probe(), this.#delayMs).unref()
  }

  async #probe(): Promise<void> {
    try {
      await this.#store.probe()
      const unsaved = await this.unsaved.flush()
      this.#hasFailed = false
      if (unsaved === 0) {
        this.#delayMs = FIRST_RETRY_MS
        this.#timer = undefined
        this.#log.info({}, 'the store accepts writes again')
        return
      }
      this.#outage.report({ unsaved }, 'outcomes still cannot be committed')
    } catch (error) {
      this.#outage.report({ err: error }, 'the store does not accept writes')
    }
    this.#timer = undefined
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_RETRY_MS)
    this.#watch()
  }
}

/** Outcomes that the store refused, kept until the store works again (rule 11). */
export class UnsavedOutcomes {
  readonly #log: Logger
  readonly #onKept: () => void
  readonly #writes = new Set<() => Promise<void>>()
  #flushing: Promise<number> | undefined

  constructor(log: Logger, onKept: () => void) {
    this.#log = log
    this.#onKept = onKept
  }

  keep(write: () => Promise<void>): void {
    this.#writes.add(write)
    this.#onKept()
  }

  /** Tries each kept write once, one after the other; returns how many are left. */
  flush(): Promise<number> {
    this.#flushing ??= this.#writeAll().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  /** One outcome that cannot be written must not delay the others. */
  async #writeAll(): Promise<number> {
    for (const write of [...this.#writes]) {
      try {
        await write()
        this.#writes.delete(write)
      } catch (error) {
        this.#log.debug({ err: error }, 'an outcome still cannot be committed')
      }
    }
    return this.#writes.size
  }
}
