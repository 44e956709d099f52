import { randomBytes } from 'node:crypto'
import type { Settings } from '#config/settings'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import type { Listener } from '#egress/policy'
import type { Clock } from '#kernel/base/clock'
import { newCallId } from '#kernel/base/ids'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { RetentionPolicy } from '#kernel/store/module'
import { CatalogChanges, LiveRegistry } from '#kernel/tool/catalog'
import { NO_TOOLSETS } from '#kernel/tool/toolsets'
import { OAuthBroker } from '#oauth/broker'
import { createDenialLog, type NoteDenial } from '#server/telemetry/denials'
import { RejectionLog } from '#server/telemetry/rejections'
import type { LimitName } from '#stages/limits/settings'
import { openGateway, type RunningGateway } from '#stages/open-gateway'
import type { Hop } from '#stages/sessions/forward'
import type { Store } from '#store/collet-store'
import { openStore } from '#store/stores'
import { isSame } from './reload.ts'
import { canBindConsents, isOwnMachine } from './safety.ts'
import { configuredHosts, type OpenSources, openSources } from './sources.ts'
import { startOutbox } from './webhooks/outbox.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const CHALLENGE_ID_BYTES = 24
const SESSION_ID_BYTES = 24
/** A writer who changed the database past the server: nobody knows who, and all tenants are in it. */
const UNKNOWN_WRITER = { id: 'database', tenant: DEFAULT_TENANT }

/** Values by the ids that tools declare. */
export type LentSecrets = ReadonlyMap<string, Secret>

interface ServicesOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Base of the URLs we hand out (OTC/T-16). */
  publicUrl(): string
  /** Where the console is, if this server has one. */
  consoleUrl?(): string | undefined
  /** The same for approvals, where their pages are served elsewhere. */
  approvalsUrl?(): MaybePromise<string>
  /** Port of the listener to be; absent or 0 = none, or chosen by the system. */
  readonly port?: number
  /** What this process listens on: no tool may reach it (rule 33). */
  ownListeners?(): readonly Listener[]
  onCommit(changes: number, durationMs: number): void
  onLimitRefused?(name: LimitName): void
  onAmbiguous?(calls: number): void
  readonly catalogChanges?: CatalogChanges
  /** What callers hear of an exception; default nothing. */
  readonly explainThrown?: (thrown: unknown) => string
  /** Secrets that the person at this machine lends to their own calls, by id. */
  readonly lentSecrets?: LentSecrets
  /** The way to replicas that hold sessions. */
  readonly hop?: Hop
}

export interface Services {
  readonly gateway: RunningGateway
  /** The guarded way to what the operator's configuration names: issuers, providers, webhooks (rule 33). */
  readonly fetch: typeof fetch
  readonly broker: OAuthBroker
  /** All tools there are now, of code and of sources. */
  readonly registry: LiveRegistry
  readonly sources: OpenSources
  /** Writes a refusal to the audit stream (rule 30a). */
  readonly noteDenial: NoteDenial
  /** Counts rejected requests in the store. */
  readonly rejections: RejectionLog
  /** Other settings from now on, where they may change while calls run. */
  govern(next: Settings): Promise<void>
  /** Lets running calls finish for `graceMs`, cancels the rest, closes the store. */
  close(graceMs: number): Promise<void>
}

/** The part behind every protocol: tools, calls, store, recovery and retention. Needs no network. */
export async function openServices(settings: Settings, options: ServicesOptions): Promise<Services> {
  const { clock, log } = options
  const guardedFetch = createGuardedFetch({
    ...settings.egress,
    ownListeners: () => options.ownListeners?.() ?? [],
  })
  // The operator wrote these addresses down, so they may be local; where they lead is guarded all the same.
  const openConfigured = (hosts: readonly string[]): GuardedFetch =>
    createGuardedFetch({
      ...settings.egress,
      allow: [...settings.egress.allow, ...hosts],
      ownListeners: () => options.ownListeners?.() ?? [],
    })
  let live = settings
  let toConfigured = openConfigured(configuredHosts(settings))
  /** What they carry may still be on its way. */
  const earlier: GuardedFetch[] = []
  const configuredFetch: typeof fetch = (...request) => toConfigured(...request)
  const store = await openStore(settings.store, {
    dataFolder: settings.dataFolder,
    masterKey: settings.masterKey,
    oldMasterKey: settings.oldMasterKey,
    mode: 'server',
    migrates: settings.migrates,
    port: options.port,
    onCommit: options.onCommit,
    onForeign: (row, table) => {
      log.error({ row }, 'a stored row was changed by someone without the key, and is refused')
      // What the row says is another party's text, its tenant too; which one it is stands in the log.
      denials.note(UNKNOWN_WRITER, { action: 'store.read', resource: table, reason: 'changed_row' })
    },
  })
  store.notices.listen(settings.webhooks ?? [])
  const catalogChanges = options.catalogChanges ?? new CatalogChanges()
  const registry = new LiveRegistry(settings.tools, settings.toolkits, catalogChanges, settings.toolsets)
  const denials = createDenialLog({ store, clock, log })
  const load = startLoadWatch(clock)
  const broker = createBroker(settings, { fetch: configuredFetch, clock, log })
  const rejections = new RejectionLog({ store: store.rejections, clock, log })
  const opened = openGateway({
    registry,
    store,
    clock,
    log,
    fetch: guardedFetch,
    hooks: settings.hooks,
    broker,
    canSignIn: broker.signIn !== undefined,
    approvalRules: settings.approvals,
    newCallId,
    // People give it to commands, where a dash begins an option.
    newChallengeId: () => randomBytes(CHALLENGE_ID_BYTES).toString('base64url').replace(/^-/, '_'),
    newSessionId: () => randomBytes(SESSION_ID_BYTES).toString('base64url'),
    publicUrl: options.publicUrl,
    ...(options.approvalsUrl === undefined ? {} : { approvalsUrl: options.approvalsUrl }),
    hop: options.hop,
    maxResultBytes: settings.calls.maxResultBytes,
    limits: settings.limits,
    budgets: settings.budgets,
    delayMs: load.delayMs,
    onLimitRefused: (name) => options.onLimitRefused?.(name),
    onAmbiguous: (calls) => options.onAmbiguous?.(calls),
    onApproverDenied: denials.note,
    explainThrown: options.explainThrown,
    catalogChanges,
  })
  const gateway = lendSecrets(opened, options.lentSecrets)
  const sources = openSources(settings, {
    ...{ registry, store, clock, log },
    ownListeners: () => options.ownListeners?.() ?? [],
  })
  await recoverOrClose(gateway, load)
  const retention = startRetention(
    store,
    {
      resultsMs: settings.calls.retentionHours * HOUR_MS,
      journalMs: settings.journal.retentionDays * DAY_MS,
    },
    { clock, log },
  )
  const outbox = startOutbox({
    store,
    webhooks: () => live.webhooks ?? [],
    fetch: configuredFetch,
    clock,
    log,
    canSignIn: broker.signIn !== undefined,
    publicUrl: options.publicUrl,
    consoleUrl: () => options.consoleUrl?.(),
  })
  await sources.sources.start()
  return {
    ...{ gateway, registry, sources },
    fetch: configuredFetch,
    broker,
    noteDenial: denials.note,
    rejections,
    async govern(next) {
      const { approvals, limits, budgets, calls } = next
      const hosts = configuredHosts(next)
      if (!isSame(hosts, configuredHosts(live))) {
        earlier.push(toConfigured)
        toConfigured = openConfigured(hosts)
      }
      live = next
      store.notices.listen(next.webhooks ?? [])
      gateway.updateRules({ approvalRules: approvals, limits, budgets, maxResultBytes: calls.maxResultBytes })
      if (!isSame(next.toolsets, registry.toolsets)) registry.regroup(next.toolsets ?? NO_TOOLSETS)
      await sources
        .govern(next)
        .catch((err: unknown) => log.error({ err }, 'sources could not be opened anew; it is tried again'))
    },
    async close(graceMs) {
      load.stop()
      retention.stop()
      await outbox.stop()
      await gateway.drain(graceMs)
      await sources.sources.close()
      await denials.close()
      await rejections.close()
      await guardedFetch.close()
      for (const way of [...earlier, toConfigured]) await way.close()
      await store.close()
    },
  }
}

/**
 * The same gateway, where calls of the person at this machine bring these secrets along. What the caller sends wins, and
 * like everything that a caller sends they reach only tools that declare them and are never stored.
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

/** A start that fails here must leave nothing open behind it. */
async function recoverOrClose(gateway: RunningGateway, load: LoadWatch): Promise<void> {
  try {
    await gateway.recover()
  } catch (error) {
    load.stop()
    await gateway.drain(0)
    await gateway.store.close()
    throw error
  }
}

const LOOK_EVERY_MS = 100
/** One late look is a garbage collection or a tool that computes; so many in a row are overload. */
const LOOKS = 3

/** How late the event loop is, again and again. */
interface LoadWatch {
  /** The least of the last looks, so that only what lasts counts. */
  delayMs(): number
  stop(): void
}

export function startLoadWatch(clock: Clock): LoadWatch {
  const late = Array<number>(LOOKS).fill(0)
  let dueMs = clock.monotonicMs() + LOOK_EVERY_MS
  const timer = setInterval(() => {
    const nowMs = clock.monotonicMs()
    late.shift()
    late.push(Math.max(0, nowMs - dueMs))
    dueMs = nowMs + LOOK_EVERY_MS
  }, LOOK_EVERY_MS).unref()
  return { delayMs: () => Math.min(...late), stop: () => clearInterval(timer) }
}

/** The providers of the config. Nobody is asked for consent where it could be given for another user unseen (rule 25). */
export function createBroker(
  settings: Pick<Settings, 'oauth' | 'server'>,
  parts: { readonly fetch: typeof fetch; readonly clock: Clock; readonly log: Logger },
): OAuthBroker {
  return new OAuthBroker({ settings: settings.oauth, canBind: canBindConsents(settings), ...parts })
}

/** What an operator should know about who may consent. */
export function findConsentWarnings({
  oauth,
  server,
}: Pick<Settings, 'oauth' | 'server'>): readonly string[] {
  const names = Object.keys(oauth.providers)
  if (names.length === 0 || oauth.signIn !== undefined || isOwnMachine(server)) return []
  return oauth.allowUnboundConsent
    ? [
        'Anyone who has the link of a challenge can consent, because oauth.allowUnboundConsent is set and oauth.signIn is not.',
      ]
    : [`No user can be asked for access to ${names.join(', ')}: beyond this machine that needs oauth.signIn.`]
}

const ROUND_MS = 60_000
const PAUSE_BETWEEN_STEPS_MS = 20

/** Forgets what retention allows, a small step at a time, in the background (rule 13). */
export function startRetention(
  store: Store,
  policy: RetentionPolicy,
  world: { readonly clock: Clock; readonly log: Logger },
): { stop(): void } {
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let isOurs = false
  const next = (delayMs: number): void => {
    if (stopped) return
    timer = setTimeout(step, delayMs)
    timer.unref()
  }
  const step = async (): Promise<void> => {
    try {
      // A round has many steps; another replica takes the next one.
      isOurs ||= await store.takeTurn('retention', ROUND_MS / 2)
      isOurs &&= await store.purge(world.clock.nowMs(), policy)
      next(isOurs ? PAUSE_BETWEEN_STEPS_MS : ROUND_MS)
    } catch (error) {
      isOurs = false
      world.log.error({ err: error }, 'retention failed; it goes on later')
      next(ROUND_MS)
    }
  }
  next(ROUND_MS)
  return {
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
