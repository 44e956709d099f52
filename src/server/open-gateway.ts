import { randomBytes, randomUUID } from 'node:crypto'
import type { Settings } from '#config/settings'
import { type CallDesk, openCallDesk } from '#core/call/call-desk'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { RecoveryReport } from '#core/ports/store'
import { Registry } from '#core/registry'
import { startRetention } from '#core/retention'
import { startApprovalWebhooks } from './approval-webhooks.ts'
import { openStore } from './open-store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const CHALLENGE_ID_BYTES = 24
const SESSION_ID_BYTES = 24

export interface OpenGatewayOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Base of the URLs we hand out (T-16). */
  publicUrl(): string
  onCommit(changes: number, durationMs: number): void
}

export interface OpenGateway {
  readonly desk: CallDesk
  /** Lets running calls finish for `graceMs`, cancels the rest, closes the store. */
  close(graceMs: number): Promise<void>
}

/** The part behind every protocol: tools, calls, store, recovery and retention. Needs no network. */
export async function openGateway(settings: Settings, options: OpenGatewayOptions): Promise<OpenGateway> {
  const { clock, log } = options
  const store = openStore(settings.store, {
    dataFolder: settings.dataFolder,
    masterKey: settings.masterKey,
    mode: 'server',
    onCommit: options.onCommit,
  })
  const desk = openCallDesk({
    registry: new Registry(settings.tools, settings.toolkits),
    store,
    clock,
    log,
    fetch,
    hooks: settings.hooks,
    approvalRules: settings.approvals,
    newCallId: randomUUID,
    newChallengeId: () => randomBytes(CHALLENGE_ID_BYTES).toString('base64url'),
    newSessionId: () => randomBytes(SESSION_ID_BYTES).toString('base64url'),
    publicUrl: options.publicUrl,
    maxResultBytes: settings.calls.maxResultBytes,
  })
  const { ambiguous } = await recoverOrClose(desk, clock.nowMs())
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
    fetch,
    clock,
    log,
    publicUrl: options.publicUrl,
  })
  return {
    desk,
    async close(graceMs) {
      retention.stop()
      await webhooks.stop()
      await desk.drain(graceMs)
      await store.close()
    },
  }
}

/** A start that fails here must leave nothing open behind it. */
async function recoverOrClose(desk: CallDesk, nowMs: number): Promise<RecoveryReport> {
  try {
    return await desk.store.recover(nowMs)
  } catch (error) {
    await desk.drain(0)
    await desk.store.close()
    throw error
  }
}
