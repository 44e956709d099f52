import type { Gateway } from '#core/calls/gateway'
import type { HttpRoute } from '#protocols/http-exchange'
import { approvalRoutes } from './approval-routes.ts'
import { callRoute } from './call-route.ts'
import { callsRoutes } from './calls-routes.ts'
import { challengeRoutes } from './challenge-routes.ts'
import { healthRoutes } from './health-routes.ts'
import { listRoutes } from './list-route.ts'
import { openGet } from './open-get.ts'
import { otcOpenApi } from './openapi.ts'
import { type OtcOptions, otcSettings } from './options.ts'
import { jsonReply } from './reply.ts'
import { CALL_PATHS } from './wire.ts'

/** Everything OTC 1.0, OXP 1.0, their drafts and universal-tool-server clients ask of a server. */
export function otcRoutes(gateway: Gateway, options: OtcOptions): readonly HttpRoute[] {
  const settings = otcSettings(options)
  const openApiJson = JSON.stringify(otcOpenApi(settings.serverVersion))
  return [
    ...healthRoutes(gateway, settings),
    ...listRoutes(gateway, settings),
    ...CALL_PATHS.map((path) => callRoute(path, gateway, settings)),
    ...callsRoutes(gateway, settings),
    ...challengeRoutes(gateway, settings),
    ...approvalRoutes(gateway, settings),
    openGet('/openapi.json', settings, () => jsonReply(200, openApiJson, { 'cache-control': 'no-cache' })),
  ]
}
