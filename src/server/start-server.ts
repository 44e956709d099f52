/**
 * Starts a server: opens what all parts use (`host.ts`), then the parts in the list below, then the listener. A capability with
 * routes is a folder that exports an `OpenPart`, and one line in `PARTS`.
 * Invariant: everything that is opened here is closed by `close`, in reverse order, even if the start fails.
 */

import type { Settings } from '#config/settings'
import { startTokenFileIn } from '#config/to-settings'
import { keepOutOfGit } from '#store/stores'
import { openAdmin } from './admin/routes.ts'
import { openApprovalPages } from './approvals/pages.ts'
import { openReceiptPart } from './audit/receipt-part.ts'
import { openConsole } from './console/console.ts'
import { type OpenPart, openHost, type ServerHost } from './host.ts'
import { createHttpApp, type HttpApp } from './http/app.ts'
import { openAiCatalog } from './overview/ai-catalog.ts'
import { openStartPage } from './overview/start-page.ts'
import { openParts, type Parts } from './part.ts'
import { openProtocols, openResourceMetadata } from './protocols.ts'
import type { Conformance, RunningServer, StartOptions } from './running-server.ts'
import { asKeyed, checkExposure, mayHoldKeys } from './safety.ts'
import { createServerHandle, findStartWarnings } from './server-handle.ts'
import { auditCredentials } from './telemetry/denials.ts'
import { openMetrics } from './telemetry/metrics-routes.ts'
import { enterToolset } from './toolsets.ts'

export type { Conformance, RunningServer, StartOptions }

/** The capabilities of a server, in the order in which they are opened. */
const PARTS: readonly OpenPart[] = [
  openProtocols,
  openApprovalPages,
  openAdmin,
  openResourceMetadata,
  openAiCatalog,
  openConsole,
  openStartPage,
  openMetrics,
  openReceiptPart,
]

export async function startServer(settings: Settings, options: StartOptions = {}): Promise<RunningServer> {
  checkExposure(mayHoldKeys(settings) ? asKeyed(settings) : settings, options.allowAnonymous ?? false)
  return await openParts(async (parts) => {
    const host = await openHost(settings, options, parts)
    const warnings = await findStartWarnings(host)
    let app: HttpApp | undefined
    // The listener is closed after the parts below, whose streams keep connections open.
    parts.add({ close: () => app?.close() })
    for (const open of PARTS) parts.add(await open(host))
    app = openApp(host, parts)
    await listen(host, app)
    return { ...(await createServerHandle(host, app, parts)), warnings }
  })
}

function openApp(host: ServerHost, parts: Parts): HttpApp {
  const { options, authenticator, log, metrics, clock, certificate, services, metadata } = host
  const { server, limits, hooks } = host.settings.current
  const { spans } = host.telemetry
  return createHttpApp({
    ...{ routes: parts.routes, authenticator, settings: server, log, metrics, clock, spans, certificate },
    sessions: host.console.sessions,
    enter: (principal, toolset) => enterToolset(services.registry, principal, toolset),
    onUnauthenticated: auditCredentials(services.noteDenial),
    challengeFor: metadata?.challengeFor,
    maxBodyBytes: limits.total.bodyBytes,
    sharing: options.worker?.sharing,
    admit: hooks.admit,
    refusesForwarded: options.allowAnonymous === true ? undefined : 'open',
  })
}

async function listen({ options, address, startToken, settings }: ServerHost, app: HttpApp): Promise<void> {
  const { server, dataFolder } = settings.current
  const url = options.mountedAt ?? (await app.listen())
  address.listenAt(url, server.host)
  await startToken.publish(startTokenFileIn(dataFolder, url))
  keepOutOfGit(dataFolder)
}
