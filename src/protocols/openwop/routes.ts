import type { Gateway } from '#core/calls/gateway'
import type { HttpRoute } from '#protocols/http-exchange'
import { catalogRoutes } from './catalog-routes.ts'
import { discoveryRoute } from './discovery.ts'
import { interruptRoutes } from './interrupt-routes.ts'
import { KeyedRequests } from './keyed-requests.ts'
import { openApiRoute, schemaRoutes } from './openapi.ts'
import { type OpenwopOptions, openwopSettings } from './options.ts'
import { runRoutes } from './run-routes.ts'
import { seamRoutes } from './seam-routes.ts'
import { sessionRoutes } from './session-routes.ts'
import { API_ROOT } from './wire.ts'

/** The openwop side of the server: what `options.capabilities` turns on is served and advertised, nothing else. */
export function openwopRoutes(gateway: Gateway, options: OpenwopOptions): readonly HttpRoute[] {
  const settings = openwopSettings(options)
  const { toolCatalog, compactView, sessionLifecycle } = settings.capabilities
  const routes = [
    discoveryRoute(gateway, settings),
    { ...openApiRoute(settings), owns: API_ROOT },
    ...schemaRoutes(),
    ...runRoutes(gateway),
    ...interruptRoutes(gateway, settings.clock),
    ...(options.testSeams === true ? seamRoutes(gateway, toolCatalog && sessionLifecycle) : []),
    // Without them the paths are like any other unknown one below the root: 404, whatever the method (OWP-06).
    ...(toolCatalog && sessionLifecycle ? sessionRoutes(gateway) : []),
    ...(toolCatalog ? catalogRoutes(gateway, { compactView }) : []),
  ]
  const { store } = options
  if (store === undefined) return routes
  const keyed = new KeyedRequests({ gateway, store, clock: settings.clock })
  return routes.map((route) => keyed.guard(route))
}
