import type { ApprovalRules } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { parseToolName } from '#kernel/base/ids'
import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import type { TokenBroker } from '#kernel/base/token-broker'
import type { Catalog, LiveRegistry } from '#kernel/tool/catalog'
import { sharedNameHint } from '#kernel/tool/shared-names'
import type { Tool } from '#kernel/tool/tool'
import { isInToolset, sourceToolkit } from '#kernel/tool/toolsets'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { replyPrepared } from '#protocols/prepared'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { CanHold } from '#server/scope-holders'
import { enterToolset } from '#server/toolsets'
import type { Pins } from '#sources/kit/pins'
import { toolkitOf } from '#sources/kit/project'
import type { SourceView } from '#sources/kit/sources'
import type { BudgetRule } from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import type { UsageRow } from '#store/operator-views'
import { adminRoute, isOperator, NO_STORE, type OperatorAccess, tenantWithin } from './access.ts'
import { readMoment } from './call-filter.ts'
import { callerSeenBy, HeldCredentials } from './tool-needs.ts'
import { shownToolsets, ToolListings, type Viewer } from './tool-rows.ts'
import { renderTool } from './tool-view.ts'
import { countUsage, isError, quantile, roundedMs } from './usage.ts'

/** What the routes about tools are made of. Without a store and sources they tell what a config alone can tell. */
interface ToolRoutesOptions {
  readonly registry: LiveRegistry
  readonly clock: Clock
  readonly store?: Pick<Store, 'vault' | 'digest' | 'list' | 'usage'> | undefined
  readonly pins?: Pick<Pins, 'waiting' | 'diff'> | undefined
  sources?(): readonly SourceView[]
  approvals(): ApprovalRules
  budgets(): readonly BudgetRule[]
  /** Local addresses that tools may reach. */
  egressAllow(): readonly string[]
  obstacle: TokenBroker['obstacle']
  /** Which scopes callers can hold. */
  scopeHolders(): Promise<CanHold>
  /** Who calls without a credential; `undefined` where every caller needs one. */
  openCaller(): Principal | undefined
  /** Hears of every tool that was looked for and is unknown to who looked (rule 30a). */
  onUnknownTool?(principal: Principal, name: string): void
}

/** Other answers to other credentials, which browsers and proxies must know. */
const PRIVATE = {
  'cache-control': 'private, no-cache',
  vary: 'accept-encoding, authorization, cookie, x-api-key',
}

/**
 * The tools that the caller may see, for whoever may call: people look at them in the console, and `collet tools` lists them.
 * What is hidden from a caller by protocols is hidden here too (rule 2); the operator sees those of every tenant.
 */
export function createToolRoutes(options: ToolRoutesOptions, access: OperatorAccess): readonly ServerRoute[] {
  const { registry } = options
  const listings = new ToolListings({
    toolsets: () => registry.toolsets,
    approvals: options.approvals,
    ...(options.sources === undefined ? {} : { sources: options.sources }),
    ...(options.pins === undefined ? {} : { waiting: async () => (await options.pins?.waiting()) ?? [] }),
    store: options.store,
    openCaller: options.openCaller,
    scopeHolders: options.scopeHolders,
  })
  const viewerOf = ({ principal: caller, query }: HttpRequest): Viewer => {
    const toolset = query.get('toolset')
    const within = toolset === null ? caller : enterToolset(registry, caller, toolset)
    const isWide = isOperator(caller)
    return {
      principal: caller,
      catalog: registry.catalogFor(isWide ? { ...within, seesEveryTenant: true } : within),
      hearsReasons: mayServe(caller, 'admin:sources', access),
    }
  }
  const route = (path: string, handle: (request: HttpRequest) => Promise<HttpReply>): ServerRoute =>
    adminRoute({ authenticate: (headers) => access.admit(headers) }, 'GET', `/admin/${path}`, handle)
  return [
    // Every page shows it, and the whole list may be long.
    route('tool-count', async (request) =>
      jsonReply(200, { count: viewerOf(request).catalog.bases().length }, NO_STORE),
    ),
    route('tools', async (request) => replyPrepared(request, await listings.of(viewerOf(request)), PRIVATE)),
    route('tools/:tool', async (request) => {
      const viewer = viewerOf(request)
      const tool = findTool(request, viewer, options)
      return jsonReply(200, { tool: await describe(tool, viewer, options, access) }, NO_STORE)
    }),
    route('tools/:tool/usage', async (request) => {
      const { principal, query } = request
      access.requireScope(principal, CALLS_SCOPE)
      const tool = findTool(request, viewerOf(request), options)
      const sinceMs = readMoment('since', query.get('since') ?? undefined)
      const isOneVersion = query.has('version')
      return jsonReply(200, await usageOf(tool, { isOneVersion, sinceMs, principal }, options), NO_STORE)
    }),
  ]
}

const CALLS_SCOPE = 'admin:calls'

/** Whether the caller may see what concerns the whole server. */
function mayServe(
  principal: Principal,
  scope: 'admin:sources' | 'admin:pins',
  access: OperatorAccess,
): boolean {
  if (isOperator(principal)) return true
  return principal.tenant === DEFAULT_TENANT && access.hasScope(principal, scope)
}

/** By any of its names, with a version behind it or in the query. Hidden and unknown are one (rule 2). */
function findTool(
  { params, query, principal }: HttpRequest,
  { catalog }: Viewer,
  { onUnknownTool }: ToolRoutesOptions,
): Tool {
  const asked = params.tool ?? ''
  const version = query.get('version')
  const name = version === null ? asked : `${asked.replace(/@[^@]*$/, '')}@${version}`
  const ref = parseToolName(name)
  const found = ref === undefined ? undefined : catalog.resolve(ref)
  if (found !== undefined) return found
  onUnknownTool?.(principal, name)
  throw fault('tool_not_found', notFound(name, catalog))
}

function notFound(name: string, catalog: Catalog): string {
  const [base = ''] = name.split('@', 1)
  const versions = catalog.versionsOf(base).map(({ parts }) => parts.version)
  if (versions.length > 0) return `${base} has no version of that number. It has ${versions.join(', ')}.`
  const shared = sharedNameHint(base, catalog.tools)
  if (shared !== undefined) return `There is no tool "${name}" here. ${shared}`
  return `There is no tool "${name}" here.${didYouMean(name, catalog.bases()) || ' "collet tools" and GET /admin/tools list them.'}`
}

/** How many of its latest calls are looked at for the definitions that they ran on. */
const CALLS_LOOKED_AT = 100

async function describe(tool: Tool, viewer: Viewer, options: ToolRoutesOptions, access: OperatorAccess) {
  const { registry, store, pins, sources, approvals, budgets, egressAllow, obstacle } = options
  const { principal, hearsReasons } = viewer
  const tenant = tenantWithin(principal)
  const { base } = tool.parts
  const toolkit = sourceToolkit(tool)
  const asked = { tool: base, limit: CALLS_LOOKED_AT, ...(tenant === undefined ? {} : { tenant }) }
  const seesCalls = store !== undefined && access.hasScope(principal, CALLS_SCOPE)
  const shown = shownToolsets(principal, registry.toolsets)
  return renderTool(tool, {
    viewer,
    held: await HeldCredentials.of(
      store,
      callerSeenBy(principal, options.openCaller()),
      await options.scopeHolders(),
    ),
    approvals: approvals(),
    budgets: budgets(),
    toolsets: [...shown].flatMap(([name, toolset]) => (isInToolset(toolset, tool) ? [name] : [])),
    egressAllow: hearsReasons ? egressAllow() : undefined,
    source: sources?.().find(({ key }) => toolkitOf(key) === toolkit),
    pin: await pins?.diff(tool.keptFrom?.pin ?? base),
    seesPins: mayServe(principal, 'admin:pins', access),
    calls: seesCalls ? (await store.list(asked)).calls : undefined,
    obstacle,
  })
}

const HOUR_MS = 3_600_000
const USUAL_HOURS = 24
/** A week of hours. */
const MAX_BUCKETS = 168

interface UsageQuestion {
  /** Whether the calls of other versions are left out. */
  readonly isOneVersion: boolean
  readonly sinceMs: number | undefined
  readonly principal: Principal
}

/**
 * Calls of one tool hour by hour: as many as there are hours since then, and for a longer time in wider steps. One walk
 * over the calls of that time, newest first: what is beyond its bound is missing from the oldest steps, and `whole` says so.
 */
async function usageOf(
  tool: Tool,
  { isOneVersion, sinceMs, principal }: UsageQuestion,
  options: ToolRoutesOptions,
) {
  const { store, clock } = options
  const nowMs = clock.nowMs()
  const fromMs = Math.min(sinceMs ?? nowMs - USUAL_HOURS * HOUR_MS, nowMs - 1)
  const hours = Math.max(1, Math.ceil((nowMs - fromMs) / HOUR_MS))
  const stepMs = HOUR_MS * Math.ceil(hours / MAX_BUCKETS)
  const tenant = tenantWithin(principal)
  const counted = Array.from({ length: Math.ceil((nowMs - fromMs) / stepMs) }, () => ({
    ...{ calls: 0, errors: 0 },
    durations: new Map<number, number>(),
  }))
  const durations = new Map<number, number>()
  const add = (row: UsageRow): void => {
    const { tookMs, calls } = row
    const bucket = counted[row.bucket]
    if (bucket === undefined) return
    bucket.calls += calls
    if (isError(row)) bucket.errors += calls
    if (tookMs === undefined) return
    const rounded = roundedMs(tookMs)
    for (const counts of [durations, bucket.durations])
      counts.set(rounded, (counts.get(rounded) ?? 0) + calls)
  }
  const asked = {
    ...{ tool: isOneVersion ? tool.id : tool.parts.base, sinceMs: fromMs, untilMs: nowMs, bucketMs: stepMs },
    ...(tenant === undefined ? {} : { tenant }),
  }
  const isWhole = store === undefined || (await countUsage(store, asked, add))
  const buckets = counted.map(({ durations: within, ...counts }, nth) => ({
    ...{ at: new Date(fromMs + nth * stepMs).toISOString(), ...counts },
    ...{ p50_ms: quantile(within, 0.5), p95_ms: quantile(within, 0.95) },
  }))
  const sum = (member: 'calls' | 'errors'): number =>
    buckets.reduce((total, bucket) => total + bucket[member], 0)
  return {
    usage: {
      tool: tool.parts.base,
      since: new Date(fromMs).toISOString(),
      step_seconds: stepMs / 1_000,
      calls: sum('calls'),
      errors: sum('errors'),
      p50_ms: quantile(durations, 0.5),
      p95_ms: quantile(durations, 0.95),
      buckets,
      whole: isWhole,
    },
  }
}
