import { randomUUID } from 'node:crypto'
import type { Settings } from '#config/settings'
import type { Gateway } from '#core/calls/gateway'
import type { Store } from '#core/ports/store'
import type { Clock, Logger } from '#core/runtime'
import type { HttpRoute } from '#protocols/http-exchange'
import type { NoteDenial } from '#server/telemetry/observe'
import { authorizationRoutes } from './authorization-routes.ts'
import { safeFetchRoutes } from './safe-fetch-routes.ts'
import { toolHooksRoutes } from './tool-hooks-routes.ts'

export interface ServerSeamsOptions {
  readonly gateway: Gateway
  readonly settings: Settings
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly noteDenial: NoteDenial
  publicUrl(): string
}

/** What the public suite drives and the protocol's own room cannot: egress, hooks and roles (OWP-103, OWP-104, OWP-106). */
export function serverSeams(options: ServerSeamsOptions): readonly HttpRoute[] {
  const { gateway, settings, store, clock, log, noteDenial } = options
  return [
    ...safeFetchRoutes(gateway),
    ...toolHooksRoutes({
      ...{ store, clock, log, fetch: options.fetch, publicUrl: options.publicUrl },
      hooks: {},
      approvalRules: settings.approvals,
      newCallId: randomUUID,
      newChallengeId: randomUUID,
      newSessionId: randomUUID,
      maxResultBytes: settings.calls.maxResultBytes,
    }),
    ...authorizationRoutes({ gateway, auth: settings.auth, keys: store.keys, clock, log, noteDenial }),
  ]
}
