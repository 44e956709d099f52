import type { Gateway } from '#core/calls/gateway'
import type { HttpRoute } from '#protocols/http-exchange'
import { callRoute } from './call-route.ts'
import { FunctionTables } from './function-table.ts'
import { loadRoute } from './load-route.ts'
import type { OpenToolOptions } from './options.ts'
import { stopRoute } from './stop-route.ts'
import { streamRoute } from './stream-route.ts'
import { versionRoute } from './version-route.ts'

/** The client-server protocol of OpenTool 1.1.0, and those extensions that are turned on. */
export function opentoolRoutes(gateway: Gateway, options: OpenToolOptions): readonly HttpRoute[] {
  const parts = { gateway, tables: new FunctionTables(), options }
  return [
    versionRoute(options.version),
    loadRoute(gateway, options),
    callRoute(parts),
    ...(options.streaming === true ? [streamRoute(parts)] : []),
    ...(options.stop === undefined ? [] : [stopRoute(options.stop)]),
  ]
}
