import { randomBytes, randomUUID } from 'node:crypto'
import { createAuthenticator } from '#auth/authenticator'
import { findWeakCredentials } from '#auth/key-strength'
import { createStartToken } from '#auth/start-token'
import type { Settings } from '#config/settings'
import { openCallDesk } from '#core/call/call-desk'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { Registry } from '#core/registry'
import { startRetention } from '#core/retention'
import { otcRoutes } from '#protocols/otc/routes'
import { createAdminRoutes } from './admin-routes.ts'
import { createHttpApp } from './http-app.ts'
import { createLog, type ServerLog } from './log.ts'
import { isLoopback } from './loopback.ts'
import { createMetrics } from './metrics.ts'
import { createMetricsRoute } from './metrics-route.ts'
import { observeCalls } from './observe-calls.ts'
import { openStore } from './open-store.ts'
import { StartRefused } from './start-refused.ts'
import { createSpanExporter } from './tracing.ts'
import { VERSION } from './version.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** How long running calls may go on after a stop was asked for. */
const GRACE_MS = 10_000

export interface StartOptions {
  /** Serve other machines although no credential is configured. */
  readonly allowAnonymous?: boolean
  readonly log?: ServerLog
  readonly graceMs?: number
}

export interface RunningServer {
  readonly url: string
  readonly startTokenFile: string | undefined
  /** Weak credentials and the like: fine on loopback, worth a line. */
  readonly warnings: readonly string[]
  isReady(): boolean
  /** Answers but takes no new calls, so that a load balancer looks elsewhere; resolves when none runs any more. */
  drain(): Promise<void>
  /** Takes no new calls, lets running ones finish for the grace time, cancels the rest, closes everything. */
  close(): Promise<void>
}

/** Puts the house together: store, calls, protocols, HTTP. Everything opened here is closed by `close`. */
export async function startServer(settings: Settings, options: StartOptions = {}): Promise<RunningServer> {
  const warnings = checkExposure(settings, options.allowAnonymous ?? false)
  const clock = SYSTEM_CLOCK
  const log = options.log ?? createLog(settings.logLevel)
  const metrics = createMetrics()
  const authenticator = createAuthenticator(settings.auth, clock)
  const store = openStore(settings.store, {
    dataFolder: settings.dataFolder,
    masterKey: settings.masterKey,
    mode: 'server',
    onCommit: (rows, durationMs) => metrics.groupCommitted(rows, durationMs),
  })
  let boundUrl = ''
  const desk = openCallDesk({
    registry: new Registry(settings.tools, settings.toolkits),
    store,
    clock,
    log,
    fetch,
    newCallId: randomUUID,
    newChallengeId: () => randomBytes(24).toString('base64url'),
    publicUrl: () => settings.server.publicUrl ?? boundUrl,
    maxResultBytes: settings.calls.maxResultBytes,
  })
  const spans =
    settings.otlpEndpoint === undefined
      ? undefined
      : createSpanExporter({ endpoint: settings.otlpEndpoint, log })
  const startToken = await createStartToken(settings.dataFolder)
  const app = createHttpApp({
    routes: [
      ...otcRoutes(observeCalls(desk, { metrics, clock }), { serverVersion: VERSION }),
      ...createAdminRoutes({ calls: store, startToken, authenticator, clock }),
      createMetricsRoute({ metrics, authenticator, isLoopback: isLoopback(settings.server.host) }),
    ],
    authenticator,
    settings: settings.server,
    log,
    metrics,
    clock,
    ...(spans === undefined ? {} : { spans }),
  })
  const retention = startRetention(
    store,
    {
      resultsMs: settings.calls.retentionHours * HOUR_MS,
      journalMs: settings.journal.retentionDays * DAY_MS,
    },
    { clock, log },
  )
  const drain = (): Promise<void> => desk.drain(options.graceMs ?? GRACE_MS)
  const close = async (): Promise<void> => {
    retention.stop()
    await drain()
    await app.close()
    await spans?.close()
    await startToken.close()
    await store.close()
  }
  try {
    await store.recover(clock.nowMs())
    boundUrl = await app.listen()
  } catch (error) {
    await close()
    throw error
  }
  for (const warning of warnings) log.warn({}, warning)
  return {
    url: boundUrl,
    startTokenFile: startToken.file,
    warnings,
    isReady: () => desk.isReady(),
    drain,
    close,
  }
}

/** Rule 28 and OTC-97: nobody but this machine without credentials, and no weak ones towards others. */
function checkExposure(settings: Settings, allowAnonymous: boolean): readonly string[] {
  const { auth, server } = settings
  const isOpen = auth.apiKeys.length === 0 && auth.jwt === undefined
  const weak = findWeakCredentials(auth)
  const scoped = settings.tools.filter(({ policy }) => policy.scopes.length > 0)
  const unreachable =
    isOpen && scoped.length > 0
      ? [
          `${scoped.length} tools ask for scopes, but no credential is configured: nobody can see or call them.`,
        ]
      : []
  if (isLoopback(server.host)) return [...weak, ...unreachable]
  if (isOpen && !allowAnonymous) {
    throw new StartRefused(
      `Refusing to listen on ${server.host} without credentials: anybody who can reach it could call your tools. Configure auth.apiKeys or auth.jwt, listen on 127.0.0.1, or pass --allow-anonymous.`,
    )
  }
  if (weak.length > 0) throw new StartRefused(weak.join('\n'))
  return isOpen
    ? [`Anybody who can reach ${server.host} can call every tool (--allow-anonymous).`, ...unreachable]
    : []
}
