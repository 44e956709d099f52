/**
 * Assembles the admin routes of a running server: each resource gets its part of the services, and live settings as functions, because a
 * reload replaces them. The composition root is the only user.
 */
import { READ_ADMIN_DOCUMENT } from '#admin-api/server'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { NO_ROLES, type Principal } from '#kernel/base/principal'
import type { ServerHost } from '#server/host'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { findBypasses } from '#server/import/bypass'
import { isOwnMcpAddress } from '#server/import/client-servers'
import { CLIENT_NAMES, clientPlace } from '#server/import/clients'
import { createJournalRoutes } from '#server/overview/journal-routes'
import { createRejectionRoutes } from '#server/overview/rejected-requests'
import { createServerRoutes } from '#server/overview/server-routes'
import type { ServerPart } from '#server/part'
import { isOwnMachine } from '#server/safety'
import { findScopeHolders } from '#server/scope-holders'
import type { Services } from '#server/services'
import { createAuditRoutes } from '#server/telemetry/audit'
import { openToolsets } from '#server/toolsets'
import { VERSION } from '#server/version'
import { createWebhookRoutes } from '#server/webhooks/routes'
import type { KeyOwner } from '#store/keys'
import type { OperatorAccess } from './access.ts'
import { createApprovalRoutes } from './approvals.ts'
import { createCallEventRoutes } from './call-events.ts'
import { CallFeed } from './call-feed.ts'
import { createCallRoutes } from './calls.ts'
import { approverScopes } from './key-grants.ts'
import { createKeyRoutes, type KeyRoutesOptions } from './keys.ts'
import { createPinRoutes } from './pins.ts'
import { createReloadRoutes } from './reload.ts'
import { createProviderRoutes, createSecretsRoutes } from './secrets.ts'
import { createSourceRoutes } from './sources.ts'
import { createToolRoutes, createToolsetRoutes } from './tools.ts'
import { createUsageRoutes } from './usage.ts'

interface AdminParts {
  readonly clock: Clock
  publicUrl(): string
  consoleUrl(): string | undefined
  readonly canSignIn: boolean
  /** The principal of callers without a credential; `undefined` if every caller needs one. */
  openCaller(): Principal | undefined
  /** Called for every request for a tool that the principal may not see. */
  onUnknownTool(principal: Principal, name: string): void
}

/** Opens the admin API: its routes, and the feed behind the stream of calls. */
export function openAdmin(host: ServerHost): ServerPart {
  const { settings, services, clock, log, address, access, authenticator, reloads, onUnknownTool } = host
  const { gateway, registry } = services
  const { sessions } = host.console
  const feed = new CallFeed({ store: gateway.store, clock })
  return {
    routes: [
      ...adminRoutes(
        () => settings.current,
        services,
        {
          ...{ clock, publicUrl: address.publicUrl, consoleUrl: address.consoleUrl, onUnknownTool },
          canSignIn: host.approverSignIn.isConfigured,
          openCaller: () => authenticator.openCaller,
        },
        access,
      ),
      ...createCallEventRoutes(
        {
          ...{ feed, clock, enter: gateway.enterWaiting },
          baseOf: (name) => registry.find(name)?.parts.base,
          present: (headers) => sessions.present({ headers }),
        },
        access,
      ),
      ...createReloadRoutes({ reloadEverywhere: reloads.reloadEverywhere, log }, access),
    ],
    close: () => feed.close(),
  }
}

/** All admin routes but the stream of calls and reload. */
function adminRoutes(
  live: () => Settings,
  { gateway, registry, sources: opened, broker, fetch: toConfigured }: Services,
  parts: AdminParts,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const { store, approvals } = gateway
  const { sources, pins } = opened
  const { clock, publicUrl, consoleUrl, canSignIn, openCaller, onUnknownTool } = parts
  const keyOptions: KeyRoutesOptions = {
    store,
    clock,
    isOpen: () => openCaller() !== undefined,
    known: () => ({
      ...{ tools: registry.tools, toolsets: registry.toolsets },
      roles: live().auth.roles ?? NO_ROLES,
      sources: sources.status().map(({ key }) => key),
      scopes: approverScopes(live().approvals),
      mayComeLater: () => false,
    }),
    configured: () => live().auth.apiKeys,
    isConfigured: ({ tenant, name }) =>
      live().auth.apiKeys.some((entry) => entry.tenant === tenant && entry.id === name),
  }
  const isConfigured = (key: string): boolean => live().sources.has(key)
  const baseOf = (name: string): string | undefined => registry.find(name)?.parts.base
  return [
    ...createRejectionRoutes({ rejections: store.rejections, clock, baseOf }, access),
    ...createCallRoutes({ calls: store, clock, baseOf }, access),
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
    ...createKeyRoutes(keyOptions, access),
    ...createToolRoutes(
      {
        ...{ registry, clock, store, pins, onUnknownTool },
        sources: () => sources.status(),
        approvals: () => live().approvals,
        budgets: () => live().budgets,
        egressAllow: () => live().egress.allow,
        obstacle: (provider, scopes) => broker.obstacle(provider, scopes),
        openCaller,
        scopeHolders: () => findScopeHolders(live().auth, store.keys, clock.nowMs()),
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
    ...createSecretsRoutes({ store, broker, clock, openCaller }, access),
    ...createProviderRoutes(
      {
        ...{ store, broker, clock, publicUrl, openCaller },
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
          bypasses: (known) => bypassesOf(live(), publicUrl(), known),
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
        ...{ store, publicUrl, isKeyed: () => openCaller() === undefined },
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
    documentRoute(),
    ...createAuditRoutes({ store, configured: () => live().auth.apiKeys.map(ownerOf) }, access),
  ]
}

/** OpenAPI 3.1 of every route below `/admin`; the protocols have their own documents. */
function documentRoute(): ServerRoute {
  let document: object | undefined
  return {
    method: READ_ADMIN_DOCUMENT.method,
    path: READ_ADMIN_DOCUMENT.path,
    access: 'open',
    body: 'never',
    handle: async () => {
      // Loaded and built at the first request, so that servers start without it.
      const { createAdminDocument } = await import('#admin-api/document')
      document ??= createAdminDocument(VERSION)
      return jsonReply(200, document, { 'cache-control': 'no-cache' })
    },
    refuse: refuseWithMessage,
  }
}

function ownerOf({ tenant, id }: Settings['auth']['apiKeys'][number]): KeyOwner {
  return { tenant, name: id }
}

/** Only a server for this machine can read the files of MCP clients. */
function bypassesOf(
  { server, folder, variables }: Settings,
  publicUrl: string,
  sources: Parameters<typeof findBypasses>[1]['sources'],
): ReturnType<typeof findBypasses> {
  if (variables === undefined || !isOwnMachine(server)) return []
  const isOwnAddress = isOwnMcpAddress(Number(new URL(publicUrl).port))
  return findBypasses(CLIENT_NAMES, { place: clientPlace(folder, variables()), sources, isOwnAddress })
}
