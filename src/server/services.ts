import { defined } from '#kernel/base/json'
/**
 * The services behind every protocol: store, tools, sources, the gateway, and background work on the store. `collet serve`,
 * `collet mcp` and the embedded gateway open them. Each is a part, so that a failed start closes what is already open.
 */

import type { Settings } from '#config/settings'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import type { Listener } from '#egress/policy'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import { LiveRegistry } from '#kernel/tool/catalog'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { NO_TOOLSETS } from '#kernel/tool/toolsets'
import { OAuthBroker } from '#oauth/broker'
import { storedClients } from '#oauth/registration'
import { startAlerts } from '#server/alerts/alerts'
import { createDenialLog, type NoteDenial } from '#server/telemetry/denials'
import { RejectionLog } from '#server/telemetry/rejections'
import type { RequestTelemetry } from '#sources/kit/source'
import type { LimitName } from '#stages/limits/settings'
import { openGateway, type RunningGateway, type RunningGatewayOptions } from '#stages/open-gateway'
import type { Hop } from '#stages/sessions/forward'
import type { Store } from '#store/collet-store'
import { openStore } from '#store/stores'
import { CallLogs } from './calls/call-logs.ts'
import { type Live, openParts, type Parts, type ServerPart } from './part.ts'
import { isSame } from './reload.ts'
import { canBindConsents } from './safety.ts'
import { openServerSearch, type ServerSearch } from './search/server-search.ts'
import { configuredHosts, type OpenSources, openSources } from './sources.ts'
import { startOutbox } from './webhooks/outbox.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Stands in the audit stream for an unknown program that changed rows without the key of the store. */
const UNKNOWN_WRITER = { id: 'database', tenant: DEFAULT_TENANT }

/** Values by the secret ids that tools declare. */
export type LentSecrets = ReadonlyMap<string, Secret>

interface ServicesOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Base of the URLs that the server hands out (OTC/T-16). */
  publicUrl(): string
  /** URL of the console, if this server has one. */
  consoleUrl?(): string | undefined
  /** Base of the URLs of approvals, if their pages are served elsewhere. */
  approvalsUrl?(): MaybePromise<string>
  /** Port of the listener; absent or 0 = no listener, or a port that the system chooses. */
  readonly port?: number
  /** Addresses that this process listens on: no tool may reach them (rule 33). */
  readonly ownListeners?: readonly Listener[]
  readonly onCommit?: (changes: number, durationMs: number) => void
  readonly onLimitRefused?: (name: LimitName) => void
  readonly onAmbiguous?: (calls: number) => void
  readonly catalogChanges?: CatalogChanges | undefined
  /** Explains exceptions of tools to callers; default: they are only logged. */
  readonly explainThrown?: (thrown: unknown) => string
  /** Secrets that the person at this machine lends to their own calls, by id. */
  readonly lentSecrets?: LentSecrets
  /** Records the requests of sources to their upstreams; absent if no telemetry is exported. */
  readonly telemetry?: RequestTelemetry | undefined
  /** The connection to replicas that hold sessions. */
  readonly hop?: Hop
}

export interface Services extends ServerPart {
  readonly gateway: RunningGateway
  /** The guarded `fetch` for addresses that the configuration names: issuers, providers, webhooks (rule 33). */
  readonly fetch: typeof fetch
  readonly broker: OAuthBroker
  /** All current tools, from code and from sources. */
  readonly registry: LiveRegistry
  readonly sources: OpenSources
  readonly search: ServerSearch
  /** Writes a refusal to the audit stream (rule 30a). */
  readonly noteDenial: NoteDenial
  /** Counts rejected requests in the store. */
  readonly rejections: RejectionLog
  /** Collects what tools log during calls. */
  readonly logs: CallLogs
  /** Closes everything. Calls that still run are cancelled, so drain the gateway first. */
  close(): Promise<void>
}

/** Opens tools, calls, store, recovery and retention. Needs no network. */
export async function openServices(settings: Settings, options: ServicesOptions): Promise<Services> {
  return await openParts(async (parts) => {
    const { clock, log, publicUrl } = options
    const ownListeners = () => options.ownListeners ?? []
    const egress = parts.add(openEgress(settings, ownListeners))
    const { dataFolder, masterKey, oldMasterKey, migrates } = settings
    const store = await openStore(settings.store, {
      ...{ dataFolder, masterKey, oldMasterKey, migrates, port: options.port, onCommit: options.onCommit },
      mode: 'server',
      onForeign: (row, table) => noteForeignRow(row, table),
    })
    parts.add({ close: () => store.close() })
    parts.add(countCalls(store, { log }))
    const webhooks = parts.add(listenForNotices(store, settings))
    const denials = parts.add(createDenialLog(store, { clock, log }))
    const noteForeignRow = (row: string, table: string): void => {
      log.error({ row }, 'a stored row was changed by someone without the key, and is refused')
      // The tenant in the row may be forged, so the denial does not name it; the log names the row.
      denials.note(UNKNOWN_WRITER, { action: 'store.read', resource: table, reason: 'changed_row' })
    }
    const rejections = parts.add(new RejectionLog({ store: store.rejections, clock, log }))
    const { catalogChanges = new CatalogChanges() } = options
    const registry = openRegistry(parts, settings, catalogChanges)
    const clients = storedClients({ store, clock, publicUrl })
    const broker = createBroker(settings, { fetch: egress.configuredFetch, clock, log, clients })
    const sources = parts.add(
      openSources(settings, {
        ...{ registry, catalogChanges, store, clock, log, ownListeners, broker },
        telemetry: options.telemetry,
      }),
    )
    const canSignIn = broker.signIn !== undefined
    const logs = parts.add(new CallLogs({ store: store.callLogs, clock, log }))
    const gateway = openServerGateway(
      parts,
      settings,
      { ...options, log: logs.log },
      {
        ...{ store, registry, catalogChanges, broker, canSignIn },
        fetch: egress.fetch,
        onApproverDenied: denials.note,
      },
    )
    await gateway.recover()
    parts.add(startRetention(store, settings, { clock, log }))
    parts.add(
      startOutbox({
        ...{ store, fetch: egress.configuredFetch, clock, log, publicUrl, canSignIn },
        webhooks: () => webhooks.current,
        consoleUrl: () => options.consoleUrl?.(),
      }),
    )
    parts.add(watchAlerts(settings, { store, sources, clock, log }))
    const search = openServerSearch(settings, { registry, store, sources, clock, log })
    await sources.sources.start()
    return {
      ...{ gateway, broker, registry, sources, search, rejections, logs, noteDenial: denials.note },
      fetch: egress.configuredFetch,
      onReload: (next) => parts.onReload(next),
      close: () => parts.close(),
    }
  })
}

interface Egress extends ServerPart {
  /** The guarded `fetch` for tools. */
  readonly fetch: GuardedFetch
  /** The guarded `fetch` for addresses in the configuration. The operator wrote them, so they may be local; redirects are still guarded. */
  readonly configuredFetch: typeof fetch
}

function openEgress({ egress, ...settings }: Settings, ownListeners: () => readonly Listener[]): Egress {
  const open = (hosts: readonly string[]): GuardedFetch =>
    createGuardedFetch({ ...egress, allow: [...egress.allow, ...hosts], ownListeners })
  const forTools = open([])
  let hosts = configuredHosts(settings)
  // The last entry is used; requests through earlier entries may still be under way.
  const forConfigured = [open(hosts)]
  return {
    fetch: forTools,
    configuredFetch: (...request) => (forConfigured.at(-1) ?? forTools)(...request),
    onReload(next): undefined {
      if (isSame(hosts, configuredHosts(next))) return
      hosts = configuredHosts(next)
      forConfigured.push(open(hosts))
    },
    async close() {
      for (const each of [forTools, ...forConfigured]) await each.close()
    },
  }
}

/** The store records notices only for the webhooks that it knows. */
function listenForNotices(
  { notices }: Pick<Store, 'notices'>,
  settings: Pick<Settings, 'webhooks'>,
): ServerPart & Live<NonNullable<Settings['webhooks']>> {
  const listen = ({ webhooks = [] }: Pick<Settings, 'webhooks'>) => {
    notices.listen(webhooks)
    return webhooks
  }
  const live = {
    current: listen(settings),
    onReload(next: Settings): undefined {
      live.current = listen(next)
    },
  }
  return live
}

function watchAlerts(
  settings: Settings,
  context: Pick<ServicesOptions, 'clock' | 'log'> & {
    readonly store: Store
    readonly sources: OpenSources
  },
): ServerPart {
  let { alerts = [], budgets } = settings
  const running = startAlerts({
    ...context,
    rules: () => alerts,
    budgets: () => budgets,
    sources: () => context.sources.sources.status(),
  })
  return {
    onReload(next): undefined {
      ;({ alerts = [], budgets } = next)
    },
    close: running.close,
  }
}

function openRegistry(
  parts: Parts,
  { tools, toolkits, toolsets }: Settings,
  catalogChanges: CatalogChanges,
): LiveRegistry {
  const registry = new LiveRegistry(tools, toolkits, catalogChanges, toolsets)
  parts.add({
    onReload({ toolsets: next = NO_TOOLSETS }): undefined {
      if (!isSame(next, registry.toolsets)) registry.regroup(next)
    },
  })
  return registry
}

type GatewayServices =
  | 'store'
  | 'registry'
  | 'catalogChanges'
  | 'broker'
  | 'fetch'
  | 'canSignIn'
  | 'onApproverDenied'

function openServerGateway(
  parts: Parts,
  settings: Settings,
  options: ServicesOptions,
  services: Pick<RunningGatewayOptions, GatewayServices>,
): RunningGateway {
  const { clock, log, publicUrl, approvalsUrl, hop, explainThrown, onLimitRefused, onAmbiguous } = options
  const gateway = openGateway({
    ...services,
    ...{ clock, log, hop, explainThrown, publicUrl, hooks: settings.hooks },
    ...defined({ approvalsUrl, onLimitRefused, onAmbiguous }),
    ...rulesOf(settings),
  })
  parts.add({
    onReload: (next) => void gateway.updateRules(rulesOf(next)),
    close: () => gateway.drain(0),
  })
  return lendSecrets(gateway, options.lentSecrets)
}

function rulesOf({ approvals, limits, budgets, calls: { maxResultBytes } }: Settings) {
  return { approvalRules: approvals, limits, budgets, maxResultBytes }
}

/**
 * Adds the secrets to the calls of the person at this machine. A secret that the caller sends takes precedence. Like all secrets,
 * lent secrets reach only tools that declare them, and are never stored.
 */
function lendSecrets(gateway: RunningGateway, lent: LentSecrets | undefined): RunningGateway {
  if (lent === undefined || lent.size === 0) return gateway
  return {
    ...gateway,
    call: (principal, request) =>
      principal.isLocal === true
        ? gateway.call(principal, { ...request, secrets: new Map([...lent, ...request.secrets]) })
        : gateway.call(principal, request),
  }
}

/** The OAuth providers of the config. Users are not asked for consent if another user could give it unnoticed (rule 25). */
export function createBroker(
  settings: Pick<Settings, 'oauth' | 'server'>,
  parts: Pick<ConstructorParameters<typeof OAuthBroker>[0], 'fetch' | 'clock' | 'log' | 'clients'>,
): OAuthBroker {
  return new OAuthBroker({ settings: settings.oauth, canBind: canBindConsents(settings), ...parts })
}

const FLUSH_EVERY_MS = 2_000
const CATCH_UP_EVERY_MS = 60_000

/** Writes the counts of calls every two seconds, and counts once a minute what no process has counted. No call waits for it. */
function countCalls(
  { rollups }: Pick<Store, 'rollups'>,
  { log }: { readonly log: Logger },
): { close(): Promise<void> } {
  const round = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work()
    } catch (err) {
      log.warn({ err }, `${what}; they are counted later from the journal`)
    }
  }
  const flush = () => round('counts of calls could not be written', rollups.flush)
  const stopped = new AbortController()
  const catchUp = () =>
    round('calls of stopped processes could not be counted', () => rollups.catchUp(stopped.signal))
  rollups.collect()
  const timers = [setInterval(flush, FLUSH_EVERY_MS), setInterval(catchUp, CATCH_UP_EVERY_MS)]
  for (const timer of timers) timer.unref()
  // Counts what a crash left before the first overview is read.
  const started = catchUp()
  return {
    async close() {
      for (const timer of timers) clearInterval(timer)
      stopped.abort()
      await started
      await flush()
    },
  }
}

const ROUND_MS = 60_000
const PAUSE_BETWEEN_STEPS_MS = 20

interface RetentionTimes {
  readonly calls: Pick<Settings['calls'], 'retentionHours'>
  readonly journal: Pick<Settings['journal'], 'retentionDays'>
}

/** Deletes expired results and journal groups in the background, a small step at a time (rule 13). */
export function startRetention(
  store: Pick<Store, 'takeTurn' | 'purge'>,
  { calls, journal }: RetentionTimes,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): { close(): void } {
  const policy = { resultsMs: calls.retentionHours * HOUR_MS, journalMs: journal.retentionDays * DAY_MS }
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  let isOurTurn = false
  const next = (delayMs: number): void => {
    if (isStopped) return
    timer = setTimeout(step, delayMs).unref()
  }
  const step = async (): Promise<void> => {
    try {
      // One replica does all steps of a round; the next round may be done by another.
      isOurTurn ||= await store.takeTurn('retention', ROUND_MS / 2)
      isOurTurn &&= await store.purge(clock.nowMs(), policy)
      next(isOurTurn ? PAUSE_BETWEEN_STEPS_MS : ROUND_MS)
    } catch (error) {
      isOurTurn = false
      log.error({ err: error }, 'retention failed and is retried in a minute')
      next(ROUND_MS)
    }
  }
  next(ROUND_MS)
  return {
    close() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}
