import type { Authenticator } from '#auth/authenticator'
import { fault } from '#core/errors'
import { coversScope } from '#core/principal'
import type { HttpReply } from '#protocols/http-exchange'
import type { NoteDenial } from './denial-log.ts'
import type { Metrics } from './metrics.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

export interface MetricsRouteOptions {
  readonly metrics: Metrics
  readonly authenticator: Authenticator
  /** Whether the server is bound to loopback only. */
  readonly isLoopback: boolean
  readonly noteDenial?: NoteDenial
}

const SCOPE = 'metrics:read'

/** `GET /metrics`: open on loopback while no credential is configured, otherwise for the scope `metrics:read`. */
export function createMetricsRoute(options: MetricsRouteOptions): ServerRoute {
  const { metrics, authenticator, noteDenial } = options
  const isOpen = (): boolean => !authenticator.isConfigured && options.isLoopback
  return {
    method: 'GET',
    path: '/metrics',
    access: 'authenticated',
    body: 'never',
    handle({ principal }) {
      if (isOpen() || coversScope(principal.scopes, SCOPE)) return metricsReply(metrics)
      noteDenial?.(principal, { action: 'metrics', resource: SCOPE, reason: 'scope' })
      throw fault('not_authorized', `Metrics need a credential with the scope ${SCOPE}.`)
    },
    refuse: refuseWithMessage,
  }
}

export async function metricsReply(metrics: Metrics): Promise<HttpReply> {
  const { contentType, text } = await metrics.render()
  return {
    status: 200,
    headers: { 'content-type': contentType, 'cache-control': 'no-store' },
    body: text,
  }
}
