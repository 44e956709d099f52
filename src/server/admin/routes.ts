/**
 * Assembles the admin routes of a running server: each resource gets its part of the services, and live settings as functions, because a
 * reload replaces them. The composition root is the only user.
 */
import { READ_ADMIN_DOCUMENT } from '#admin-api/server'
import type { Settings } from '#config/settings'
import { NO_ROLES } from '#kernel/base/principal'
import { createRuleRoutes } from '#server/approvals/rules'
import { createExportRoutes } from '#server/audit/export-routes'
import { createJournalEventRoutes } from '#server/audit/journal-routes'
import { createReceiptRoutes } from '#server/audit/receipt-routes'
import { createConversationRoutes } from '#server/calls/conversation'
import { createErrorRoutes } from '#server/calls/error-groups'
import type { ServerHost } from '#server/host'
import { jsonReply, OPEN_ROUTE } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { findBypasses } from '#server/import/bypass'
import { isOwnMcpAddress } from '#server/import/client-servers'
import { CLIENT_NAMES, clientFolders } from '#server/import/clients'
import { createJournalRoutes } from '#server/overview/journal-routes'
import { createOverviewRoutes } from '#server/overview/overview-routes'
import { createRejectionRoutes } from '#server/overview/rejected-requests'
import { createServerRoutes } from '#server/overview/server-routes'
import type { ServerPart } from '#server/part'
import { isOwnMachine } from '#server/safety'
import { findScopeHolders } from '#server/scope-holders'
import { listSettings } from '#server/server-handle'
import { createAuditRoutes } from '#server/telemetry/audit'
import { openToolsets } from '#server/toolsets'
import { VERSION } from '#server/version'
import { createWebhookRoutes } from '#server/webhooks/routes'
import { createApprovalRoutes } from './approvals.ts'
import { createCallEventRoutes } from './call-events.ts'
import { CallFeed } from './call-feed.ts'
import { createCallRoutes } from './calls.ts'
import { approverScopes } from './key-grants.ts'
import { createKeyRoutes } from './keys.ts'
import { createPinRoutes } from './pins.ts'
import { createReloadRoutes } from './reload.ts'
import { createProviderRoutes, createSecretsRoutes } from './secrets.ts'
import { createSourceRoutes } from './sources.ts'
import { createToolRoutes, createToolsetRoutes } from './tools.ts'
import { createUsageRoutes } from './usage.ts'

/** Opens the admin API: its routes, and the feed behind the stream of calls. */
export function openAdmin(host: ServerHost): ServerPart {
  const { settings, services, clock, log, access, authenticator, reloads, onUnknownTool } = host
  const { publicUrl, consoleUrl } = host.address
  const { gateway, registry, broker } = services
  const { store, approvals } = gateway
  const { sources, pins, find, openBeside } = services.sources
  const feed = new CallFeed({ store, clock })
  const live = (): Settings => settings.current
  const roles = () => live().auth.roles ?? NO_ROLES
  const budgets = () => live().budgets
  const openCaller = () => authenticator.openCaller
  const isOpen = () => openCaller() !== undefined
  const baseOf = (name: string) => registry.find(name)?.parts.base
  const costOf = (id: string) => registry.find(id)?.policy.cost
  const configured = () => live().auth.apiKeys.map(({ tenant, id }) => ({ tenant, name: id }))
  const routes = [
    ...createRejectionRoutes(access, { rejections: store.rejections, clock, baseOf }),
    ...createCallRoutes(access, {
      ...{ calls: store, clock, baseOf, costOf },
      flushLogs: () => services.logs.flush(),
    }),
    ...createErrorRoutes(access, { store, clock, baseOf }),
    ...createConversationRoutes(access, { store, clock, costOf }),
    ...createCallEventRoutes(access, {
      feed,
      clock,
      baseOf,
      enter: gateway.enterWaiting,
      present: (headers) => host.console.sessions.present({ headers }),
    }),
    ...createUsageRoutes(access, { store, clock, budgets, costOf }),
    ...createOverviewRoutes(access, { store, clock, budgets, sources: () => sources.status() }),
    ...createApprovalRoutes(access, { approvals, publicUrl, canSignIn: host.approverSignIn.isConfigured }),
    ...createRuleRoutes(access, {
      approvals,
      store,
      clock,
      definitionOf: (tool) => registry.find(tool)?.definitionHash,
    }),
    ...createKeyRoutes(access, {
      store,
      clock,
      isOpen,
      known: () => ({
        tools: registry.definitions,
        toolsets: registry.toolsets,
        roles: roles(),
        sources: sources.status().map(({ key }) => key),
        scopes: approverScopes(live().approvals),
        mayComeLater: () => false,
      }),
      configured: () => live().auth.apiKeys,
      isConfigured: ({ tenant, name }) =>
        live().auth.apiKeys.some((entry) => entry.tenant === tenant && entry.id === name),
    }),
    ...createToolRoutes(access, {
      registry,
      search: services.search,
      listing: () => listSettings(live()),
      clock,
      store,
      pins,
      onUnknownTool,
      openCaller,
      budgets,
      sources: () => sources.status(),
      approvals: () => live().approvals,
      egressAllow: () => live().egress.allow,
      obstacle: (provider, scopes) => broker.obstacle(provider, scopes),
      scopeHolders: () => findScopeHolders(live().auth, store.keys, clock.nowMs()),
    }),
    ...createToolsetRoutes(access, store.keys, () => ({
      toolsets: registry.toolsets,
      tools: registry.tools,
      roles: roles(),
      apiKeys: live().auth.apiKeys,
    })),
    ...createPinRoutes(access, pins),
    ...createSecretsRoutes(access, { store, broker, clock, openCaller }),
    ...createProviderRoutes(access, {
      store,
      broker,
      clock,
      publicUrl,
      openCaller,
      providers: () => live().oauth.providers,
      tools: () => registry.definitions,
    }),
    ...createSourceRoutes(access, {
      sources,
      store: store.sources,
      pins: store.pins,
      clock,
      isConfigured: (key) => live().sources.has(key),
      probes: {
        find,
        openBeside,
        folder: () => live().folder,
        environment: () => live().variables?.() ?? {},
        bypasses: (known) => bypassesOf(live(), publicUrl(), known),
      },
    }),
    ...createWebhookRoutes(access, {
      notices: store.notices,
      fetch: services.fetch,
      clock,
      publicUrl,
      consoleUrl,
      webhooks: () => live().webhooks ?? [],
    }),
    ...createServerRoutes(access, {
      store,
      publicUrl,
      isKeyed: () => !isOpen(),
      settings: live,
      running: () => gateway.running.slots,
      toolsetsOf: (principal) =>
        openToolsets(registry, principal).map((name) => ({
          name,
          description: registry.toolsets.get(name)?.description,
        })),
    }),
    ...createJournalRoutes(access, { store, clock, enter: gateway.enterWaiting }),
    documentRoute(),
    ...createAuditRoutes(access, { store, configured }),
    ...createJournalEventRoutes(access, { store, configured }),
    ...createExportRoutes(access, { store, clock, baseOf, configured, costOf, enter: gateway.enterWaiting }),
    ...createReceiptRoutes(access, { store, clock, baseOf, publicUrl, enter: gateway.enterWaiting }),
    ...createReloadRoutes(access, { reloadEverywhere: reloads.reloadEverywhere, log }),
  ]
  return { routes, close: () => feed.close() }
}

/** Serves the OpenAPI 3.1 document of every route below `/admin`; the protocols have their own documents. */
function documentRoute(): ServerRoute {
  let document: object | undefined
  return {
    ...OPEN_ROUTE,
    method: READ_ADMIN_DOCUMENT.method,
    path: READ_ADMIN_DOCUMENT.path,
    handle: async () => {
      // The document is loaded and built at the first request, so that starting a server does not wait for it.
      const { createAdminDocument } = await import('#admin-api/document')
      document ??= createAdminDocument(VERSION)
      return jsonReply(200, document, { 'cache-control': 'no-cache' })
    },
  }
}

/** Finds MCP clients on this machine that bypass the server. Empty unless the server is local, because only then are these its clients. */
function bypassesOf(
  { server, folder, variables }: Settings,
  publicUrl: string,
  sources: Parameters<typeof findBypasses>[1]['sources'],
): ReturnType<typeof findBypasses> {
  if (variables === undefined || !isOwnMachine(server)) return []
  const isOwnAddress = isOwnMcpAddress(Number(new URL(publicUrl).port))
  return findBypasses(CLIENT_NAMES, { folders: clientFolders(folder, variables()), sources, isOwnAddress })
}
