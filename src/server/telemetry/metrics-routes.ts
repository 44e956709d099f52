/**
 * Serves the metrics of a server: `GET /metrics` beside its other routes, and on a separate port if the config names one.
 * `start-server.ts` opens it as one part.
 * Invariant: on the server's port callers need a scope, unless the server is on loopback and has no credentials. The separate port
 * needs no credential.
 */

import type { Authenticator } from '#auth/authenticator'
import { portOf } from '#config/to-settings'
import { fault } from '#kernel/base/errors'
import { ANONYMOUS, coversScope } from '#kernel/base/principal'
import type { HttpReply } from '#protocols/http-exchange'
import type { ServerHost } from '#server/host'
import { createHttpApp } from '#server/http/app'
import { OPEN_ROUTE, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { ServerPart } from '#server/part'
import { isLoopback } from '#server/safety'
import type { NoteDenial } from './denials.ts'
import type { Metrics } from './metrics.ts'

export async function openMetrics(host: ServerHost): Promise<ServerPart> {
  const { metrics, authenticator, services, address, log, clock, options } = host
  const { server } = host.settings.current
  const shown = options.worker?.gatherMetrics(metrics) ?? metrics
  const { noteDenial } = services
  const onLoopback = isLoopback(server.host)
  const routes = [createMetricsRoute({ metrics: shown, authenticator, noteDenial, isLoopback: onLoopback })]
  if (server.metricsPort === undefined) return { routes }
  // A firewall or the loopback interface guards this port in place of a credential.
  const app = createHttpApp({
    log,
    metrics,
    clock,
    sharing: options.worker?.sharing,
    authenticator: NO_CALLERS,
    settings: {
      host: server.metricsHost ?? '127.0.0.1',
      port: server.metricsPort,
      publicUrl: undefined,
      bodyLimitBytes: 1_024,
      allowedOrigins: [],
      maxConnections: 100,
    },
    routes: [{ ...OPEN_ROUTE, method: 'GET', path: PATH, handle: () => metricsReply(shown) }],
  })
  address.metricsUrl = await app.listen()
  const url = new URL(address.metricsUrl)
  address.listeners.push({ host: url.hostname, port: portOf(url) })
  return { routes, close: app.close }
}

const NO_CALLERS: Authenticator = {
  isConfigured: false,
  openCaller: ANONYMOUS,
  authenticate: () => ANONYMOUS,
  callerNamed: async () => undefined,
  refresh: () => {},
  close: async () => {},
}

/** Metrics of this process, or of all workers of its server. */
export type ShownMetrics = Pick<Metrics, 'render'>

const PATH = '/metrics'
const SCOPE = 'metrics:read'

/** `GET /metrics`: open on loopback while no credential is configured, otherwise for the scope `metrics:read`. */
export function createMetricsRoute(options: {
  readonly metrics: ShownMetrics
  readonly authenticator: Authenticator
  /** Whether the server is bound to loopback only. */
  readonly isLoopback: boolean
  readonly noteDenial?: NoteDenial
}): ServerRoute {
  const { metrics, authenticator, noteDenial } = options
  const isOpen = (): boolean => !authenticator.isConfigured && options.isLoopback
  return {
    method: 'GET',
    path: PATH,
    access: 'authenticated',
    body: 'never',
    refuse: refuseWithMessage,
    handle({ principal }) {
      if (isOpen() || coversScope(principal.scopes, SCOPE)) return metricsReply(metrics)
      noteDenial?.(principal, { action: 'metrics', resource: SCOPE, reason: 'scope' })
      throw fault('not_authorized', `Metrics need a credential with the scope ${SCOPE}.`)
    },
  }
}

async function metricsReply(metrics: ShownMetrics): Promise<HttpReply> {
  const { contentType, text } = await metrics.render()
  return { status: 200, headers: { 'content-type': contentType, 'cache-control': 'no-store' }, body: text }
}
