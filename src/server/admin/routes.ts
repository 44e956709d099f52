import type { Settings } from '#config/settings'
import type { KeyOwner } from '#core/ports/key-store'
import { NO_ROLES, type Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { ServerRoute } from '#server/http/router'
import { createJournalRoutes } from '#server/overview/journal-routes'
import { createServerRoutes } from '#server/overview/server-routes'
import type { Services } from '#server/services'
import { createAuditRoutes } from '#server/telemetry/audit'
import { openToolsets } from '#server/toolsets'
import { createWebhookRoutes } from '#server/webhooks/routes'
import type { OperatorAccess } from './access.ts'
import { createApprovalRoutes } from './approvals.ts'
import { createCallRoutes } from './calls.ts'
import { approverScopes } from './key-grants.ts'
import { ApiKeys, createKeyRoutes } from './keys.ts'
import { createPinRoutes } from './pins.ts'
import { createProviderRoutes, createSecretsRoutes } from './secrets.ts'
import { createSourceRoutes } from './sources.ts'
import { createToolRoutes } from './tools.ts'
import { createToolsetRoutes } from './toolsets.ts'
import { createUsageRoutes } from './usage.ts'

interface AdminParts {
  readonly clock: Clock
  publicUrl(): string
  consoleUrl(): string | undefined
  readonly canSignIn: boolean
  /** Whether callers need a credential. */
  isKeyed(): boolean
  /** Hears of every tool that was looked up and is unknown to its principal. */
  onUnknownTool(principal: Principal, name: string): void
}

/** What operators look after, below `/admin`. */
export function adminRoutes(
  live: () => Settings,
  { gateway, registry, sources: opened, broker, fetch: toConfigured }: Services,
  parts: AdminParts,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const { store, approvals } = gateway
  const { sources, pins } = opened
  const { clock, publicUrl, consoleUrl, canSignIn, isKeyed, onUnknownTool } = parts
  const apiKeys = new ApiKeys({
    store,
    clock,
    known: () => ({
      ...{ tools: registry.tools, toolsets: registry.toolsets },
      roles: live().auth.roles ?? NO_ROLES,
      sources: sources.status().map(({ key }) => key),
      scopes: approverScopes(live().approvals),
      mayComeLater: () => false,
    }),
    isConfigured: ({ tenant, name }) =>
      live().auth.apiKeys.some((entry) => entry.tenant === tenant && entry.id === name),
  })
  const isConfigured = (key: string): boolean => live().sources.has(key)
  return [
    ...createCallRoutes({ calls: store, clock, baseOf: (name) => registry.find(name)?.parts.base }, access),
    ...createUsageRoutes(
      {
        store,
        clock,
        costOf: (id) => registry.find(id)?.policy.cost,
        budgets: () => live().budgets,
      },
      access,
    ),
    ...createApprovalRoutes({ approvals, publicUrl, canSignIn }, access),
    ...createKeyRoutes(apiKeys, access),
    ...createToolRoutes(
      {
        ...{ registry, clock, store, pins, onUnknownTool },
        sources: () => sources.status(),
        approvals: () => live().approvals,
        budgets: () => live().budgets,
        egressAllow: () => live().egress.allow,
        canAsk: (provider, scopes) => broker.canAsk(provider, scopes),
      },
      access,
    ),
    ...createToolsetRoutes(
      () => {
        const { roles = NO_ROLES, apiKeys: configured } = live().auth
        return { toolsets: registry.toolsets, tools: registry.tools, roles, apiKeys: configured }
      },
      store.keys,
      access,
    ),
    ...createPinRoutes(pins, access),
    ...createSecretsRoutes({ store, broker, clock }, access),
    ...createProviderRoutes(
      {
        ...{ store, broker, clock, publicUrl },
        providers: () => live().oauth.providers,
        tools: () => registry.tools,
      },
      access,
    ),
    ...createSourceRoutes(
      {
        ...{ sources, store: store.sources, pins: store.pins, clock, isConfigured },
        looking: {
          find: opened.find,
          openBeside: opened.openBeside,
          folder: () => live().folder,
          environment: () => live().variables?.() ?? {},
        },
      },
      access,
    ),
    ...createWebhookRoutes(
      {
        ...{ notices: store.notices, fetch: toConfigured, clock, publicUrl, consoleUrl },
        webhooks: () => live().webhooks ?? [],
      },
      access,
    ),
    ...createServerRoutes(
      {
        ...{ store, publicUrl, isKeyed },
        settings: live,
        running: () => gateway.running.slots,
        toolsetsOf: (principal) =>
          openToolsets(registry, principal).map((name) => ({
            name,
            description: registry.toolsets.get(name)?.description,
          })),
      },
      access,
    ),
    ...createJournalRoutes({ store, clock, enter: gateway.enterWaiting }, access),
    ...createAuditRoutes({ store, configured: () => live().auth.apiKeys.map(ownerOf) }, access),
  ]
}

function ownerOf({ tenant, id }: Settings['auth']['apiKeys'][number]): KeyOwner {
  return { tenant, name: id }
}
