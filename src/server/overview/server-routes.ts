import type { Settings } from '#config/settings'
import type { Principal } from '#kernel/base/principal'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import { adminRoute, momentOf, NO_STORE, type OperatorAccess, tenantWithin } from '#server/admin/access'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { clientSnippets } from '#server/import/client-snippets'
import { isOwnMachine } from '#server/safety'
import { VERSION } from '#server/version'
import type { CallLimit, TokenRate } from '#stages/limits/settings'
import type { Store } from '#store/collet-store'

const CALLS_SCOPE = 'admin:calls'
/** Among so many calls an agent's own is looked for. */
const LATEST = 50

interface ServerRoutesOptions {
  settings(): Settings
  readonly store: Pick<Store, 'list' | 'pendingWrites'>
  publicUrl(): string
  isKeyed(): boolean
  /** Calls that run in this process. */
  running(): number
  /** Toolsets that somebody may connect to. */
  toolsetsOf(
    principal: Principal,
  ): readonly { readonly name: string; readonly description?: string | undefined }[]
}

/**
 * What a server says about itself: addresses and ready-made configuration for clients, to whoever may call it; whether anybody has
 * called, which the first steps of the console wait for; and its limits, for operators.
 */
export function createServerRoutes(
  options: ServerRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const { settings, store, publicUrl, isKeyed, running, toolsetsOf } = options

  const about = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    const toolsets = toolsetsOf(principal)
    const wanted = toolsets.find(({ name }) => name === query.get('toolset'))?.name
    const mcp = `${publicUrl()}${PROTOCOLS.mcp.root}`
    const target = {
      url: wanted === undefined ? mcp : `${mcp}/${encodeURIComponent(wanted)}`,
      name: wanted === undefined ? 'collet' : `collet-${wanted}`,
      isKeyed: isKeyed(),
      isOwnMachine: isOwnMachine(settings().server),
    }
    const { calls, journal, mcp: served, server } = settings()
    return jsonReply(
      200,
      {
        version: VERSION,
        url: publicUrl(),
        store: engineOf(settings().store),
        needs_key: isKeyed(),
        own_machine: isOwnMachine(server),
        protocols: servedProtocols(settings()).map(({ name, title, root }) => ({
          name,
          title,
          url: `${publicUrl()}${root}`,
        })),
        toolsets: served.enabled
          ? toolsets.map(({ name, description }) => ({
              name,
              description: description ?? null,
              url: `${mcp}/${encodeURIComponent(name)}`,
            }))
          : [],
        clients: served.enabled ? clientSnippets(target) : [],
        kept: { journal_days: journal.retentionDays, result_hours: calls.retentionHours },
      },
      NO_STORE,
    )
  }

  /** Of the asker's own calls, or of all that it may see: whether there are any, and the newest that came from an agent. */
  const beginning = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    const seesAll = access.hasScope(principal, CALLS_SCOPE)
    const tenant = seesAll ? tenantWithin(principal) : principal.tenant
    const { calls } = await store.list({
      limit: LATEST,
      tenant,
      principal: seesAll ? undefined : principal.id,
    })
    const fromAgent = calls.find(({ protocol }) => protocol === 'mcp')
    return jsonReply(
      200,
      {
        has_calls: calls.length > 0,
        agent_call:
          fromAgent === undefined
            ? null
            : { record: fromAgent.record, tool: fromAgent.tool, at: momentOf(fromAgent.createdAtMs) },
      },
      NO_STORE,
    )
  }

  const limits = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, CALLS_SCOPE)
    const { total, perPrincipal, byPrincipal, perTool, byTool } = settings().limits
    const rules = [
      { of: 'server', name: null, ...renderLimit(total) },
      { of: 'principal', name: null, ...renderLimit(perPrincipal) },
      ...[...byPrincipal].map(([name, limit]) => ({ of: 'principal', name, ...renderLimit(limit) })),
      { of: 'tool', name: null, ...renderLimit(perTool) },
      ...[...byTool].map(([name, limit]) => ({ of: 'tool', name, ...renderLimit(limit) })),
    ]
    return jsonReply(
      200,
      {
        now: [
          { what: 'running', used: running(), limit: total.concurrent ?? null },
          { what: 'writing', used: store.pendingWrites, limit: total.pendingWrites ?? null },
        ],
        rules: rules.filter(({ rate, at_once }) => rate !== null || at_once !== null),
      },
      NO_STORE,
    )
  }
  const forCallers = { authenticate: access.admit }
  return [
    adminRoute(forCallers, 'GET', '/admin/server', about),
    adminRoute(forCallers, 'GET', '/admin/server/beginning', beginning),
    adminRoute(access, 'GET', '/admin/limits', limits),
  ]
}

function renderLimit({ rate, concurrent }: CallLimit) {
  return { rate: rate === undefined ? null : renderRate(rate), at_once: concurrent ?? null }
}

function renderRate({ perMs, burst }: TokenRate) {
  return { per_minute: Math.round(perMs * 60_000 * 1_000) / 1_000, burst }
}

const TITLES = {
  mcp: 'MCP',
  otc: 'OTC',
  opentool: 'OpenTool',
  openwop: 'openwop',
} as const satisfies Readonly<Record<keyof typeof PROTOCOLS, string>>

const SHOWN = ['mcp', 'otc', 'opentool', 'openwop'] as const

/** Those that are served, as people call them, in the order in which they are shown. */
export function servedProtocols(settings: Pick<Settings, keyof typeof PROTOCOLS>) {
  return SHOWN.filter((name) => isServed(settings[name])).map((name) => ({
    name,
    title: TITLES[name],
    root: PROTOCOLS[name].root,
  }))
}

/** One that cannot be turned off always is. */
function isServed(settings: object): boolean {
  return !('enabled' in settings) || settings.enabled === true
}

/** Which database, without its address: that is for those who run the server. */
function engineOf(store: string): 'SQLite' | 'PostgreSQL' | 'memory' {
  if (store.startsWith('memory:')) return 'memory'
  return store.startsWith('sqlite:') ? 'SQLite' : 'PostgreSQL'
}
