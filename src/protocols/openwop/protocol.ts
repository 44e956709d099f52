import { z } from 'zod'
import { DEFAULT_VENDOR } from '#kernel/base/ids'
import { NO_ROLES, type RoleTable } from '#kernel/base/principal'
import type { Protocol, SectionSettings } from '#protocols/protocol'
import { hasToolRates, type LimitSettings } from '#stages/limits/settings'
import type { OpenwopCapabilities } from './routes.ts'
import { API_ROOT, IDEMPOTENT_REPLAY_HEADER } from './wire.ts'

/*
 * Registers openwop with the server: its config section, root path, headers and advertised capabilities. `protocols/list.ts` imports
 * it.
 * Invariant: the discovery document advertises only what the config turns on (OWP-05).
 */

const SETTINGS = {
  /** Serve and advertise the tool catalog, `/v1/tools`. Default true. */
  catalog: z.boolean().default(true),
  /** Serve and advertise `?view=compact` of the catalog. Default true. */
  compactView: z.boolean().default(true),
  /** The vendor in the catalog ids of tools of tier `exec`: `x-host-<vendor>-<toolkit>-<tool>`. Default `local`. */
  vendor: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,62}$/, { error: 'expected lowercase letters, digits and "-", such as "acme".' })
    .default(DEFAULT_VENDOR),
  /** Serve and advertise sessions of stateful tools, `/v1/sessions`; needs the catalog. Default true. */
  sessions: z.boolean().default(true),
}

/** The config sections that the discovery document describes. */
type AdvertisedSettings = {
  readonly openwop: SectionSettings<typeof SETTINGS>
  readonly egress: { readonly maxResponseBytes: number; readonly timeoutMs: number }
  readonly auth: { readonly roles?: RoleTable }
  readonly limits: LimitSettings
}

/** The openwop tool catalog, with runs, sessions and interrupts. */
export const openwop = {
  settings: SETTINGS,
  root: API_ROOT,
  headers: { sent: ['last-event-id'], read: [IDEMPOTENT_REPLAY_HEADER.toLowerCase()] },
  async serve(settings, { gateway, store, serverVersion, onUnknownTool, search }) {
    const { openwopRoutes } = await import('./routes.ts')
    const capabilities = openwopCapabilities(settings)
    return {
      routes: openwopRoutes(gateway, {
        ...{ serverVersion, capabilities, store, onUnknownTool, search },
      }),
    }
  },
} satisfies Protocol<AdvertisedSettings>

/** Capabilities of the discovery document: only what is turned on (OWP-05). */
function openwopCapabilities({
  openwop: { catalog, compactView, sessions },
  egress,
  auth: { roles = NO_ROLES },
  limits,
}: AdvertisedSettings): OpenwopCapabilities {
  return {
    toolCatalog: catalog,
    compactView,
    sessionLifecycle: sessions,
    families: {
      // The limits of `ctx.fetch` (OWP-80, OWP-82).
      httpClient: {
        supported: true,
        ssrfGuard: true,
        maxResponseBodyBytes: egress.maxResponseBytes,
        requestTimeoutMs: egress.timeoutMs,
        safeFetch: { supported: true },
      },
      // Advertised only if the config has roles (OWP/C4). The document is public, so it names no role and no scope.
      ...(roles.size === 0 ? {} : { authorization: { supported: true, failClosed: true } }),
      // Advertised only if tools have their own rate limits (OWP-05, OWP-56).
      ...(hasToolRates(limits) ? { toolHooks: { supported: true, perToolRateLimit: true } } : {}),
    },
  }
}
