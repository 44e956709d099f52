import type { Settings } from '#config/settings'
import type { JsonObject } from '#core/json'
import { hasToolRates } from '#core/limits/settings'
import { NO_ROLES } from '#core/principal'
import type { OpenwopCapabilities } from '#protocols/openwop/routes'

/** What the discovery document says of this server: nothing that is not on (OWP-05). */
export function openwopCapabilities(settings: Settings): OpenwopCapabilities {
  const { catalog, compactView, sessions } = settings.openwop
  return {
    toolCatalog: catalog,
    compactView,
    sessionLifecycle: sessions,
    families: {
      httpClient: describeHttpClient(settings.egress),
      ...describeRoles(settings.auth),
      ...describeToolHooks(settings.limits),
    },
  }
}

/** OWP-80, OWP-82: what `ctx.fetch` holds to. */
function describeHttpClient({ maxResponseBytes, timeoutMs }: Settings['egress']): JsonObject {
  return {
    supported: true,
    ssrfGuard: true,
    maxResponseBodyBytes: maxResponseBytes,
    requestTimeoutMs: timeoutMs,
    safeFetch: { supported: true },
  }
}

/** Only where roles do something (C4). */
function describeRoles({ roles = NO_ROLES }: Settings['auth']): Readonly<Record<string, JsonObject>> {
  if (roles.size === 0) return {}
  const shown = [...roles].map(([role, scopes]) => ({ role, scopes: [...scopes] }))
  return { authorization: { supported: true, failClosed: true, roles: shown } }
}

/** OWP-56 holds, and is said, only where tools have rates of their own (OWP-05). */
function describeToolHooks(limits: Settings['limits']): Readonly<Record<string, JsonObject>> {
  return hasToolRates(limits) ? { toolHooks: { supported: true, perToolRateLimit: true } } : {}
}
