/**
 * Starts a server: opens what all parts use (`host.ts`), then the parts in the list below, then the listener. A capability with
 * routes is a folder that exports an `OpenPart`, and one line in `PARTS`.
 * Invariant: everything that is opened here is closed by `close`, in reverse order, even if the start fails.
 */

import { setTimeout } from 'node:timers/promises'
import type { Settings } from '#config/settings'
import { startTokenFileIn } from '#config/to-settings'
import type { SourceView } from '#sources/kit/sources'
import { unencryptedWarning } from '#store/postgres/address'
import { keepOutOfGit } from '#store/stores'
import { openAdmin } from './admin/routes.ts'
import { openApprovalPages } from './approvals/pages.ts'
import { openConsole } from './console/console.ts'
import { type OpenPart, openHost, type ServerHost } from './host.ts'
import { createHttpApp, type HttpApp } from './http/app.ts'
import { openStartPage } from './overview/start-page.ts'
import { openParts, type Parts } from './part.ts'
import { openProtocols, openResourceMetadata } from './protocols.ts'
import type { Conformance, RunningServer, ServedCounts, StartOptions } from './running-server.ts'
import { asKeyed, checkExposure, findConsentWarnings, mayHoldKeys, providerWarnings } from './safety.ts'
import { findScopeHolders } from './scope-holders.ts'
import { auditCredentials } from './telemetry/denials.ts'
import { openMetrics } from './telemetry/metrics-routes.ts'
import { createSpanExporter } from './telemetry/tracing.ts'
import { enterToolset } from './toolsets.ts'
import { watchUnusedNames } from './unused-names.ts'

export type { Conformance, RunningServer, StartOptions }

/** Time that running calls have to finish after a stop. */
const GRACE_MS = 10_000

/** The capabilities of a server, in the order in which they are opened. */
const PARTS: readonly OpenPart[] = [
  openProtocols,
  openApprovalPages,
  openAdmin,
  openResourceMetadata,
  openConsole,
  openStartPage,
  openMetrics,
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
    return { ...(await describeServer(host, app, parts)), warnings }
  })
}

function openApp(host: ServerHost, parts: Parts): HttpApp {
  const { options, authenticator, log, metrics, clock, certificate, services, metadata } = host
  const { server, limits, hooks, otlpEndpoint: endpoint } = host.settings.current
  const instanceId = services.gateway.store.writer
  const spans = endpoint === undefined ? undefined : createSpanExporter({ endpoint, log, instanceId })
  if (spans !== undefined) parts.add(spans)
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

async function describeServer(
  host: ServerHost,
  app: HttpApp,
  parts: Parts,
): Promise<Omit<RunningServer, 'warnings'>> {
  const { address, services, authenticator, options, reloads } = host
  const { gateway, sources } = services
  const { server, dataFolder } = host.settings.current
  const graceMs = options.graceMs ?? GRACE_MS
  return {
    url: address.url,
    metricsUrl: address.metricsUrl,
    startTokenFile: startTokenFileIn(dataFolder, address.url),
    consoleUrl: address.consoleUrl(),
    signInUrl: host.console.startLinks?.make(),
    routes: parts.routes.map(({ method, path }) => ({ method, path })),
    isKeyed: authenticator.isConfigured,
    counts: await openCounts(host),
    sourceRead: (key) => sources.sources.firstReading(key),
    onSourceAdded: (listener) => sources.sources.onAdded(listener),
    isReady: gateway.isReady,
    handle: app.handle,
    reload: reloads.apply,
    readAgain: reloads.reloadHere,
    async announceStop() {
      gateway.announceStop()
      app.retire()
      await setTimeout(server.drainMs ?? 0)
    },
    drain: () => gateway.drain(graceMs),
    async close() {
      await gateway.drain(graceMs)
      await parts.close()
    },
  }
}

const FILE_IN_USE =
  'Another process uses this SQLite file. No call runs twice, but their writes wait for each other, and each process counts limits separately: a SQLite file is for one server. Stop the other process, or use PostgreSQL for several servers.'

/**
 * Warnings that `collet serve` prints. Some repeat checks that the start has passed, because the store may contain keys that are known
 * only once it is open.
 */
async function findStartWarnings(host: ServerHost): Promise<readonly string[]> {
  const { options, services, authenticator, log, clock } = host
  const settings = host.settings.current
  const { store } = services.gateway
  const exposure = authenticator.isConfigured ? asKeyed(settings) : settings
  const unencrypted = unencryptedWarning(settings.store)
  return [
    ...checkExposure(exposure, options.allowAnonymous ?? false).map(({ text }) => text),
    ...(unencrypted === undefined ? [] : [unencrypted]),
    ...findConsentWarnings(settings),
    ...providerWarnings(settings.oauth, services.registry.definitions, options.developing !== undefined),
    ...(!store.isShared && (await store.hasOtherWriters()) ? [FILE_IN_USE] : []),
    ...services.sources.sources.status().flatMap(unusedOverrides),
    ...(await watchUnusedNames(services, host.settings, { log, clock })),
  ]
}

/** The operator's rules that match none of the source's tools. */
function unusedOverrides({ key, idle }: SourceView): readonly string[] {
  return idle.map(
    ({ text, guards }) => `${key}: ${text}${guards ? ' Its tools are not served until then.' : ''}`,
  )
}

/** Returns a function that counts what is served. The scopes that callers can have are read once. */
async function openCounts({ services, clock, settings }: ServerHost): Promise<() => ServedCounts> {
  const { registry, sources, gateway } = services
  const canHold = await findScopeHolders(settings.current.auth, gateway.store.keys, clock.nowMs())
  return () => {
    const known = sources.sources.status()
    const closed = registry.tools.filter(({ policy }) => !policy.scopes.every(canHold))
    return {
      tools: new Set(registry.tools.map(({ parts }) => parts.base)).size,
      versions: registry.tools.length,
      closed: new Set(closed.map(({ parts }) => parts.base)).size,
      sources: known.length,
      starting: known
        .filter(({ state, tools, readAtMs }) => state === 'starting' && tools === 0 && readAtMs === undefined)
        .map(({ key }) => key),
    }
  }
}
