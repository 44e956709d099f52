import type { Authenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { ANONYMOUS } from '#core/principal'
import { createHttpApp, type HttpApp, type HttpAppOptions } from './http-app.ts'
import { metricsReply } from './metrics-route.ts'
import { refuseWithMessage } from './server-route.ts'

const NOBODY: Authenticator = {
  isConfigured: false,
  authenticate: () => ANONYMOUS,
  refresh: () => {},
  close: async () => {},
}

/** `/metrics` on a port of its own, which a firewall or the loopback interface guards instead of a credential. */
export function createMetricsListener(
  port: number,
  settings: Settings['server'],
  world: Pick<HttpAppOptions, 'log' | 'metrics' | 'clock'>,
): HttpApp {
  const host = settings.metricsHost ?? '127.0.0.1'
  return createHttpApp({
    ...world,
    authenticator: NOBODY,
    settings: {
      host,
      port,
      publicUrl: undefined,
      bodyLimitBytes: 1_024,
      allowedOrigins: [],
      maxConnections: 100,
    },
    routes: [
      {
        method: 'GET',
        path: '/metrics',
        access: 'open',
        body: 'never',
        handle: () => metricsReply(world.metrics),
        refuse: refuseWithMessage,
      },
    ],
  })
}
