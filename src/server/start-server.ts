import { sep } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Authenticator, createAuthenticator } from '#auth/authenticator'
import { createStartToken } from '#auth/start-token'
import type { Settings } from '#config/settings'
import { portOf, startTokenFileIn } from '#config/to-settings'
import type { Listener } from '#egress/policy'
import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import { explainThrown } from '#kernel/base/thrown'
import { ApproverSignIn, ConsentFlow, consentRoutes } from '#oauth/consent'
import { RoundTrips } from '#oauth/round-trips'
import { PROTOCOLS } from '#protocols/list'
import type { ProtocolServices, ServedProtocol } from '#protocols/protocol'
import { createOperatorAccess, openToOperators } from '#server/admin/access'
import { createCallEventRoutes } from '#server/admin/call-events'
import { CallFeed } from '#server/admin/call-feed'
import { createReloadRoutes } from '#server/admin/reload'
import { adminRoutes } from '#server/admin/routes'
import { createHttpApp } from '#server/http/app'
import type { TlsFiles } from '#server/http/certificate'
import type { ServerRoute } from '#server/http/router'
import { createReplicaHop } from '#server/replicas/hop'
import { auditCredentials, noteHiddenTool } from '#server/telemetry/denials'
import { createLog, type ServerLog } from '#server/telemetry/log'
import { createMetrics, observeCalls } from '#server/telemetry/metrics'
import { createMetricsListener, createMetricsRoute } from '#server/telemetry/metrics-routes'
import { createSpanExporter } from '#server/telemetry/tracing'
import type { SourceView } from '#sources/kit/sources'
import { unencryptedWarning } from '#store/postgres/address'
import { keepOutOfGit } from '#store/stores'
import { createApprovalLinks } from './approvals/links.ts'
import { createApprovalPages } from './approvals/pages.ts'
import { createConsole } from './console/console.ts'
import { signInRoute } from './console/start-links.ts'
import { watchIdleNames } from './idle-names.ts'
import { compareSettings, isSame, mergeSettings, type Reloaded, Reloads } from './reload.ts'
import { createNoOAuthRoutes, createResourceMetadata } from './resource-metadata.ts'
import type { Conformance, RunningServer, ServedCounts, StartOptions } from './running-server.ts'
import {
  asKeyed,
  checkExposure,
  checkPrincipals,
  isLoopback,
  isOwnMachine,
  mayHoldKeys,
  providerWarnings,
  StartRefused,
} from './safety.ts'
import { type CanHold, findScopeHolders } from './scope-holders.ts'
import { findConsentWarnings, type LentSecrets, openServices, type Services } from './services.ts'
import { createStartPage } from './start-page.ts'

import { enterToolset } from './toolsets.ts'
import { VERSION } from './version.ts'

export type { Conformance, RunningServer, StartOptions }

/** How long running calls may go on after a stop was asked for. */
const GRACE_MS = 10_000

/** Puts the house together: store, calls, protocols, HTTP. Everything opened here is closed by `close`. */
export async function startServer(settings: Settings, options: StartOptions = {}): Promise<RunningServer> {
  const allowAnonymous = options.allowAnonymous ?? false
  checkExposure(mayHoldKeys(settings) ? asKeyed(settings) : settings, allowAnonymous)
  const graceMs = options.graceMs ?? GRACE_MS
  const clock = SYSTEM_CLOCK
  const log = options.log ?? createLog(settings.logLevel, undefined, settings.logStyle)
  const { tls } = settings.server
  const certificate = tls === undefined ? undefined : await openCertificate(tls, { clock, log })
  const metrics = createMetrics(settings.tenantLabel)
  if (certificate !== undefined)
    metrics.follow({ certificateEndsAtMs: () => certificate.current.expiresAtMs })
  let url = ''
  const listeners: Listener[] = []
  const { conformance } = options
  const publicUrl = (): string => settings.server.publicUrl ?? url
  let hasConsole = (): boolean => false
  const consoleUrl = (): string | undefined => (hasConsole() ? `${publicUrl()}/console` : undefined)
  const { maxResultBytes } = settings.calls
  const hop = createReplicaHop({ settings: settings.server, maxResultBytes, clock, log })
  const services = await openServices(
    conformance === undefined ? settings : { ...settings, tools: [...settings.tools, ...conformance.tools] },
    {
      clock,
      log,
      publicUrl,
      consoleUrl,
      ownListeners: () => listeners,
      port: options.mountedAt === undefined ? settings.server.port : 0,
      onCommit: metrics.groupCommitted,
      onLimitRefused: metrics.limitRefused,
      onAmbiguous: metrics.callsCut,
      hop,
      ...explanations(settings, options),
      ...(options.catalogChanges === undefined ? {} : { catalogChanges: options.catalogChanges }),
    },
  )
  const { gateway, broker, noteDenial } = services
  metrics.follow({
    sources: () => services.sources.sources.status(),
    isReady: () => services.gateway.unavailableReason() === undefined,
  })
  const closing: (() => Promise<void>)[] = [() => services.close(graceMs), async () => certificate?.close()]
  const close = async (): Promise<void> => {
    await gateway.drain(graceMs)
    for (const part of closing.toReversed()) await part()
  }
  try {
    const { admit } = settings.hooks
    const { store } = gateway
    if (store.isShared) {
      const replicas = await hop.open(gateway)
      closing.push(replicas.close)
      listeners.push(replicas)
    }
    // With --allow-anonymous a proxy may bring in callers from elsewhere.
    const isPrivate = !allowAnonymous && options.mountedAt === undefined && isOwnMachine(settings.server)
    const openAuthenticator = ({ auth }: Pick<Settings, 'auth'>) =>
      createAuthenticator(auth, clock, { store, fetch: services.fetch, log, isPrivate })
    let live = settings
    let currentAuthenticator = openAuthenticator(settings)
    const authenticator: Authenticator = {
      get isConfigured() {
        return currentAuthenticator.isConfigured
      },
      get openCaller() {
        return currentAuthenticator.openCaller
      },
      authenticate: (headers) => currentAuthenticator.authenticate(headers),
      callerNamed: (owner) => currentAuthenticator.callerNamed(owner),
      refresh: () => currentAuthenticator.refresh(),
      close: () => currentAuthenticator.close(),
    }
    closing.push(authenticator.close)
    await authenticator.refresh()
    const reload = async (next: Settings): Promise<Reloaded> => {
      const changes = compareSettings(live, next)
      const merged = mergeSettings(live, next)
      const before = currentAuthenticator
      // The same one remembers what issuers said, and which tokens were good.
      const found = isSame(live.auth, merged.auth) ? before : openAuthenticator(merged)
      try {
        await found.refresh()
        checkExposure(found.isConfigured ? asKeyed(merged) : merged, allowAnonymous)
        await checkPrincipals(merged.auth, store.keys)
        if (found.isConfigured !== authenticator.isConfigured)
          throw new StartRefused(
            'Whether callers need a credential at all cannot change while the server runs. Restart it.',
          )
      } catch (error) {
        if (found !== before) await found.close()
        throw error
      }
      currentAuthenticator = found
      live = merged
      await services.govern(merged)
      if (options.log === undefined) log.setLevel(merged.logLevel)
      if (found !== before) await before.close()
      const looked = await certificate?.lookNow()
      return {
        applied: [...changes.applied, ...(looked?.isNew === true ? ['server.tls'] : [])],
        needRestart: changes.needRestart,
        refused: looked?.refused === undefined ? [] : [looked.refused],
      }
    }
    const { config } = options
    const reloads = config === undefined ? undefined : new Reloads({ config, store, apply: reload, log })
    closing.push(async () => reloads?.close())
    // Asked again, because keys of the store close the server as well as configured ones.
    const exposure = authenticator.isConfigured ? asKeyed(settings) : settings
    const warnings = [
      ...checkExposure(exposure, allowAnonymous).map(({ text }) => text),
      ...[unencryptedWarning(settings.store)].filter((text) => text !== undefined),
      ...findConsentWarnings(settings),
      ...providerWarnings(settings.oauth, services.registry.tools, options.developing !== undefined),
      ...(!store.isShared && (await store.hasOtherWriters()) ? [FILE_IN_USE] : []),
    ]
    await checkPrincipals(settings.auth, store.keys)
    const canHold = await findScopeHolders(settings.auth, store.keys, clock.nowMs())
    const idleNames = await watchIdleNames(services, () => live, { log, clock })
    const { worker } = options
    const shownMetrics = worker?.gatherMetrics(metrics) ?? metrics
    const startToken = createStartToken(worker?.startToken)
    closing.push(startToken.close)
    const endpoint = settings.otlpEndpoint
    const spans =
      endpoint === undefined ? undefined : createSpanExporter({ endpoint, log, instanceId: store.writer })
    if (spans !== undefined) closing.push(spans.close)
    const observed = observeCalls(gateway, {
      ...{ metrics, clock, store, noteDenial, rejections: services.rejections, logCall: log.logCall },
      explainsFailures: options.developing !== undefined,
    })
    const onUnknownTool = (principal: Principal, name: string): void =>
      noteHiddenTool(gateway, noteDenial, { principal, action: 'tool.read', name })
    const access = createOperatorAccess({ startToken, authenticator, noteDenial })
    const callFeed = new CallFeed({ store, clock })
    const issuers = () => live.auth.issuers ?? []
    const metadata = issuers().length === 0 ? undefined : createResourceMetadata({ issuers, publicUrl })
    const trips = new RoundTrips({ store, clock, publicUrl })
    const consents = new ConsentFlow({
      ...{ store, broker, trips, clock, log, publicUrl },
      runs: gateway.consents,
      settings: settings.oauth,
      hasLocalCaller: () => authenticator.openCaller?.isLocal === true,
    })
    const signIn = new ApproverSignIn({ store, broker, trips, log, settings: settings.oauth })
    const webConsole = createConsole({
      ...{ settings, store, authenticator, startToken, broker, clock, log, publicUrl },
      folder: options.consoleFolder,
      hasLinks: isOwnMachine(settings.server) && (authenticator.isConfigured || !allowAnonymous),
    })
    const { sessions, startLinks, approvalPage } = webConsole
    const links = createApprovalLinks({
      ...{ approvals: gateway.approvals, signIn, clock, log, publicUrl, approvalPage },
      sign: (purpose, text) => store.sign(purpose, text),
    })
    hasConsole = webConsole.isServed
    const protocolServices: ProtocolServices = {
      ...{ gateway: observed, store, clock, log, publicUrl },
      serverVersion: VERSION,
      isClosed: authenticator.isConfigured,
      metadataUrl: metadata?.urlFor,
      consents,
      opentool: options.opentool,
      onUnknownTool,
    }
    const protocols: readonly ServedProtocol[] = await Promise.all(
      Object.values(PROTOCOLS).map((protocol) => protocol.serve(settings, protocolServices)),
    )
    const routes: readonly ServerRoute[] = [
      ...openToOperators(
        protocols.flatMap(({ routes }) => routes),
        access,
      ),
      ...consentRoutes({ consents, trips, finishApprover: links.finishSignIn }),
      ...(conformance?.routes({ ...protocolServices, store, settings, noteDenial, fetch: services.fetch }) ??
        []),
      ...links.routes,
      ...createApprovalPages({
        ...{ approvals: gateway.approvals, sessions, startLinks, publicUrl, approvalPage },
        hasConsole: webConsole.isServed,
      }),
      signInRoute(startLinks, access),
      ...adminRoutes(
        () => live,
        services,
        {
          ...{ clock, publicUrl, consoleUrl },
          canSignIn: signIn.isConfigured,
          openCaller: () => authenticator.openCaller,
          onUnknownTool,
        },
        access,
      ),
      ...createCallEventRoutes(
        {
          ...{ feed: callFeed, clock, enter: gateway.enterWaiting },
          baseOf: (name) => services.registry.find(name)?.parts.base,
          present: (headers) => sessions.present({ headers }),
        },
        access,
      ),
      ...createReloadRoutes(
        { readEverywhere: async () => await requireReloads(reloads).readEverywhere(), log },
        access,
      ),
      ...(metadata?.routes ?? createNoOAuthRoutes({ isKeyed: () => authenticator.isConfigured })),
      ...webConsole.routes,
      createStartPage({
        ...{ settings, publicUrl },
        hasConsole: webConsole.isServed,
        isKeyed: () => authenticator.isConfigured,
        isOwnMachine: isOwnMachine(settings.server),
      }),
      createMetricsRoute({
        metrics: shownMetrics,
        authenticator,
        isLoopback: isLoopback(settings.server.host),
        noteDenial,
      }),
    ]
    const app = createHttpApp({
      routes,
      authenticator,
      sessions,
      settings: settings.server,
      ...{ log, metrics, clock, spans },
      enter: (principal, toolset) => enterToolset(services.registry, principal, toolset),
      onUnauthenticated: auditCredentials(noteDenial),
      challengeFor: metadata?.challengeFor,
      maxBodyBytes: settings.limits.total.bodyBytes,
      sharing: worker?.sharing,
      certificate,
      admit: admit === undefined ? undefined : (client) => refuseUnlessAdmitted(admit(client)),
      refusesForwarded: allowAnonymous ? undefined : 'open',
    })
    closing.push(app.close)
    closing.push(async () => protocols.forEach((protocol) => void protocol.close?.()))
    closing.push(async () => callFeed.close())
    url = options.mountedAt ?? (await app.listen())
    const { host, metricsPort } = settings.server
    listeners.push({ host, port: portOf(new URL(url)) })
    const metricsApp =
      metricsPort === undefined
        ? undefined
        : createMetricsListener(
            metricsPort,
            settings.server,
            { log, metrics, clock, sharing: worker?.sharing },
            shownMetrics,
          )
    if (metricsApp !== undefined) closing.push(metricsApp.close)
    const metricsUrl = await metricsApp?.listen()
    if (metricsUrl !== undefined)
      listeners.push({ host: new URL(metricsUrl).hostname, port: portOf(new URL(metricsUrl)) })
    const startTokenFile = startTokenFileIn(settings.dataFolder, url)
    await startToken.publish(startTokenFile)
    keepOutOfGit(settings.dataFolder)
    return {
      url,
      metricsUrl,
      startTokenFile,
      consoleUrl: consoleUrl(),
      signInUrl: startLinks?.make(),
      routes: routes.map(({ method, path }) => ({ method, path })),
      warnings: [...warnings, ...idleOf(services.sources.sources.status()), ...idleNames],
      isKeyed: authenticator.isConfigured,
      counts: () => countServed(services, canHold),
      sourceRead: (key) => services.sources.sources.firstReading(key),
      onSourceAdded: (listener) => services.sources.sources.onAdded(listener),
      isReady: gateway.isReady,
      handle: app.handle,
      reload,
      readAgain: async () => await requireReloads(reloads).readHere(),
      async announceStop() {
        gateway.announceStop()
        app.retire()
        await setTimeout(settings.server.drainMs ?? 0)
      },
      drain: () => gateway.drain(graceMs),
      close,
    }
  } catch (error) {
    await close().catch((err: unknown) => log.error({ err }, 'closing after a failed start failed too'))
    throw error
  }
}

function countServed({ registry, sources: { sources } }: Services, canHold: CanHold): ServedCounts {
  const known = sources.status()
  return {
    tools: new Set(registry.tools.map(({ parts }) => parts.base)).size,
    versions: registry.tools.length,
    closed: new Set(
      registry.tools.flatMap(({ parts, policy }) => (policy.scopes.every(canHold) ? [] : parts.base)),
    ).size,
    sources: known.length,
    starting: known
      .filter(({ state, tools, readAtMs }) => state === 'starting' && tools === 0 && readAtMs === undefined)
      .map(({ key }) => key),
  }
}

/** Paths are shown as the author sees them. Never beyond this machine: what a tool throws may hold what nobody else should read. */
function explanations(
  { server: { host } }: Settings,
  { developing }: StartOptions,
): { explainThrown?: (thrown: unknown) => string; lentSecrets?: LentSecrets } {
  if (developing === undefined || !isLoopback(host)) return {}
  const [folder, lentSecrets] = [`${developing.folder}${sep}`, developing.secrets]
  return { lentSecrets, explainThrown: (thrown) => explainThrown(thrown).replaceAll(folder, '') }
}

function requireReloads(reloads: Reloads | undefined): Reloads {
  if (reloads !== undefined) return reloads
  throw fault(
    'request_invalid',
    'This server was not started from a config file: there is none to read again.',
  )
}

const FILE_IN_USE =
  'Another process uses this SQLite file. No call runs twice, but their writes wait for each other, and each counts limits for itself: a SQLite file is for one server. Stop the other, or use PostgreSQL for several.'

/** Loaded where it is used: most servers have none. */
async function openCertificate(tls: TlsFiles, world: { readonly clock: Clock; readonly log: ServerLog }) {
  const { ServedCertificate } = await import('#server/http/certificate')
  return await ServedCertificate.open(tls, world)
}

/** What the operator should hear before the first call: rules of theirs that guard nothing. */
function idleOf(sources: readonly SourceView[]): readonly string[] {
  return sources.flatMap(({ key, idle }) =>
    idle.map(({ text, guards }) => `${key}: ${text}${guards ? ' Its tools are not served until then.' : ''}`),
  )
}

function refuseUnlessAdmitted(refusal: string | undefined): void {
  if (refusal !== undefined) throw fault('not_authorized', refusal)
}
