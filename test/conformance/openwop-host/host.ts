import { randomUUID } from 'node:crypto'
import type { Conformance } from '#server/start-server'
import { authorizationRoutes } from './authorization.ts'
import { runRoutes } from './runs.ts'
import { safeFetchRoutes, safeFetchTool } from './safe-fetch.ts'
import { toolHooksRoutes } from './tool-hooks.ts'

/** Routes for the public openwop suite besides the product (OWP-100 to OWP-106); they run the production code. */
export const OPENWOP_CONFORMANCE: Conformance = {
  tools: safeFetchTool(),
  routes({ gateway, settings, store, clock, log, fetch, noteDenial, publicUrl }) {
    const { catalog, sessions } = settings.openwop
    return [
      ...runRoutes(gateway, catalog && sessions),
      ...safeFetchRoutes(gateway),
      ...toolHooksRoutes({
        ...{ store, clock, log, fetch, publicUrl },
        hooks: {},
        approvalRules: settings.approvals,
        newCallId: randomUUID,
        newChallengeId: randomUUID,
        newSessionId: randomUUID,
        maxResultBytes: settings.calls.maxResultBytes,
      }),
      ...authorizationRoutes({ gateway, auth: settings.auth, keys: store.keys, clock, log, noteDenial }),
    ]
  },
}
