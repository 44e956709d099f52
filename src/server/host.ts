/**
 * Opens everything that the parts of a server share: its settings, services, callers and addresses. `start-server.ts` opens one
 * `ServerHost` and passes it to each function in its list of parts.
 * Invariant: parts read settings from `settings.current` or through `onReload`, never from their own copy.
 */

import { sep } from 'node:path'
import { createAuthenticator, ReloadableAuthenticator } from '#auth/authenticator'
import { createStartToken, type StartToken } from '#auth/start-token'
import type { Settings } from '#config/settings'
import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import { explainThrown } from '#kernel/base/thrown'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Gateway } from '#kernel/call/gateway'
import { ApproverSignIn, ConsentFlow } from '#oauth/consent'
import { RoundTrips } from '#oauth/round-trips'
import { createOperatorAccess, type OperatorAccess } from './admin/access.ts'
import { type Console, createConsole } from './console/console.ts'
import type { ServedCertificate } from './http/certificate.ts'
import { ServerAddress } from './http/host-guard.ts'
import type { Live, Parts, ServerPart } from './part.ts'
import { createResourceMetadata, type ResourceMetadata } from './protocols.ts'
import { type OpenReloads, openReloads } from './reload.ts'
import { createReplicaHop } from './replicas/hop.ts'
import type { StartOptions } from './running-server.ts'
import { checkPrincipals, isLoopback, isOwnMachine } from './safety.ts'
import { type LentSecrets, openServices, type Services } from './services.ts'
import { noteHiddenTool } from './telemetry/denials.ts'
import { createLog, type ServerLog } from './telemetry/log.ts'
import { createMetrics, type Metrics, observeCalls } from './telemetry/metrics.ts'
import { openTelemetry, type Telemetry } from './telemetry/telemetry.ts'

/** Opens one capability of a server. */
export type OpenPart = (host: ServerHost) => MaybePromise<ServerPart>

export interface ServerHost extends ServerBase, Callers {
  /** The gateway that protocols and routes use; its calls are counted, logged and audited. */
  readonly gateway: Gateway
  readonly console: Console
  readonly consents: ConsentFlow
  readonly trips: RoundTrips
  readonly approverSignIn: ApproverSignIn
  readonly reloads: OpenReloads
  /** Absent if no issuer is configured. */
  readonly metadata: ResourceMetadata | undefined
  /** Audits a look-up of a tool that the principal cannot see. */
  onUnknownTool(principal: Principal, name: string): void
}

/** The members that are opened before the server can authenticate callers. */
interface ServerBase {
  readonly settings: Live<Settings>
  readonly options: StartOptions
  readonly clock: Clock
  readonly log: ServerLog
  readonly address: ServerAddress
  readonly certificate: ServedCertificate | undefined
  readonly metrics: Metrics
  readonly telemetry: Telemetry
  readonly services: Services
}

/** The members that authenticate callers. */
interface Callers {
  readonly authenticator: ReloadableAuthenticator
  readonly startToken: StartToken
  readonly access: OperatorAccess
}

export async function openHost(initial: Settings, options: StartOptions, parts: Parts): Promise<ServerHost> {
  const settings = { current: initial }
  const base = await openBase(settings, options, parts)
  const callers = await openCallers(base, parts)
  const { clock, log, metrics, services, address } = base
  const { noteDenial, rejections, broker } = services
  const { store, consents: runs } = services.gateway
  const { authenticator, startToken } = callers
  const { publicUrl } = address
  const gateway = observeCalls(services.gateway, {
    ...{ metrics, clock, store, noteDenial, rejections, logCall: log.logCall },
    explainsFailures: options.developing !== undefined,
  })
  const { auth, oauth, server } = initial
  const webConsole = createConsole({
    ...{ settings: initial, store, authenticator, startToken, broker, clock, log, publicUrl },
    folder: options.consoleFolder,
    hasLinks: isOwnMachine(server) && (authenticator.isConfigured || options.allowAnonymous !== true),
  })
  address.hasConsole = webConsole.isServed
  const trips = new RoundTrips({ store, clock, publicUrl })
  return {
    ...{ ...base, ...callers, gateway, console: webConsole, trips },
    reloads: parts.add(openReloads({ settings, options, authenticator, store, log }, parts)),
    consents: new ConsentFlow({
      ...{ store, broker, trips, clock, log, publicUrl, runs, settings: oauth },
      hasLocalCaller: () => authenticator.openCaller?.isLocal === true,
    }),
    approverSignIn: new ApproverSignIn({ store, broker, trips, log, settings: oauth }),
    metadata: (auth.issuers ?? []).length === 0 ? undefined : createResourceMetadata(settings, publicUrl),
    onUnknownTool: (principal, name) =>
      noteHiddenTool(services.gateway, noteDenial, { principal, action: 'tool.read', name }),
  }
}

async function openBase(live: Live<Settings>, options: StartOptions, parts: Parts): Promise<ServerBase> {
  const settings = live.current
  const clock = SYSTEM_CLOCK
  const log = openLog(settings, options, parts)
  const certificate = await openCertificate(settings, { clock, log }, parts)
  const metrics = createMetrics(settings.tenantLabel)
  const telemetry = parts.add(await openTelemetry(settings, { clock, log, metrics }))
  const address = new ServerAddress(settings.server)
  const { maxResultBytes } = settings.calls
  const hop = createReplicaHop({ settings: settings.server, maxResultBytes, clock, log })
  const { publicUrl, consoleUrl, listeners } = address
  const tools = [...settings.tools, ...(options.conformance?.tools ?? [])]
  const services = parts.add(
    await openServices(
      { ...settings, tools },
      {
        ...{ clock, log, publicUrl, consoleUrl, hop, ownListeners: listeners },
        port: options.mountedAt === undefined ? settings.server.port : 0,
        onCommit: metrics.groupCommitted,
        onLimitRefused: metrics.limitRefused,
        onAmbiguous: metrics.callsBecameAmbiguous,
        catalogChanges: options.catalogChanges,
        telemetry: telemetry.operations,
        ...explanations(settings, options),
      },
    ),
  )
  telemetry.attach(services.gateway.store)
  metrics.follow({
    certificateEndsAtMs: () => certificate?.current.expiresAtMs,
    sources: () => services.sources.sources.status(),
    isReady: () => services.gateway.unavailableReason() === undefined,
  })
  if (services.gateway.store.isShared) listeners.push(parts.add(await hop.open(services.gateway)))
  return { settings: live, options, clock, log, address, certificate, metrics, telemetry, services }
}

/** A reload does not change the level of a log from the options. */
function openLog({ logLevel, logStyle }: Settings, options: StartOptions, parts: Parts): ServerLog {
  if (options.log !== undefined) return options.log
  const log = createLog(logLevel, undefined, logStyle)
  parts.add({ onReload: (next) => void log.setLevel(next.logLevel) })
  return log
}

/** The module is loaded only for a server with a certificate. */
async function openCertificate(
  { server: { tls } }: Settings,
  context: Pick<ServerBase, 'clock' | 'log'>,
  parts: Parts,
): Promise<ServedCertificate | undefined> {
  if (tls === undefined) return undefined
  const { ServedCertificate: Certificate } = await import('./http/certificate.ts')
  return parts.add(await Certificate.open(tls, context))
}

/** Explains exceptions only to callers on this machine, because their text may be confidential. Paths in it are made relative. */
function explanations(
  { server: { host } }: Settings,
  { developing }: StartOptions,
): { explainThrown?: (thrown: unknown) => string; lentSecrets?: LentSecrets } {
  if (developing === undefined || !isLoopback(host)) return {}
  const [folder, lentSecrets] = [`${developing.folder}${sep}`, developing.secrets]
  return { lentSecrets, explainThrown: (thrown) => explainThrown(thrown).replaceAll(folder, '') }
}

async function openCallers(
  { settings, options, clock, log, services }: ServerBase,
  parts: Parts,
): Promise<Callers> {
  const { fetch: configuredFetch, noteDenial } = services
  const { store } = services.gateway
  const { auth, server } = settings.current
  // With --allow-anonymous a proxy may forward callers from other machines.
  const isPrivate = options.allowAnonymous !== true && options.mountedAt === undefined && isOwnMachine(server)
  const authenticator = parts.add(
    new ReloadableAuthenticator(auth, (current) =>
      createAuthenticator(current, clock, { store, fetch: configuredFetch, log, isPrivate }),
    ),
  )
  await authenticator.refresh()
  await checkPrincipals(auth, store.keys)
  const startToken = parts.add(createStartToken(options.worker?.startToken))
  const access = createOperatorAccess({ startToken, authenticator, noteDenial })
  return { authenticator, startToken, access }
}
