/**
 * Facts about the server over HTTP. Every caller gets its addresses, configurations for clients, and whether a tool has been called yet,
 * which the console's first steps wait for; operators also get its limits. These routes belong to the admin API.
 */
import { DESCRIBE_SERVER, READ_ONBOARDING } from '#admin-api/server'
import { type Limits, READ_LIMITS } from '#admin-api/usage'
import type { Settings } from '#config/settings'
import type { Principal } from '#kernel/base/principal'
import { PROTOCOLS } from '#protocols/list'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { serveOperation, timeOf } from '#server/admin/admin-route'
import type { ServerRoute } from '#server/http/router'
import { clientSnippets } from '#server/import/client-snippets'
import { isOwnMachine } from '#server/safety'
import { VERSION } from '#server/version'
import type { CallLimit } from '#stages/limits/settings'
import type { Store } from '#store/collet-store'

/** Number of the latest calls that are searched for a call by an agent. */
const MAX_SEARCHED = 50

interface ServerRoutesOptions {
  settings(): Settings
  readonly store: Pick<Store, 'list' | 'pendingWrites'>
  publicUrl(): string
  isKeyed(): boolean
  /** Calls that run in this process. */
  running(): number
  /** Toolsets that a principal may connect to. */
  toolsetsOf(
    principal: Principal,
  ): readonly { readonly name: string; readonly description?: string | undefined }[]
}

export function createServerRoutes(
  access: OperatorAccess,
  options: ServerRoutesOptions,
): readonly ServerRoute[] {
  const { settings, store, publicUrl, isKeyed, running, toolsetsOf } = options
  return [
    serveOperation(access, DESCRIBE_SERVER, async ({ principal, query }) => {
      const toolsets = toolsetsOf(principal)
      const wanted = toolsets.find(({ name }) => name === query.toolset)?.name
      const mcp = `${publicUrl()}${PROTOCOLS.mcp.root}`
      const target = {
        url: wanted === undefined ? mcp : `${mcp}/${encodeURIComponent(wanted)}`,
        name: wanted === undefined ? 'collet' : `collet-${wanted}`,
        isKeyed: isKeyed(),
        isOwnMachine: isOwnMachine(settings().server),
      }
      const { calls, journal, mcp: served, store: address } = settings()
      return {
        version: VERSION,
        url: publicUrl(),
        store: engineOf(address),
        needs_key: target.isKeyed,
        own_machine: target.isOwnMachine,
        protocols: servedProtocols(settings()).map(({ name, title, root }) => ({
          name,
          title,
          url: `${publicUrl()}${root}`,
        })),
        toolsets: (served.enabled ? toolsets : []).map(({ name, description }) => ({
          name,
          description: description ?? null,
          url: `${mcp}/${encodeURIComponent(name)}`,
        })),
        clients: served.enabled ? clientSnippets(target) : [],
        kept: { journal_days: journal.retentionDays, result_hours: calls.retentionHours },
      }
    }),
    serveOperation(access, READ_ONBOARDING, async ({ principal }) => {
      const seesAll = access.hasScope(principal, 'admin:calls')
      const tenant = seesAll ? visibleTenant(principal) : principal.tenant
      const owner = seesAll ? undefined : principal.id
      const { calls } = await store.list({ limit: MAX_SEARCHED, tenant, principal: owner })
      const found = calls.find(({ protocol }) => protocol === 'mcp')
      return {
        has_calls: calls.length > 0,
        agent_call:
          found === undefined
            ? null
            : { record: found.record, tool: found.tool, at: timeOf(found.createdAtMs) },
      }
    }),
    serveOperation(access, READ_LIMITS, async () => {
      const { total, perPrincipal, byPrincipal, perTool, byTool } = settings().limits
      const rules = [
        renderLimit('server', null, total),
        renderLimit('principal', null, perPrincipal),
        ...[...byPrincipal].map(([name, limit]) => renderLimit('principal', name, limit)),
        renderLimit('tool', null, perTool),
        ...[...byTool].map(([name, limit]) => renderLimit('tool', name, limit)),
      ]
      return {
        now: [
          { what: 'running' as const, used: running(), limit: total.concurrent ?? null },
          { what: 'writing' as const, used: store.pendingWrites, limit: total.pendingWrites ?? null },
        ],
        rules: rules.filter(({ rate, at_once }) => rate !== null || at_once !== null),
      }
    }),
  ]
}

type LimitRule = Limits['rules'][number]

function renderLimit(of: LimitRule['of'], name: string | null, { rate, concurrent }: CallLimit): LimitRule {
  return {
    ...{ of, name, at_once: concurrent ?? null },
    rate:
      rate === undefined
        ? null
        : { per_minute: Math.round(rate.perMs * 60_000 * 1_000) / 1_000, burst: rate.burst },
  }
}

const TITLES = {
  mcp: 'MCP',
  otc: 'OTC',
  opentool: 'OpenTool',
  openwop: 'openwop',
} as const satisfies Readonly<Record<keyof typeof PROTOCOLS, string>>

const SHOWN_PROTOCOLS = ['mcp', 'otc', 'opentool', 'openwop'] as const

/** Protocols that are served, by their usual names, in the order in which they are shown. */
export function servedProtocols(settings: Pick<Settings, keyof typeof PROTOCOLS>) {
  return SHOWN_PROTOCOLS.filter((name) => isServed(settings[name])).map((name) => ({
    name,
    title: TITLES[name],
    root: PROTOCOLS[name].root,
  }))
}

/** A protocol without `enabled` cannot be turned off. */
function isServed(settings: object): boolean {
  return !('enabled' in settings) || settings.enabled === true
}

/** Names the database without its address, which only operators may know. */
function engineOf(store: string): 'SQLite' | 'PostgreSQL' | 'memory' {
  if (store.startsWith('memory:')) return 'memory'
  return store.startsWith('sqlite:') ? 'SQLite' : 'PostgreSQL'
}
