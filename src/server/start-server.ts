import { createAuthenticator } from '#auth/authenticator'
import { createStartToken } from '#auth/start-token'
import { startTokenFileIn } from '#config/data-files'
import type { Settings } from '#config/settings'
import { fault } from '#core/errors'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { openwopRoutes } from '#protocols/openwop/routes'
import { otcRoutes } from '#protocols/otc/routes'
import { createAdminApprovals } from './admin-approvals.ts'
import { createAdminRoutes } from './admin-routes.ts'
import { createApprovalLinks } from './approval-link-routes.ts'
import { openToOperators } from './approver-access.ts'
import { checkExposure } from './check-exposure.ts'
import { createHttpApp } from './http-app.ts'
import { createLog, type ServerLog } from './log.ts'
import { isLoopback } from './loopback.ts'
import { createMetrics } from './metrics.ts'
import { createMetricsRoute } from './metrics-route.ts'
import { observeCalls } from './observe-calls.ts'
import { openGateway } from './open-gateway.ts'
import { createOpenToolRoutes, type OpenToolServing } from './opentool-routes.ts'
import { createSpanExporter } from './tracing.ts'
import { VERSION } from './version.ts'

/** How long running calls may go on after a stop was asked for. */
const GRACE_MS = 10_000

export interface StartOptions {
  /** Serve other machines although no credential is configured. */
  readonly allowAnonymous?: boolean
  readonly log?: ServerLog
  readonly graceMs?: number
  readonly opentool?: OpenToolServing
  /** Serve what the public openwop suite drives. Never in production. */
  readonly testSeams?: boolean
}

export interface RunningServer {
  readonly url: string
  readonly startTokenFile: string
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
  const graceMs = options.graceMs ?? GRACE_MS
  const clock = SYSTEM_CLOCK
  const log = options.log ?? createLog(settings.logLevel)
  const metrics = createMetrics()
  const authenticator = createAuthenticator(settings.auth, clock)
  let url = ''
  const publicUrl = (): string => settings.server.publicUrl ?? url
  const gateway = await openGateway(settings, {
    clock,
    log,
    publicUrl,
    onCommit: metrics.groupCommitted,
  })
  const { desk } = gateway
  const closing: (() => Promise<void>)[] = [() => gateway.close(graceMs)]
  const close = async (): Promise<void> => {
    await desk.drain(graceMs)
    for (const part of closing.toReversed()) await part()
  }
  try {
    const { admit } = settings.hooks
    const startToken = createStartToken()
    closing.push(startToken.close)
    const endpoint = settings.otlpEndpoint
    const spans = endpoint === undefined ? undefined : createSpanExporter({ endpoint, log })
    if (spans !== undefined) closing.push(spans.close)
    const observed = observeCalls(desk, { metrics, clock })
    const isClosed = authenticator.isConfigured
    const app = createHttpApp({
      routes: [
        ...otcRoutes(observed, { serverVersion: VERSION, ...otcOptions(settings) }),
        ...openToOperators(
          openwopRoutes(observed, {
            serverVersion: VERSION,
            capabilities: openwopCapabilities(settings),
            testSeams: options.testSeams ?? false,
          }),
          { startToken, authenticator },
        ),
        ...createOpenToolRoutes(observed, options.opentool ?? {}, {
          settings: settings.opentool,
          log,
          isClosed,
        }),
        ...createAdminRoutes({ calls: desk.store, startToken, authenticator, clock }),
        ...createAdminApprovals({ approvals: desk.approvals, startToken, authenticator, clock, publicUrl }),
        ...createApprovalLinks({
          ...{ approvals: desk.approvals, clock, publicUrl },
          sign: (purpose, text) => desk.store.approvals.sign(purpose, text),
        }),
        createMetricsRoute({ metrics, authenticator, isLoopback: isLoopback(settings.server.host) }),
      ],
      authenticator,
      settings: settings.server,
      log,
      metrics,
      clock,
      ...(spans === undefined ? {} : { spans }),
      ...(admit === undefined ? {} : { admit: (visitor) => refuseUnlessAdmitted(admit(visitor)) }),
    })
    closing.push(app.close)
    url = await app.listen()
    const startTokenFile = startTokenFileIn(settings.dataFolder, url)
    await startToken.publish(startTokenFile)
    return {
      url,
      startTokenFile,
      warnings,
      isReady: desk.isReady,
      drain: () => desk.drain(graceMs),
      close,
    }
  } catch (error) {
    await close().catch((err: unknown) => log.error({ err }, 'closing after a failed start failed too'))
    throw error
  }
}

function otcOptions({ otc }: Settings) {
  const { omitListKey, ...switches } = otc
  return omitListKey === undefined ? switches : { ...switches, omitListKey }
}

function openwopCapabilities({ openwop }: Settings) {
  const { catalog, compactView, sessions } = openwop
  return { toolCatalog: catalog, compactView, sessionLifecycle: sessions }
}

function refuseUnlessAdmitted(refusal: string | undefined): void {
  if (refusal !== undefined) throw fault('not_authorized', refusal)
}
