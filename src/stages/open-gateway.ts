import { newSecretId } from '#kernel/base/hash'
import { newCallId } from '#kernel/base/ids'
import { NO_BROKER, type TokenBroker } from '#kernel/base/token-broker'
import { type KernelGateway, type KernelOptions, openKernel } from '#kernel/call/gateway'
import type { CallStages, StageContext } from '#kernel/call/stages'
import { TokenRefresher } from '#stages/credentials/credentials'
import { checkRequirements } from '#stages/credentials/requirements'
import { type BudgetRule, Budgets } from '#stages/limits/budgets'
import { CallLimits, watchLoad } from '#stages/limits/limits'
import { type LimitName, type LimitSettings, NO_LIMITS } from '#stages/limits/settings'
import { callWhereHeld, closeWhereHeld, type Hop } from '#stages/sessions/forward'
import { Sessions } from '#stages/sessions/sessions'
import { openStandingRules } from '#stages/standing-rules/standing-rules'
import { WorkflowRun } from '#stages/workflow/run'
import { endSteps } from '#stages/workflow/step'
import type { Store } from '#store/collet-store'
import { ConsentEvents, RefusalEvents } from './unstarted-events.ts'

/**
 * The product's gateway: the kernel with the stages for limits, sessions, credentials and workflows. The server, the embedded
 * gateway and tests open it.
 */

export interface RunningGatewayOptions
  extends Omit<KernelOptions, 'openStages' | 'store' | keyof NewIds>,
    Partial<NewIds> {
  readonly store: Store
  /** Renews tokens in the vault, and tells whether people can be asked for consent. */
  readonly broker?: TokenBroker
  /** The connection to processes that hold sessions; default none. */
  readonly hop?: Hop | undefined
  readonly limits?: LimitSettings
  readonly budgets?: readonly BudgetRule[]
  /** Recent delay of the event loop; default measured. */
  readonly delayMs?: () => number
  /** Called for every call that a limit refused. */
  readonly onLimitRefused?: (name: LimitName) => void
}

/** Functions that make ids; tests replace them. */
interface NewIds extends Pick<KernelOptions, 'newCallId' | 'newChallengeId'> {
  /** Returns an unguessable, URL-safe id, also for runs of sessions that name no run. */
  newSessionId(): string
}

type OpenOptions = RunningGatewayOptions & NewIds

type LiveRules = Pick<RunningGatewayOptions, 'approvalRules' | 'maxResultBytes' | 'limits' | 'budgets'>

export interface RunningGateway extends Omit<KernelGateway, 'updateRules' | 'store'> {
  readonly store: Store
  /** Records in runs how requests for consent ended outside of calls. */
  readonly consents: Pick<ConsentEvents, 'resolve'>
  updateRules(rules: LiveRules): void
}

type Context = StageContext & { readonly store: Store }

const KEYS_POLL_MS = 1_000
const BUDGET_TIDY_MS = 5_000
const ENDED_RUNS_POLL_MS = 1_000

export function openGateway(given: RunningGatewayOptions): RunningGateway {
  const options = { newCallId, newChallengeId: newSecretId, newSessionId: newSecretId, ...given }
  const { store, clock, onLimitRefused } = options
  const onRefused = (name: LimitName) => onLimitRefused?.(name)
  const budgets = new Budgets({ store: store.budgets, rules: options.budgets ?? [], clock, onRefused })
  let limits: CallLimits | undefined
  let consents: ConsentEvents | undefined
  const kernel = openKernel({
    ...options,
    openStages(kernelContext) {
      const context: Context = { ...kernelContext, store }
      limits = openLimits(options, budgets, context, onRefused)
      consents = new ConsentEvents(context)
      return {
        limits,
        sessions: sessionStage(options, limits, context),
        credentials: credentialStage(options, consents, context),
        workflows: workflowStage(context),
        resumptions: store.resumptions,
        standingRules: openStandingRules(store),
      }
    },
  })
  return {
    ...kernel,
    store,
    consents: { resolve: async (need, end) => await consents?.resolve(need, end) },
    updateRules(rules) {
      kernel.updateRules(rules)
      limits?.change(rules.limits ?? NO_LIMITS)
      budgets.change(rules.budgets ?? [])
    },
  }
}

function openLimits(
  options: RunningGatewayOptions,
  budgets: Budgets,
  context: Context,
  onRefused: (name: LimitName) => void,
): CallLimits {
  const { store, clock, running } = context
  context.every(BUDGET_TIDY_MS, 'returning unused budget', () => budgets.tidy())
  return new CallLimits({
    settings: options.limits ?? NO_LIMITS,
    clock,
    running,
    store,
    delayMs: options.delayMs ?? watchLoad(clock, context.every),
    sharedRates: store.isShared ? store.rates : undefined,
    budgets,
    refusals: new RefusalEvents(context),
    onRefused,
  })
}

function sessionStage(
  { hop, newSessionId }: OpenOptions,
  limits: CallLimits,
  context: Context,
): CallStages['sessions'] {
  const sessions = new Sessions({ ...context, limits, newSessionId, address: () => hop?.address() })
  const forwarding = { ...context, sessions, hop }
  context.every(ENDED_RUNS_POLL_MS, 'looking for ended runs', () => sessions.closeEnded())
  return {
    newId: () => sessions.newId(),
    find: (principal, userId, sessionId) => sessions.find(principal, userId, sessionId),
    notFound: (principal, sessionId) => sessions.notFound(principal, sessionId),
    call: (principal, request) => callWhereHeld(forwarding, principal, request),
    open: (principal, request) => sessions.open(principal, request),
    close: (principal, sessionId, where) =>
      where === 'here'
        ? sessions.close(principal, sessionId)
        : closeWhereHeld(forwarding, principal, sessionId),
    closeRun: (run) => sessions.closeRun(run),
    closeAll: () => sessions.closeAll(),
  }
}

function credentialStage(
  { broker = NO_BROKER, newChallengeId, publicUrl }: OpenOptions,
  consents: ConsentEvents,
  context: Context,
): CallStages['credentials'] {
  const { store, every } = context
  const refresher = new TokenRefresher({ ...context, broker })
  const needs = { ...context, broker, refresher, consents, newChallengeId, publicUrl }
  // A change of the master key waits until every process has read the new keys.
  every(KEYS_POLL_MS, 'reading new keys', () => store.keyChange.follow())
  return {
    check: (requiring) => checkRequirements(needs, requiring),
    expire: () => consents.expire(),
    findChallenge: async (id) => await store.findChallenge(id),
  }
}

function workflowStage(context: Context): CallStages['workflows'] {
  const needs = { ...context, callStep: context.callTool }
  return {
    run: (running, runContext, input) => new WorkflowRun(needs, running, runContext).run(input),
    endSteps: (parent, ended) => endSteps(needs, parent, ended),
    store: context.store.workflows,
  }
}
