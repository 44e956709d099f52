import { randomBytes, randomUUID } from 'node:crypto'
import type { Settings } from '#config/settings'
import { type CallDesk, openCallDesk } from '#core/calls/gateway'
import { startRetention } from '#core/journal/chain'
import type { LimitName } from '#core/limits/settings'
import type { RecoveryReport } from '#core/ports/store'
import { DEFAULT_TENANT } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { CatalogChanges, LiveRegistry } from '#core/tools/catalog'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Listener } from '#egress/policy'
import type { OAuthBroker } from '#oauth/broker'
import { startApprovalWebhooks } from './approval-webhooks.ts'
import { configuredHosts } from './configured-hosts.ts'
import { createBroker } from './create-broker.ts'
import { createDenialLog, type NoteDenial } from './denial-log.ts'
import { type LoadWatch, startLoadWatch } from './load-watch.ts'
import { type OpenSources, openSources } from './open-sources.ts'
import { openStore } from './open-store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const CHALLENGE_ID_BYTES = 24
const SESSION_ID_BYTES = 24
/** Whoever wrote into the database past the server: nobody knows who, and all tenants are in it. */
const UNKNOWN_WRITER = { id: 'database', tenant: DEFAULT_TENANT }

export interface OpenGatewayOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Base of the URLs we hand out (T-16). */
  publicUrl(): string
  /** What this process listens on: no tool may reach it (rule 33). */
  ownListeners?(): readonly Listener[]
  onCommit(changes: number, durationMs: number): void
  onLimitRefused?(name: LimitName): void
  readonly catalogChanges?: CatalogChanges
}

export interface OpenGateway {
  readonly desk: CallDesk
  /** The guarded way to what the operator's configuration names: issuers, providers, webhooks (rule 33). */
  readonly fetch: typeof fetch
  readonly broker: OAuthBroker
  /** All tools there are now, of code and of sources. */
  readonly registry: LiveRegistry
  readonly sources: OpenSources
  /** Writes a refusal to the audit stream (rule 30a). */
  readonly noteDenial: NoteDenial
  /** Lets running calls finish for `graceMs`, cancels the rest, closes the store. */
  close(graceMs: number): Promise<void>
}

/** The part behind every protocol: tools, calls, store, recovery and retention. Needs no network. */
export async function openGateway(settings: Settings, options: OpenGatewayOptions): Promise<OpenGateway> {
  const { clock, log } = options
  const guardedFetch = createGuardedFetch({
    ...settings.egress,
    ownListeners: () => options.ownListeners?.() ?? [],
  })
  // The operator wrote these addresses down, so they may be local; where they lead is guarded all the same.
  const configuredFetch = createGuardedFetch({
    ...settings.egress,
    allow: [...settings.egress.allow, ...configuredHosts(settings)],
    ownListeners: () => options.ownListeners?.() ?? [],
  })
  const store = openStore(settings.store, {
    dataFolder: settings.dataFolder,
    masterKey: settings.masterKey,
    mode: 'server',
    onCommit: options.onCommit,
    onForeign: (row, table) => {
      log.error({ row }, 'a stored row was changed by somebody without the key, and is refused')
      // What the row says is somebody else's text, its tenant too; which one it is stands in the log.
      denials.note(UNKNOWN_WRITER, { action: 'store.read', resource: table, reason: 'changed_row' })
    },
  })
  const catalogChanges = options.catalogChanges ?? new CatalogChanges()
  const registry = new LiveRegistry(settings.tools, settings.toolkits, catalogChanges)
  const denials = createDenialLog({ store, clock, log })
  const load = startLoadWatch(clock)
  const broker = createBroker(settings, { fetch: configuredFetch, clock, log })
  const desk = openCallDesk({
    registry,
    store,
    clock,
    log,
    fetch: guardedFetch,
    hooks: settings.hooks,
    broker,
    canSignIn: broker.signIn !== undefined,
    approvalRules: settings.approvals,
    newCallId: randomUUID,
    newChallengeId: () => randomBytes(CHALLENGE_ID_BYTES).toString('base64url'),
    newSessionId: () => randomBytes(SESSION_ID_BYTES).toString('base64url'),
    publicUrl: options.publicUrl,
    maxResultBytes: settings.calls.maxResultBytes,
    limits: settings.limits,
    budgets: settings.budgets,
    delayMs: load.delayMs,
    onLimitRefused: (name) => options.onLimitRefused?.(name),
    onApproverDenied: denials.note,
    catalogChanges,
  })
  const sources = openSources(settings, {
    ...{ registry, store, clock, log },
    ownListeners: () => options.ownListeners?.() ?? [],
  })
  const { ambiguous } = await recoverOrClose(desk, load, clock.nowMs())
  if (ambiguous > 0)
    log.warn({ ambiguous }, 'calls cut by a crash wait to be settled: collet calls --state ambiguous')
  const retention = startRetention(
    store,
    {
      resultsMs: settings.calls.retentionHours * HOUR_MS,
      journalMs: settings.journal.retentionDays * DAY_MS,
    },
    { clock, log },
  )
  const webhooks = startApprovalWebhooks({
    approvals: store.approvals,
    rules: settings.approvals,
    fetch: configuredFetch,
    clock,
    log,
    canSignIn: broker.signIn !== undefined,
    publicUrl: options.publicUrl,
  })
  await sources.desk.start()
  return {
    ...{ desk, registry, sources },
    fetch: configuredFetch,
    broker,
    noteDenial: denials.note,
    async close(graceMs) {
      load.stop()
      retention.stop()
      await webhooks.stop()
      await desk.drain(graceMs)
      await sources.desk.close()
      await denials.close()
      await guardedFetch.close()
      await configuredFetch.close()
      await store.close()
    },
  }
}

/** A start that fails here must leave nothing open behind it. */
async function recoverOrClose(desk: CallDesk, load: LoadWatch, nowMs: number): Promise<RecoveryReport> {
  try {
    return await desk.store.recover(nowMs)
  } catch (error) {
    load.stop()
    await desk.drain(0)
    await desk.store.close()
    throw error
  }
}
